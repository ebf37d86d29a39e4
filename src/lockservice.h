// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QDistLock/distributedlock.h>
#include <QDistLock/lockoptions.h>
#include <QDistLock/lockresult.h>

#include <QtCore/qdeadlinetimer.h>
#include <QtCore/qurl.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>

namespace QDistLock {

/*!
    One acquisition served by the background thread, shared by whoever needs to know of it.
    Thread-safe. Giving up the last reference releases it, or cancels it while it is under way.
*/
class LockHold
{
public:
    virtual ~LockHold() = default;

    /// Reads the clock: false from the local deadline on, and until it was acquired.
    virtual bool isHeld() const = 0;
    /// 0 until acquired; kept after the end.
    virtual qint64 fencingToken() const = 0;
    /// How the acquire ended; meaningful once it did.
    virtual LockResult result() const = 0;
    /// Never blocks; later calls do nothing. Before the acquire ended: cancels it. A later acquire of the
    /// same name by the same thread comes after it.
    virtual void release() = 0;
    /// Blocks until the server has confirmed it, or cannot: true = it was held until now and is given back.
    /// After \a atMost false, and it goes on by itself. Not in the service's thread.
    virtual bool releaseAndWait(std::optional<std::chrono::milliseconds> atMost = std::nullopt) = 0;
    /// Blocks until the acquire has ended; false after \a atMost. For one caller, once. Not in the
    /// service's thread.
    virtual bool waitUntilEnded(std::optional<std::chrono::milliseconds> atMost = std::nullopt) = 0;

    /// What it was acquired for begins. False, once LockService::UseLimit has given it up.
    virtual bool use() = 0;

    /// One more level: the work that acquired it is the first, each scope that re-enters adds one. False if the last
    /// one has ended already.
    bool reenter()
    {
        int levels = m_levels.load();
        while (levels > 0 && !m_levels.compare_exchange_weak(levels, levels + 1)) { }
        return levels > 0;
    }
    /// Ends a level, in any order. True for the last one: the caller must release it.
    [[nodiscard]] bool leave() { return m_levels.fetch_sub(1) == 1; }

private:
    std::atomic<int> m_levels{1};
};

/*!
    The background thread that keeps locks for code that may block its own thread: scoped locks and
    annotated methods. It has one registry per server and renews whatever the callers' threads do.
    Thread-safe. Started when first needed; ends with the application, when it releases what is held.
    Needs a QCoreApplication; a process that forks must not use it on both sides.
*/
class LockService
{
public:
    static LockService *instance();

    using Completion = std::function<void()>;
    /// If nobody has called use() one lease after the grant, and \a waitEnds has passed or is for ever, the hold is
    /// released, and \a passed is called in the service's thread: the holder's thread blocks, or runs no event loop.
    struct UseLimit
    {
        QDeadlineTimer waitEnds;
        std::function<void()> passed; ///< null = no limit
    };
    /// \a completion is called exactly once, in the service's thread, when the acquire ended (see
    /// LockHold::result()), unless the hold is released or given up first. Without an application, or once
    /// it ends, the acquire ends with CancelledError at once: \a completion is then called from inside.
    /// \a server is spelt as normalizedServer() does; an empty one is LockRegistry::defaultServer(). \a atOnce: where attempts to reach the server fail
    /// and go on, ends with the error of the last one instead of waiting for the next.
    virtual std::shared_ptr<LockHold> acquire(const QUrl &server, const QString &name, const LockOptions &options,
                                              Completion completion, bool atOnce = false, UseLimit useLimit = {}) = 0;
    /// Whether this is the service's own thread, where nothing may wait for it.
    virtual bool isCurrentThread() const = 0;

protected:
    ~LockService() = default;
};

/*!
    The locks that code running in this thread stands under: its scoped locks, and those of the annotated
    method that runs. What QDL_ASSERT_LOCKED asks, and where a nested scope finds what it re-enters.

    An entry ends with the shared pointer it was made from and the copies of it, in whatever thread; other pointers to the
    same hold have entries of their own. Servers are spelt as normalizedServer() does.
*/
class ThreadLocks
{
public:
    /// \a key is keyPrefix + name.
    static void push(const QUrl &server, const QString &key, const std::shared_ptr<LockHold> &hold);
    /// Does nothing if there is none.
    static void remove(const std::shared_ptr<LockHold> &hold);
    /// The innermost one still held; null if there is none.
    static std::shared_ptr<LockHold> find(const QUrl &server, QStringView keyPrefix, QStringView name);

    /// \a work has returned, but keeps \a hold until its future finishes. What this thread does meanwhile may be anything:
    /// it is not under the lock, and cannot re-enter it.
    static void addUnfinished(const QUrl &server, const QString &key, const std::shared_ptr<LockHold> &hold,
                              const QString &work);
    /// The work of this thread that keeps such a hold; empty if there is none.
    static QString unfinishedWork(const QUrl &server, const QString &key);
};

} // namespace QDistLock
