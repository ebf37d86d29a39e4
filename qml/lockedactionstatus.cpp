// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "lockedactionstatus.h"

#include <QtCore/qpointer.h>

#include <utility>

namespace QDistLock {

void LockedActionStatus::set(int state, int error, const QString &errorString)
{
    const bool wasIdle = isIdle();
    const bool stateChanges = std::exchange(m_state, state) != state;
    const bool errorChanges = std::exchange(m_error, error) != error;
    const bool errorStringChanges = std::exchange(m_errorString, errorString) != errorString;
    const bool idleChanges = wasIdle != (state == 0);

    const QPointer<LockedActionStatus> alive(this);
    if (idleChanges)
        Q_EMIT idleChanged();
    if (alive && errorChanges)
        Q_EMIT errorChanged();
    if (alive && errorStringChanges)
        Q_EMIT errorStringChanged();
    if (alive && stateChanges)
        Q_EMIT stateChanged();
    if (alive && idleChanges)
        Q_EMIT runningChanged();
}

} // namespace QDistLock
