// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include <QDistLock/lockedcalls.h>

#include <QtCore/qcoreapplication.h>
#include <QtCore/qglobalstatic.h>

namespace QDistLock {

struct LockedCallsHolder
{
    LockedCalls calls;
};

Q_GLOBAL_STATIC(LockedCallsHolder, holder)

LockedCalls *LockedCalls::instance()
{
    LockedCallsHolder *const alive = holder();
    return alive ? &alive->calls : nullptr;
}

LockedCalls::LockedCalls()
{
    if (const auto *const application = QCoreApplication::instance())
        moveToThread(application->thread());
}

LockedCalls::~LockedCalls() = default;

} // namespace QDistLock
