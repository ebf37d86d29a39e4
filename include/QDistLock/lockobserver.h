// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#ifndef QDISTLOCK_LOCKOBSERVER_H
#define QDISTLOCK_LOCKOBSERVER_H

#include <QDistLock/distributedlock.h>
#include <QDistLock/qdistlock_export.h>

#include <QtCore/qstring.h>

#include <chrono>
#include <memory>

namespace QDistLock {

/*!
    What has happened to a lock, for a LockObserver. A plain value that any thread may use.
*/
struct LockEvent
{
    /// The name of the lock.
    QString name;
    /// The group in which it is counted, see LockMetrics.
    QString group;
    /// That of the hold, see DistributedLock::fencingToken; 0 of an acquire that failed.
    qint64 fencingToken = 0;
    /// LockObserver::acquired(): the lock counts in LockStatistics::contended.
    bool contended = false;
    /// LockObserver::acquired(): how long it took, from the acquire until the lock was held.
    std::chrono::nanoseconds waited{0};
    /// LockObserver::renewed(), released() and lost(): how long the lock has been held.
    std::chrono::nanoseconds held{0};
    /// LockObserver::failed(): why.
    DistributedLock::Error error = DistributedLock::NoError;
    /// LockObserver::lost(): why.
    DistributedLock::LossReason lossReason = DistributedLock::LeaseExpired;
};

/*!
    Hears what the locks of this process do, in each form (lock objects, scopes, annotated slots, QML), on all threads
    and servers: for an audit log, or a bridge to a library for metrics or tracing.

    Each event is one that LockMetrics counts, once: the acquired() of a group are LockStatistics::acquired, the
    failed() are LockStatistics::failed(), and so on. So there are events of which the application does not hear
    otherwise, as those of the locks of a MultiLock.

    Thread: that of the lock. Scopes and annotated slots have theirs in a thread of the library, so an observer of
    those is called by several threads, also at the same time. An event is reported soon after it has happened, by the
    event loop, in the order of the thread, before or after the signals of the lock. What has not been reported when a
    thread ends is reported then; in the main thread, when the application object is destroyed. Of a process that ends
    without that, and of locks that outlive it, the last events are not reported.

    A function of an observer may do what a slot may do: destroy the lock, install and remove observers, run an event
    loop. It must not block, because nothing else happens in its thread meanwhile: no lock is renewed. It should not
    throw: an exception is logged as a warning, and has no other effect.
*/
class QDISTLOCK_EXPORT LockObserver
{
public:
    /// Hears nothing before install().
    LockObserver() = default;
    /// Called by the last owner, which may be any thread.
    virtual ~LockObserver();

    /// A hold has begun: \a event has `contended` and `waited`.
    virtual void acquired(const LockEvent &event);
    /// An acquire has ended without the lock: \a event has `error`.
    virtual void failed(const LockEvent &event);
    /// A hold has ended as intended: \a event has `held`.
    virtual void released(const LockEvent &event);
    /// A hold has ended without a release: \a event has `held` and `lossReason`.
    virtual void lost(const LockEvent &event);
    /// The server has confirmed a renewal: \a event has `held`.
    virtual void renewed(const LockEvent &event);

    /// From now on \a observer hears each event, until it is removed; twice does the same as once. Thread-safe.
    static void install(std::shared_ptr<LockObserver> observer);
    /// From now on \a observer hears nothing, also nothing that has happened already. It does not wait: if another
    /// thread is calling \a observer at this moment, that call may end later, and the observer exists until then.
    /// Thread-safe.
    static void remove(const LockObserver *observer);

private:
    Q_DISABLE_COPY_MOVE(LockObserver)
};

} // namespace QDistLock

#endif
