// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "annotations/waitingcall.h"

#include <deque>

namespace QDistLock {

/// The reports that a thread has not made yet: of locks that calls have lost, and of calls that ended without having
/// run. Each runs code of the application, which may destroy this object.
class CallReports
{
public:
    bool isEmpty() const { return m_losses.empty() && m_ended.empty(); }
    void add(const QList<LockedCallInfo> &losses);
    /// \a request is the one that failed; -1 if the failure is about no single lock.
    void add(CallPointer call, qsizetype request, const LockResult &result);
    /// Reports the first loss, or else the first call that ended. There must be one.
    void reportOne();

private:
    struct Ended
    {
        CallPointer call;
        qsizetype request;
        LockResult result;
    };
    std::deque<LockedCallInfo> m_losses;
    std::deque<Ended> m_ended;
};

} // namespace QDistLock
