// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "annotations/waitingcall.h"

#include <deque>

namespace QDistLock {

/// What LockedCalls and futures have yet to learn of calls: the locks they lost, and that they ended without having
/// run. Reported one at a time, since each report runs code of the application, which may also destroy this object.
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
