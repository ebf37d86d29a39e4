// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "monitor/clientwatch.h"

#include "lock/lockregistry_p.h"

#include <algorithm>
#include <utility>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace QDistLock {

namespace {

constexpr milliseconds TickInterval = 1s;
/// Between two lists of the clients; after a refusal, as each attempt adds to the server's ACL LOG.
constexpr int TicksPerList = 5;
constexpr int TicksAfterRefusal = 60;
/// All reports together: not more than 500 a second.
constexpr milliseconds ShortestInterval = 1s;
constexpr milliseconds IntervalPerClient = 2ms;
/// How long a client reports.
constexpr std::chrono::seconds WatchDuration = 30s;
/// After that time it is asked to go on. If its reports are missing, it is asked each time that the clients are listed:
/// perhaps it was not listening.
constexpr milliseconds AskedAgain = 20s;
constexpr int FewMissed = 2;
/// A client that was not asked before is asked each second at first.
constexpr int QuickAttempts = 3;
/// A client counts as silent when this many reports in a row are missing.
constexpr int SilentIntervals = 3;
/// Our own reports do not arrive, so nobody else's would.
constexpr int DeafTicks = 10;

} // namespace

ClientWatch::ClientWatch(LockRegistryPrivate *registry)
    : m_registry(registry)
{
    EngineError ignored; // LockWatch reports it
    LockEngine *const engine = registry->engine(&ignored);
    if (!engine || !engine->hasMessages())
        return;
    connect(engine, &LockEngine::messageReceived, this, &ClientWatch::messageReceived);
    connect(engine, &LockEngine::stateChanged, this, [this] {
        if (!readyEngine())
            return;
        for (Client &client : m_clients) { // it must connect again, too
            client.missed = 0;
            client.seemsSilent = false;
        }
        m_deafTicks = 0;
        m_untilAsking = 0;
        tick();
    });
    connect(&m_ticks, &QTimer::timeout, this, &ClientWatch::tick);
    m_ticks.start(TickInterval);
    QMetaObject::invokeMethod(this, &ClientWatch::tick, Qt::QueuedConnection);
}

bool ClientWatch::isSilent(const QString &client) const
{
    const auto found = m_clients.constFind(client.toLatin1());
    return found != m_clients.cend() && found->isSilent;
}

LockEngine *ClientWatch::readyEngine() const
{
    LockEngine *const engine = m_registry ? m_registry->engine() : nullptr;
    return engine && engine->state() == LockEngine::Ready ? engine : nullptr;
}

void ClientWatch::tick()
{
    LockEngine *const engine = readyEngine();
    if (!engine)
        return;
    if (!m_clients.contains(engine->clientId()) || ++m_deafTicks <= FewMissed)
        countMissed();
    else if (m_deafTicks == DeafTicks)
        Q_EMIT changed();
    if (--m_untilAsking < 0)
        askAll();
}

void ClientWatch::countMissed()
{
    for (Client &client : m_clients) {
        if (!client.hasReported)
            continue;
        const auto interval = int(std::chrono::ceil<std::chrono::seconds>(client.interval).count());
        ++client.missed;
        if (client.missed == FewMissed * interval) // asked again
            m_untilAsking = 0;
        client.seemsSilent = client.missed > 1 + SilentIntervals * interval;
        if (client.seemsSilent && !client.isSilent) // unless it is gone
            m_untilAsking = 0;
    }
}

QString ClientWatch::problem() const
{
    const QString reason = m_sendError ? m_sendError.text
            : m_deafTicks >= DeafTicks ? u"the server passes on no messages to this client"_s
                                       : QString();
    return reason.isEmpty() ? QString()
                            : u"waiting times, past holds and silent holders are not known: %1"_s.arg(reason);
}

void ClientWatch::askAll()
{
    m_untilAsking = m_sendError.code == DistributedLock::PermissionError ? TicksAfterRefusal : TicksPerList;
    readyEngine()->clients([this, alive = QPointer(this)](const EngineError &error, const QSet<QByteArray> &ids) {
        if (alive && readyEngine())
            clientsListed(error, ids);
    });
}

/// \a error: some are missing, and LockWatch says why.
void ClientWatch::clientsListed(const EngineError &error, const QSet<QByteArray> &ids)
{
    QList<QByteArray> gone;
    for (auto client = m_clients.keyBegin(); client != m_clients.keyEnd() && !error; ++client) {
        if (!ids.contains(*client))
            gone.append(*client);
    }
    for (const QByteArray &id : std::as_const(gone)) {
        m_clients.remove(id);
        Q_EMIT clientGone(QString::fromLatin1(id));
    }
    for (const QByteArray &id : ids) {
        const auto client = m_clients.find(id);
        if (client != m_clients.end() && client->seemsSilent && !std::exchange(client->isSilent, true))
            Q_EMIT silenceChanged(QString::fromLatin1(id));
    }
    LockEngine *const engine = readyEngine();
    const LeaseTime now = m_registry->now();
    engine->cork();
    for (const QByteArray &id : ids) {
        if (!Token::isClientId(id))
            continue;
        const auto known = m_clients.find(id);
        const bool isReporting = known != m_clients.end() && known->hasReported && known->missed < FewMissed;
        if (isReporting && now - known->askedAt < AskedAgain)
            continue;
        Client &client = m_clients[id];
        client.interval = std::max<milliseconds>(ShortestInterval, ids.size() * IntervalPerClient);
        if (!client.hasReported && ++client.attempts <= QuickAttempts)
            m_untilAsking = 0;
        ask(id, false);
    }
    engine->uncork();
}

void ClientWatch::ask(const QByteArray &id, bool isNew)
{
    LockEngine *const engine = readyEngine();
    const auto sent = [this, alive = QPointer(this)](const EngineError &error) {
        if (!alive || !readyEngine())
            return;
        m_sendError = error;
        Q_EMIT changed();
    };
    Client &client = m_clients[id];
    client.askedAt = m_registry->now();
    if (isNew || client.lastReport == 0)
        client.begunAt = client.askedAt;
    if (isNew) {
        client.lastReport = 0;
        engine->sendMessage(id, WatchRequest{engine->clientId(), client.interval, 0s}.toMessage(), sent);
    }
    engine->sendMessage(id, WatchRequest{engine->clientId(), client.interval, WatchDuration}.toMessage(), sent);
}

void ClientWatch::messageReceived(const QByteArray &message)
{
    const auto report = ClientReport::parse(message);
    const auto client = report ? m_clients.find(report->client.id.toLatin1()) : m_clients.end();
    if (client == m_clients.end())
        return; // it was not asked
    const bool isFirst = !std::exchange(client->hasReported, true);
    client->missed = 0;
    client->seemsSilent = false;
    if (client.key() == m_registry->engine()->clientId() && std::exchange(m_deafTicks, 0) >= DeafTicks)
        Q_EMIT changed();
    if (std::exchange(client->isSilent, false))
        Q_EMIT silenceChanged(report->client.id);
    // If one was lost, nobody knows what has changed. One that comes at once was sent before the client was asked.
    const bool isOneLost = report->number != client->lastReport + 1
            && (isFirst || m_registry->now() - client->begunAt >= client->interval / 2);
    if (isOneLost && readyEngine())
        ask(client.key(), true);
    else
        client->lastReport = report->number;
    Q_EMIT reported(*report);
}

} // namespace QDistLock
