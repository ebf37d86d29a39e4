// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "redis/failure.h"
#include "redis/serverurl.h"
#include "redis/topology/slotmap.h"

#include <QtCore/qobject.h>

#include <functional>
#include <memory>
#include <optional>

namespace QtRedis {

/*!
    Finds out which master of a Redis Cluster serves which slot, and follows changes.

    At first all nodes of the URL are asked at the same time, with a time-out of 1 s, or of 4 s until more than half of
    them have answered or are named in an answer: they must belong to one cluster.
    Later up to three nodes are asked when the map may be outdated, at most once a second, and every 300 ms or so as
    long as a master cannot be used that somebody needs, and those of the URL with them if none has answered the last
    time; but a node that refuses the login only after seconds. A node that does not know most of the known masters by
    their ids belongs to another cluster, and its view does not count, unless no node that is asked belongs to the known
    one, and one of its masters has stayed in that one, or most of the masters' addresses belong to it. The connections
    for that are closed when they were not used for 10 s.

    Thread: the one it lives in, with an event loop. Errors: failure() and errorString(). Nothing blocks. No signal is
    emitted from inside a member function but moved().
*/
class ClusterWatch : public QObject
{
    Q_OBJECT
public:
    explicit ClusterWatch(const ServerUrl &cluster, QObject *parent = nullptr);
    ~ClusterWatch() override;

    /// Must be unique; see Connection::setClientName().
    void setClientName(const QByteArray &name);
    /// Whether somebody needs that master, or any: otherwise nobody is asked again.
    using IsNeeded = std::function<bool(const std::optional<Endpoint> &master)>;
    void setNeeded(IsNeeded isNeeded);

    /// A master may be needed from now on. Asks unless the map is known, and no master is suspected.
    void open();
    /// The map may be outdated: asks again, at most once a second. The node at \a informed, which knows better, is
    /// asked with the others.
    void refresh(const std::optional<Endpoint> &informed = std::nullopt);
    enum Suspicion {
        None,
        Silent, ///< it does not reply
        Failed  ///< it cannot be reached
    };
    /// A master that cannot be used at present: another node may replace it.
    void setSuspect(const Endpoint &master, Suspicion suspicion);
    /// The node at \a from has replied that \a owner serves \a slot; mapChanged() is emitted if that is new.
    void moved(int slot, const Endpoint &owner);

    bool isKnown() const;
    const SlotMap &map() const;
    /// Why the map is not known; names a node, never its password.
    Failure failure() const;
    /// The same; or, if the map is known, that only nodes of another cluster can be asked.
    QString errorString() const;

Q_SIGNALS:
    void mapChanged();
    /// The map could not be found out, and is not known.
    void failed();

private:
    Q_DISABLE_COPY_MOVE(ClusterWatch)
    class Private;
    std::unique_ptr<Private> d;
};

} // namespace QtRedis
