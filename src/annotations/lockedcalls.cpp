// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include <QDistLock/lockedcalls.h>

#include <QtCore/qcoreapplication.h>
#include <QtCore/qglobalstatic.h>

namespace QDistLock {

namespace {

Q_GLOBAL_STATIC(LockedCalls, lockedCalls)

} // namespace

LockedCalls *LockedCalls::instance()
{
    return lockedCalls();
}

LockedCalls::LockedCalls()
{
    if (const auto *const application = QCoreApplication::instance())
        moveToThread(application->thread());
}

LockedCalls::~LockedCalls() = default;

} // namespace QDistLock
