// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "base/identity.h"
#include "base/leaseclock.h"
#include "engine/lockengine.h"

#include "redis/connection.h"

#include <QDistLock/lockinfo.h>

#include <QtCore/qhash.h>
#include <QtCore/qlist.h>
#include <QtCore/qset.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace QDistLock {

/// A client that holds a lock, or waits for one.
struct FoundClient
{
    QByteArray id;         ///< empty: none, or that of another library
    QByteArray connection; ///< number of the connection that it used when it made its token; empty if unknown
    Identity identity = {};
    bool isConnected = true;
    bool isIdentified = false;

    bool isSought() const { return !id.isEmpty() && !isIdentified; }
    LockClient toLockClient() const { return identity.client(id, isConnected); }
};

/// The connections that a server has listed.
class ClientList
{
public:
    /// \a list: the reply to CLIENT LIST.
    void add(const QByteArray &list);
    /// Sets `identity` and `isIdentified` if a connection in the list is that of \a client.
    void identify(FoundClient *client) const;
    /// Of the clients that have a connection.
    QSet<QByteArray> clientIds() const { return {m_identities.keyBegin(), m_identities.keyEnd()}; }

private:
    QHash<QByteArray, Identity> m_identities; ///< by client id
    QSet<QByteArray> m_nameless;              ///< numbers of connections
};

/// A lock as the server keeps it.
struct FoundLock
{
    /// \a holder: the token, the members of the key if several hold it together, or nil.
    FoundLock(const LockId &lock, const QtRedis::Reply &holder, std::chrono::milliseconds remaining);
    /// \a clients: its holders, identified.
    LockInfo heldBy(const QList<FoundClient> &clients) const;

    LockInfo info;
    bool isShared = false; ///< several may hold it together
    QList<FoundClient> holders;
};

/*!
    Finds out which process holds a lock, or waits for it: the token in the key or queue has the client's id, and the
    name of that client's connection has the process, see ClientName. docs/protocol.md describes which commands are
    sent, and when.

    If the user may not list connections, or there are too many of them, clients that are not found count as connected.
    Thread: that of the connection.
*/
class HolderLookup
{
public:
    using Completion = std::function<void(const QList<FoundClient> &)>;

    /// \a connection outlives this.
    explicit HolderLookup(QtRedis::Connection *connection)
        : m_connection(connection)
    {
    }

    /// Sets `identity` and `isConnected` of \a clients. Must be called from a handler of the connection; \a completion
    /// may be called before it returns.
    void identify(const QList<FoundClient> &clients, Completion completion);
    /// The same for who asks all the time: by a list of all connections that is some seconds old at most, and only for
    /// clients that are not in it, by the numbers of their connections.
    void identifyByRecent(const QList<FoundClient> &clients, Completion completion);
    /// The ids of all clients, by such a list; none if there is no list. \a completion may be called before it returns.
    void listClients(std::function<void(const QSet<QByteArray> &ids)> completion);
    /// The error reply with which the server has refused to list its connections; empty unless it was a moment ago.
    QByteArray refusal() const { return m_refusedUntil.hasExpired() ? QByteArray() : m_refusal; }
    /// A list of all connections would cost too much, or the server does not say how many there are: clients that are
    /// not found count as connected.
    bool isRecentTooLong() const;
    /// As LockEngine::findHolder().
    using ForText = std::function<void(const std::optional<LockInfo> &)>;
    bool find(const LockEngine::Waiter &waiter, ForText completion);

private:
    struct Search;
    using SearchPointer = std::shared_ptr<Search>;

    bool takeFromBudget();
    void findSharers(const LockId &lock, std::chrono::milliseconds remaining, int queueLength, ForText completion);
    void findDeadline(const FoundLock &lock, const QByteArray &value, ForText completion);
    void beginForText(const FoundLock &lock, ForText completion);
    void begin(const SearchPointer &search);
    /// Unless there are too many connections.
    void findInAll(const SearchPointer &search);
    void listAll(const SearchPointer &search);
    /// Identifies clients among the connections that \a selection selects, and calls \a next with their list. If the
    /// server does not list them, the search ends.
    void list(const QList<QByteArray> &selection, const SearchPointer &search,
              std::function<void(const QByteArray &clients)> next);

    struct Recent;
    void listRecent();
    void recentListed(const std::shared_ptr<Recent> &recent);
    void findByRecent(const QList<FoundClient> &clients, const Completion &completion, bool isNew = false);
    void foundByRecent(const QList<FoundClient> &clients, const Completion &completion, bool isNew);
    void waitForRecent(std::function<void()> search);
    void refused(const QtRedis::Reply &reply);

    QtRedis::Connection *const m_connection;
    std::shared_ptr<Recent> m_recent; ///< null before the first list
    std::vector<std::function<void()>> m_waitForRecent;
    QSet<QByteArray> m_missing; ///< ids of clients that had no connection
    QByteArray m_refusal;
    Deadline m_refusedUntil;      ///< the server has refused to list connections
    Deadline m_countRefusedUntil; ///< the server has refused to count them
    Deadline m_mayListAllFrom;    ///< for an error text
    Deadline m_budgetEnds;
    int m_budget = 0; ///< searches for error texts that are left until then
};

} // namespace QDistLock
