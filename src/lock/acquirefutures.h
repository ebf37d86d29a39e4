// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "lock/looplessfuture.h"

#include <QDistLock/lockresult.h>

#include <QtCore/qfuturewatcher.h>
#include <QtCore/qpromise.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>

namespace QDistLock {

/// The futures of the acquires of one object that have not ended, by the ids of the acquires. Thread: that of the
/// object.
class AcquireFutures
{
public:
    /// Shared with endWithoutEventLoop().
    struct Promise : FutureEnd
    {
        /// Does nothing if the future has ended.
        void finish(const LockResult &result);

        QPromise<LockResult> promise;
    };
    struct Pending
    {
        /// The acquire has succeeded with \a result; succeeded() must follow. False if the future takes no result,
        /// because it was cancelled or has ended: nobody would know of the hold.
        bool succeed(const LockResult &result);
        /// Ends the future, after the signals.
        void succeeded();
        void fail(const LockResult &result);

        std::shared_ptr<Promise> end;                                  ///< null if there is no future
        std::unique_ptr<QFutureWatcher<LockResult>> watcher = nullptr; ///< for the cancellation of the future
        bool isTaken = false;                                          ///< succeed() has taken the end
    };

    /// \a cancelled is called when the future is cancelled, as long as \a owner exists.
    QFuture<LockResult> add(quint64 id, QObject *owner, std::function<void()> cancelled);
    /// For an object that is being destroyed: a future that ends with \a result, but not at once. Otherwise a
    /// continuation that acquires again on each failure would keep the destructor from returning.
    static QFuture<LockResult> ended(const LockResult &result);
    bool contains(quint64 id) const { return m_pending.find(id) != m_pending.end(); }
    /// See endWithoutEventLoop(). \a id has a future.
    void watchEventLoop(quint64 id, QObject *owner, const QString &subject, std::chrono::milliseconds wait,
                        const QString &lock = {});
    /// Whether the future of \a id was cancelled, or has ended without an event loop.
    bool isUnwanted(quint64 id) const;
    Pending extract(quint64 id);
    void endAll(const LockResult &result);

private:
    std::map<quint64, Pending> m_pending;
};

} // namespace QDistLock
