// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "history.h"
#include "schedule.h"

#include <QtCore/qhash.h>
#include <QtCore/qobject.h>
#include <QtCore/qurl.h>

#include <functional>

namespace Support {
class RedisServer;
}

namespace Chaos {

/*!
    Several servers that keep all locks together and replace their masters, and the faults of the whole. Records for
    each fail-over what the new master had of each lock when it was promoted.
    Thread: the one that constructed it, with a running event loop, which waits for each answer.
*/
class Service : public QObject
{
public:
    using Undo = std::function<void()>;

    Service(History *history, const QList<QByteArray> &locks);

    const QList<QByteArray> &locks() const { return m_locks; }
    virtual bool start() = 0;
    /// Where the links of each worker lead to.
    virtual QList<quint16> linkedPorts() const { return {}; }
    /// Of the locks, for a worker that has these links.
    virtual QUrl url(const QList<quint16> &linkPorts) const = 0;
    /// All that run or may run again.
    virtual QList<Support::RedisServer *> servers() = 0;
    /// What there is of locks that nobody holds or waits for, besides the keys of the servers.
    virtual QStringList left() { return {}; }
    /// Nothing is left of a fault.
    virtual bool isHealthy() = 0;
    /// Starts nothing more by itself.
    virtual void quiet() {}
    /// The fault that has been injected has done its work, as far as it is known: a master was replaced after the first
    /// \a failOvers.
    virtual bool hasWorked(const Fault &fault, int failOvers) const = 0;
    /// Of Partitioned it is the part that servers have. Blocks if a server starts again.
    virtual Undo inject(const Fault &fault) = 0;
    int failOvers() const { return m_failOvers; }

protected:
    /// What a server has of a lock.
    struct Kept
    {
        qint64 fence = 0;   ///< the newest fencing token
        qint64 expires = 0; ///< boot time at which the lock's key ends; 0 if there is none
    };

    static QByteArray keyOf(const QByteArray &lock) { return "lock:" + lock; }
    History *history() const { return m_history; }
    /// The server at \a port was promoted at some time between \a from and \a to.
    void recordFailOver(quint16 port, qint64 from, qint64 to, const QHash<QByteArray, Kept> &keptByLock);

private:
    History *const m_history;
    const QList<QByteArray> m_locks;
    int m_failOvers = 0;
};

} // namespace Chaos
