// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QDistLock/distributedlock.h>

#include <QtCore/qstring.h>

#include <utility>

namespace QDistLock {

/// Why an operation failed; NoError if it did not. Made by passing(), permanent() and byRule(). Thread: a plain value.
struct EngineError
{
    /// Why LeaseMachine ends an acquire, or repeats it, by its own rules.
    enum Rule : quint8 {
        NoRule,
        Taken,       ///< somebody else holds the lock, and one attempt was all that was allowed
        OthersTaken, ///< the lock is free, but not another one that was to be acquired together with it
        RetriesUsed, ///< somebody else has held it during all retries
        WaitIsOver,  ///< somebody else has held it during the whole wait
        NoReply,     ///< the server did not reply within the wait
        LateReply,   ///< the reply took longer than the lease
        Cancelled    ///< the acquire was cancelled
    };

    DistributedLock::Error code = DistributedLock::NoError;
    /// Names the server, the command, the reason and what to do about it, but neither a lock nor a secret. Empty if
    /// there is a rule: withText() of distributedlock_p.h has its text.
    QString text = {};
    Rule rule = NoRule;
    bool isPermanent = false;     ///< another attempt fails, too, until somebody changes a setting
    bool isMaybeExecuted = false; ///< the server may have executed the command, or may still execute it
    bool isSlotMoving = false;    ///< in a cluster: another node has the lock's keys, or some of them
    bool isOfServer = false;      ///< all locks that it keeps meet the same: it is logged once for all of them
    /// The connection was lost, but another attempt needs no pause: in a cluster another node has taken over, in a
    /// quorum only idle connections were closed. No error for the application unless that attempt fails, too.
    bool canRetryAtOnce = false;

    /// Another attempt may succeed.
    static EngineError passing(DistributedLock::Error code, const QString &text) { return {code, text}; }
    static EngineError permanent(DistributedLock::Error code, const QString &text)
    {
        return {code, text, NoRule, true};
    }
    static EngineError byRule(DistributedLock::Error code, Rule rule) { return {code, {}, rule}; }
    EngineError ofServer() &&
    {
        isOfServer = true;
        return std::move(*this);
    }
    EngineError maybeExecuted() &&
    {
        isMaybeExecuted = true;
        return std::move(*this);
    }

    explicit operator bool() const { return code != DistributedLock::NoError; }
};

} // namespace QDistLock
