// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "annotations/waitingcall.h"
#include "base/leaseclock.h"

#include <QtCore/qhash.h>
#include <QtCore/qmutex.h>

#include <chrono>
#include <utility>

namespace QDistLock {

/// Logs the first of a burst of calls of one method that fail in the same way, and later how many others failed.
/// Thread-safe.
class FailureLog
{
public:
    static FailureLog *instance();

    /// \a dropped: no future reports the failure.
    void log(QtMsgType type, const LockedCall &call, const LockedCallInfo &info, bool dropped);
    /// Logs the number of failures of each burst that has ended, or of \a all.
    void summarise(bool all);

private:
    /// A burst ends when no call failed for this long.
    static constexpr std::chrono::milliseconds Quiet = std::chrono::seconds(3);
    /// A longer burst is logged as several.
    static constexpr std::chrono::milliseconds Longest = std::chrono::minutes(1);

    struct Burst
    {
        qint64 failures = 0;
        Deadline quiet;
        Deadline longest{Longest};
    };
    void scheduleSummary();

    QMutex m_mutex;
    QHash<std::pair<QString, DistributedLock::Error>, Burst> m_bursts; ///< by the name of the method
};

} // namespace QDistLock
