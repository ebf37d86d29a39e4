// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/redis/holderlookup.h"

#include "engine/protocolconstants.h"
#include "engine/redis/clientname.h"
#include "engine/redis/commandbatch.h"
#include "engine/redis/deadlinevalue.h"
#include "engine/redis/rediskeys.h"
#include "engine/token.h"

#include <QDistLock/impl/namebytes.h>

#include <algorithm>
#include <utility>

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace QDistLock {

namespace {

/// A program that polls with tryAcquire() must not pay for texts that nobody reads.
constexpr int SearchesPerSecond = 100;
/// When many waiters give up together, the last of them may list all connections.
constexpr int FewWaiters = 16;
/// The server needs about 1.5 µs for each connection in a list. If n clients wait for n² times this long between their
/// lists, these take 1 % of its time.
constexpr std::chrono::microseconds PauseUnit = 150us;
/// A line has about 350 bytes, of at most 16 MiB that a reply may have. A longer reply would end the connection.
constexpr qint64 MostConnections = 10'000;
/// The same for a list that is made again and again: the server needs 3 ms for it.
constexpr qint64 MostConnectionsOften = 2'000;
/// How long a list of connections counts.
constexpr milliseconds RecentLife = 4s;
/// After a refusal: each attempt adds to the server's ACL LOG.
constexpr milliseconds RefusalPause = 1min;

/// The value that follows \a key in a line of CLIENT LIST; empty if there is none.
QByteArray valueOf(QByteArrayView line, QByteArrayView key)
{
    const qsizetype at = line.indexOf(key);
    if (at < 0)
        return {};
    const QByteArrayView value = line.sliced(at + key.size());
    const qsizetype end = value.indexOf(' ');
    return (end < 0 ? value : value.first(end)).toByteArray();
}

} // namespace

void ClientList::add(const QByteArray &list)
{
    const QList<QByteArray> lines = list.split('\n');
    for (const QByteArray &line : lines) {
        const QByteArray name = valueOf(line, " name=");
        if (name.isEmpty())
            m_nameless.insert(valueOf(line, "id="));
        else if (const auto client = ClientName::parse(name))
            m_identities.insert(client->client, client->identity);
    }
}

void ClientList::identify(FoundClient *client) const
{
    if (!client->isSought())
        return;
    const auto identity = m_identities.constFind(client->id);
    if (identity != m_identities.cend()) {
        client->identity = *identity;
        client->isIdentified = true;
    } else if (!client->connection.isEmpty() && m_nameless.contains(client->connection)) {
        client->isIdentified = true; // its user may not name the connection
    }
}

FoundLock::FoundLock(const LockId &lock, const QtRedis::Reply &holder, milliseconds remaining)
{
    info.name = Detail::nameText(lock.name());
    QList<QtRedis::Reply> tokens;
    if (holder.type == QtRedis::Reply::Array) {
        tokens = holder.elements;
        isShared = true;
        if (!tokens.isEmpty() && Token::isReader(tokens.first().text))
            info.readerCount = int(tokens.size());
        else
            info.permitsTaken = int(tokens.size());
        // A token that takes several permits has several members, and only one of them has the form of a token.
        tokens.removeIf([](const QtRedis::Reply &member) { return Token::clientOf(member.text).isEmpty(); });
        if (tokens.isEmpty() && !holder.elements.isEmpty())
            tokens = {holder.elements.first()}; // somebody else has deleted the others
    } else if (holder.type == QtRedis::Reply::Bulk) {
        tokens = {holder};
    }
    info.held = !tokens.isEmpty();
    if (!info.held)
        return;
    info.remaining = remaining;
    for (const QtRedis::Reply &token : std::as_const(tokens))
        holders.append({Token::clientOf(token.text), Token::connectionOf(token.text)});
    info.foreign = holders.first().id.isEmpty();
    info.holder = Identity().client(holders.first().id, true);
}

LockInfo FoundLock::heldBy(const QList<FoundClient> &clients) const
{
    LockInfo result = info;
    if (info.held)
        result.holder = clients.first().toLockClient();
    if (isShared) {
        for (const FoundClient &client : clients)
            result.holders.append(client.toLockClient());
    }
    return result;
}

struct HolderLookup::Search
{
    QList<FoundClient> clients;
    bool isForText;
    bool mayListAll;
    Completion completion;

    bool hasEnded() const
    {
        return std::none_of(clients.begin(), clients.end(), [](const FoundClient &c) { return c.isSought(); });
    }

    /// \a list: the reply to CLIENT LIST.
    void identifyBy(const QByteArray &list)
    {
        ClientList listed;
        listed.add(list);
        for (FoundClient &client : clients)
            listed.identify(&client);
    }

    void finish() { completion(clients); }
};

void HolderLookup::identify(const QList<FoundClient> &clients, Completion completion)
{
    begin(std::make_shared<Search>(Search{clients, false, true, std::move(completion)}));
}

struct HolderLookup::Recent
{
    ClientList clients;
    bool isWhole = false; ///< a client that is not in it had no connection
    bool isTooLong = false;
    bool isListed = false;
    Deadline until;
};

void HolderLookup::identifyByRecent(const QList<FoundClient> &clients, Completion completion)
{
    const bool isSought = std::any_of(clients.begin(), clients.end(), [](const auto &c) { return c.isSought(); });
    if (!isSought || !m_refusedUntil.hasExpired())
        return completion(clients);
    if (m_recent && m_recent->isListed && !m_recent->until.hasExpired())
        return findByRecent(clients, completion);
    waitForRecent([this, clients, completion = std::move(completion)] { findByRecent(clients, completion, true); });
}

void HolderLookup::listClients(std::function<void(const QSet<QByteArray> &ids)> completion)
{
    if (!m_refusedUntil.hasExpired())
        return completion({});
    if (m_recent && m_recent->isListed && !m_recent->until.hasExpired())
        return completion(m_recent->clients.clientIds());
    waitForRecent([this, completion = std::move(completion)] { completion(m_recent->clients.clientIds()); });
}

void HolderLookup::waitForRecent(std::function<void()> search)
{
    const bool isComing = m_recent && !m_recent->isListed;
    m_waitForRecent.push_back(std::move(search));
    if (!isComing)
        listRecent();
}

bool HolderLookup::isRecentTooLong() const
{
    return m_recent && m_recent->isTooLong;
}

void HolderLookup::listRecent()
{
    const auto recent = m_recent = std::make_shared<Recent>();
    if (m_missing.size() > MostConnections)
        m_missing.clear();
    m_connection->send({"INFO", "clients"}, LongestTimeout, [this, recent](const QtRedis::CommandResult &counted) {
        bool isKnown = false;
        const qint64 count = QtRedis::infoField(counted.reply.text, "connected_clients").toLongLong(&isKnown);
        recent->isTooLong = counted.outcome == QtRedis::CommandResult::Replied
                && (!isKnown || count > MostConnectionsOften);
        if (!isKnown || recent->isTooLong)
            return recentListed(recent);
        m_connection->send({"CLIENT", "LIST", "TYPE", "normal"}, LongestTimeout,
                           [this, recent](const QtRedis::CommandResult &result) {
                               refused(result.reply);
                               if (result.reply.type == QtRedis::Reply::Bulk) {
                                   recent->clients.add(result.reply.text);
                                   recent->isWhole = true;
                               }
                               recentListed(recent);
                           });
    });
}

void HolderLookup::recentListed(const std::shared_ptr<Recent> &recent)
{
    recent->isListed = true;
    recent->until = Deadline(RecentLife);
    const auto waiting = std::exchange(m_waitForRecent, {});
    for (const auto &search : waiting)
        search();
}

/// \a isNew: the list was requested after the clients had been read.
void HolderLookup::findByRecent(const QList<FoundClient> &clients, const Completion &completion, bool isNew)
{
    QSet<QByteArray> numbers;
    for (FoundClient client : clients) {
        m_recent->clients.identify(&client);
        if (client.isSought() && !client.connection.isEmpty())
            numbers.insert(client.connection);
    }
    if (numbers.isEmpty() || !m_refusedUntil.hasExpired())
        return foundByRecent(clients, completion, isNew);
    m_connection->send(QList<QByteArray>{"CLIENT", "LIST", "ID"} + numbers.values(), LongestTimeout,
                       [this, clients, completion, isNew](const QtRedis::CommandResult &result) {
                           refused(result.reply);
                           if (result.reply.type == QtRedis::Reply::Bulk)
                               m_recent->clients.add(result.reply.text);
                           foundByRecent(clients, completion, isNew);
                       });
}

void HolderLookup::foundByRecent(const QList<FoundClient> &clients, const Completion &completion, bool isNew)
{
    QList<FoundClient> found = clients;
    bool isDoubtful = false;
    for (FoundClient &client : found) {
        m_recent->clients.identify(&client);
        client.isConnected = !client.isSought() || !m_recent->isWhole;
        if (client.isConnected)
            m_missing.remove(client.id);
        else if (isNew)
            m_missing.insert(client.id);
        else
            isDoubtful |= !m_missing.contains(client.id); // it may have connected again after the list was made
    }
    if (isDoubtful)
        waitForRecent([this, clients, completion] { findByRecent(clients, completion, true); });
    else
        completion(found);
}

bool HolderLookup::find(const LockEngine::Waiter &waiter, ForText completion)
{
    if (!takeFromBudget())
        return false;
    const auto remaining = std::make_shared<milliseconds>();
    const auto queueLength = std::make_shared<int>();
    m_connection->send({"PTTL", waiter.lock.key()}, LongestTimeout, [remaining](const QtRedis::CommandResult &result) {
        *remaining = milliseconds(result.reply.integer);
    });
    m_connection->send(
            {"ZCARD", RedisKeys::queue(waiter.lock)}, LongestTimeout,
            [queueLength](const QtRedis::CommandResult &result) { *queueLength = int(result.reply.integer); });
    m_connection->send({"GET", waiter.lock.key()}, LongestTimeout,
                       [this, waiter, remaining, queueLength,
                        completion = std::move(completion)](const QtRedis::CommandResult &result) {
                           const QtRedis::Reply &token = result.reply;
                           if (token.errorCode() == "WRONGTYPE")
                               return findSharers(waiter.lock, *remaining, *queueLength, completion);
                           const bool isKnown = result.outcome == QtRedis::CommandResult::Replied
                                   && (token.type == QtRedis::Reply::Bulk || token.type == QtRedis::Reply::Nil);
                           // The server may hand the lock over while the waiter gives up.
                           if (!isKnown || token.text == waiter.token)
                               return completion(std::nullopt);
                           FoundLock lock(waiter.lock, token, *remaining);
                           lock.info.queueLength = *queueLength;
                           if (*remaining == -1ms && DeadlineValue::hasForm(token.text))
                               findDeadline(lock, token.text, completion);
                           else
                               beginForText(lock, completion);
                       });
    return true;
}

/// The key is no string.
void HolderLookup::findSharers(const LockId &lock, milliseconds remaining, int queueLength, ForText completion)
{
    m_connection->send({"ZRANGE", lock.key(), "0", QByteArray::number(Protocol::ShownAtMost - 1)}, LongestTimeout,
                       [this, lock, remaining, queueLength,
                        completion = std::move(completion)](const QtRedis::CommandResult &result) {
                           const QtRedis::Reply &tokens = result.reply;
                           if (tokens.elements.isEmpty() || !Token::isShared(tokens.elements.first().text))
                               return completion(std::nullopt);
                           FoundLock found(lock, tokens, remaining);
                           found.info.queueLength = queueLength;
                           beginForText(found, completion);
                       });
}

/// The key has no time to live, and perhaps its \a value is the end of the lease.
void HolderLookup::findDeadline(const FoundLock &lock, const QByteArray &value, ForText completion)
{
    m_connection->send({"TIME"}, LongestTimeout,
                       [this, lock, value, completion = std::move(completion)](const QtRedis::CommandResult &result) {
                           FoundLock found = lock;
                           const auto now = DeadlineValue::serverTime(result.reply);
                           const auto left = now > 0us ? DeadlineValue::timeLeft(value, now) : std::nullopt;
                           if (left)
                               found.info.remaining = DeadlineValue::shown(*left);
                           beginForText(found, completion);
                       });
}

void HolderLookup::beginForText(const FoundLock &lock, ForText completion)
{
    begin(std::make_shared<Search>(
            Search{lock.holders, true, lock.info.queueLength <= FewWaiters,
                   [lock, completion = std::move(completion)](const QList<FoundClient> &clients) {
                       completion(lock.heldBy(clients));
                   }}));
}

bool HolderLookup::takeFromBudget()
{
    if (m_budgetEnds.hasExpired()) {
        m_budgetEnds = Deadline(1s);
        m_budget = SearchesPerSecond;
    }
    if (m_budget == 0)
        return false;
    --m_budget;
    return true;
}

/// By the numbers of the clients' connections first.
void HolderLookup::begin(const SearchPointer &search)
{
    QSet<QByteArray> numbers;
    for (const FoundClient &client : std::as_const(search->clients)) {
        if (client.isSought() && !client.connection.isEmpty())
            numbers.insert(client.connection);
    }
    if (numbers.isEmpty())
        return findInAll(search);
    list(QList<QByteArray>{"ID"} + numbers.values(), search, [this, search](const QByteArray &) { findInAll(search); });
}

void HolderLookup::findInAll(const SearchPointer &search)
{
    const bool isTooCostly = search->isForText && (!m_mayListAllFrom.hasExpired() || !search->mayListAll);
    if (search->hasEnded() || isTooCostly || !m_countRefusedUntil.hasExpired())
        return search->finish();
    m_connection->send({"INFO", "clients"}, LongestTimeout, [this, search](const QtRedis::CommandResult &result) {
        if (result.reply.isError())
            m_countRefusedUntil = Deadline(RefusalPause);
        bool isKnown = false;
        const qint64 count = QtRedis::infoField(result.reply.text, "connected_clients").toLongLong(&isKnown);
        if (isKnown && count <= MostConnections)
            listAll(search);
        else
            search->finish();
    });
}

void HolderLookup::listAll(const SearchPointer &search)
{
    list({"TYPE", "normal"}, search, [this, search](const QByteArray &clients) {
        const qint64 count = clients.count('\n');
        if (search->isForText)
            m_mayListAllFrom = Deadline(count * count * PauseUnit);
        for (FoundClient &client : search->clients) {
            if (client.isSought())
                client.isConnected = false;
        }
        search->finish();
    });
}

void HolderLookup::refused(const QtRedis::Reply &reply)
{
    if (!reply.isError())
        return;
    m_refusal = reply.text;
    m_refusedUntil = Deadline(RefusalPause);
}

void HolderLookup::list(const QList<QByteArray> &selection, const SearchPointer &search,
                        std::function<void(const QByteArray &clients)> next)
{
    if (!m_refusedUntil.hasExpired())
        return search->finish();
    m_connection->send(QList<QByteArray>{"CLIENT", "LIST"} + selection, LongestTimeout,
                       [this, search, next = std::move(next)](const QtRedis::CommandResult &result) {
                           refused(result.reply);
                           if (result.reply.type != QtRedis::Reply::Bulk) // there may be no reply
                               return search->finish();
                           search->identifyBy(result.reply.text);
                           next(result.reply.text);
                       });
}

} // namespace QDistLock
