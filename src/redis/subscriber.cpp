// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "redis/subscriber.h"

#include "base/leaseclock.h"
#include "redis/logging.h"

#include <QtCore/qpointer.h>
#include <QtCore/qtimer.h>

#include <algorithm>
#include <utility>

using namespace Qt::StringLiterals;

namespace QtRedis {

namespace {

using namespace std::chrono_literals;
using QDistLock::LeaseClock;

constexpr std::chrono::milliseconds ReplyTimeout = 3s;

} // namespace

class Subscriber::Private
{
public:
    enum Progress { Wanted, Requested, Confirmed };

    struct Channel
    {
        Progress progress = Wanted;
        bool confirmedBefore = false;
        bool refusalReported = false; // since it was confirmed
    };

    Private(Subscriber *subscriber, const ServerUrl &server, Kind kind);

    void followState();
    void request(const QByteArray &channel);
    void replied(const QByteArray &channel, const CommandResult &result, bool wasSharded);
    void pushReceived(const Reply &reply);
    void pingTimeReached();
    void ping();

    Subscriber *const q;
    const Kind kind;
    bool isSharded; ///< false, too, where the connected server has no sharded channels
    QHash<QByteArray, Channel> channels;
    bool wasReady = false;
    std::chrono::milliseconds pingInterval = 10s;
    QTimer *const pingTimer;
    std::function<bool(std::chrono::milliseconds)> isPingDue;
    QDistLock::LeaseTime pingedAt;
    QDistLock::Deadline nextCheck; ///< not before
    Connection connection;         // last: its handlers use the members above
};

Subscriber::Private::Private(Subscriber *subscriber, const ServerUrl &server, Kind kind)
    : q(subscriber)
    , kind(kind)
    , isSharded(kind == Sharded)
    , pingTimer(new QTimer(subscriber))
    , connection(server, subscriber)
{
    connection.setPushHandler([this](const Reply &reply) { pushReceived(reply); });
    QObject::connect(&connection, &Connection::stateChanged, q, [this] { followState(); });
    QObject::connect(&connection, &Connection::repliesProcessed, q, &Subscriber::messagesProcessed);
    QObject::connect(&connection, &Connection::readEnded, q, &Subscriber::readEnded);
    QObject::connect(pingTimer, &QTimer::timeout, q, [this] { pingTimeReached(); });
}

void Subscriber::Private::followState()
{
    const bool ready = connection.state() == Connection::Ready;
    if (ready == wasReady)
        return;
    wasReady = ready;
    if (ready) {
        isSharded = kind == Sharded; // the server may have been upgraded
        pingTimer->start(pingInterval);
        pingedAt = LeaseClock::system()->now();
        for (auto it = channels.cbegin(), end = channels.cend(); it != end; ++it)
            request(it.key());
        for (Channel &channel : channels)
            channel.progress = Requested;
        return;
    }
    pingTimer->stop();
    for (Channel &channel : channels)
        channel.progress = Wanted;
    Q_EMIT q->interrupted();
}

void Subscriber::Private::request(const QByteArray &channel)
{
    connection.send({isSharded ? QByteArrayLiteral("SSUBSCRIBE") : QByteArrayLiteral("SUBSCRIBE"), channel},
                    std::min(pingInterval, ReplyTimeout),
                    [this, channel, wasSharded = isSharded](const CommandResult &result) {
                        replied(channel, result, wasSharded);
                    });
}

void Subscriber::Private::replied(const QByteArray &channel, const CommandResult &result, bool wasSharded)
{
    const auto it = channels.find(channel);
    if (result.outcome != CommandResult::Replied || it == channels.end())
        return; // requested again on the next connection, or no longer wanted
    if (!result.reply.isError()) {
        *it = {Confirmed, true, false};
        Q_EMIT q->subscribed(channel);
        return;
    }
    if (wasSharded && result.reply.text.startsWith("ERR unknown command")) { // before Redis 7.0
        isSharded = false;
        request(channel);
        return;
    }
    if (result.reply.errorCode() == "MOVED") {
        channels.erase(it);
        Q_EMIT q->movedAway(channel);
        return;
    }
    const QString said = connection.server().shown(result.reply.text);
    if (result.reply.errorCode() != "NOPERM") {
        it->progress = Wanted; // pingTimeReached() retries
        qCDebug(lcRedis, "%s: SUBSCRIBE: %s", qUtf8Printable(connection.server().toDisplayString()),
                qUtf8Printable(said));
        return;
    }
    const QString text = u"%1: the server's ACL forbids to subscribe (\"%2\"); allow the channel."_s.arg(
            connection.server().toDisplayString(), said);
    if (!std::exchange(it->refusalReported, true))
        qCWarning(lcRedis, "%s", qUtf8Printable(text));
    if (it->confirmedBefore) { // somebody is changing the rights: pingTimeReached() retries
        it->progress = Wanted;
        return;
    }
    channels.erase(it);
    Q_EMIT q->refused(channel, text);
}

void Subscriber::Private::pushReceived(const Reply &reply)
{
    const QList<Reply> &elements = reply.elements;
    if (elements.size() == 3 && elements[0].text == "sunsubscribe") {
        // Not if it is subscribed again since, or was never confirmed: that reply is under way.
        const auto it = channels.constFind(elements[1].text);
        if (it != channels.cend() && it->progress == Confirmed) {
            channels.erase(it);
            Q_EMIT q->movedAway(elements[1].text);
        }
        return;
    }
    const char *const word = isSharded ? "smessage" : "message";
    if (elements.size() != 3 || elements[0].text != word) {
        qCDebug(lcRedis, "%s: ignored a push that is not a message",
                qUtf8Printable(connection.server().toDisplayString()));
        return;
    }
    if (channels.contains(elements[1].text))
        Q_EMIT q->messageReceived(elements[1].text, elements[2].text);
}

void Subscriber::Private::ping()
{
    pingedAt = LeaseClock::system()->now();
    // Without a reply the connection ends itself.
    connection.send({QByteArrayLiteral("PING")}, std::min(pingInterval, ReplyTimeout), nullptr);
}

void Subscriber::Private::pingTimeReached()
{
    for (auto it = channels.begin(), end = channels.end(); it != end; ++it) {
        if (it->progress == Wanted) {
            it->progress = Requested;
            request(it.key());
        }
    }
    if (isPingDue && !isPingDue(std::chrono::floor<std::chrono::milliseconds>(LeaseClock::system()->now() - pingedAt)))
        return;
    ping();
    Q_EMIT q->pinged();
}

Subscriber::Subscriber(const ServerUrl &server, QObject *parent)
    : Subscriber(server, Plain, parent)
{
}

Subscriber::Subscriber(const ServerUrl &server, Kind kind, QObject *parent)
    : QObject(parent)
    , d(std::make_unique<Private>(this, server, kind))
{
}

Subscriber::~Subscriber() = default;

void Subscriber::setClientName(const QByteArray &name)
{
    d->connection.setClientName(name + "-sub");
}

void Subscriber::setPingInterval(std::chrono::milliseconds interval)
{
    d->pingInterval = interval;
    if (d->pingTimer->isActive())
        d->pingTimer->start(interval);
}

void Subscriber::setPingDue(std::function<bool(std::chrono::milliseconds sinceLast)> isDue)
{
    d->isPingDue = std::move(isDue);
}

void Subscriber::setNeeded(std::function<bool()> isNeeded)
{
    d->connection.setNeeded(std::move(isNeeded));
}

void Subscriber::subscribe(const QByteArray &channel)
{
    const bool isNew = !d->channels.contains(channel);
    const bool canWait = isNew && d->connection.isRetryingSlowly(); // not one login for each channel
    if (d->connection.state() == Connection::Disconnected && !canWait)
        d->connection.open();
    if (!isNew)
        return;
    const bool ready = d->connection.state() == Connection::Ready;
    d->channels.insert(channel, {ready ? Private::Requested : Private::Wanted});
    if (ready)
        d->request(channel);
}

bool Subscriber::hasChannel(const QByteArray &channel) const
{
    return d->channels.contains(channel);
}

void Subscriber::unsubscribe(const QByteArray &channel)
{
    if (d->channels.remove(channel) > 0 && d->connection.state() == Connection::Ready) {
        d->connection.send(
                {d->isSharded ? QByteArrayLiteral("SUNSUBSCRIBE") : QByteArrayLiteral("UNSUBSCRIBE"), channel},
                std::min(d->pingInterval, ReplyTimeout), nullptr);
    }
}

void Subscriber::check()
{
    if (d->connection.state() != Connection::Ready || !d->nextCheck.hasExpired())
        return;
    d->nextCheck = QDistLock::Deadline(ReplyTimeout);
    d->ping();
}

void Subscriber::resume()
{
    const bool isGivenUp = d->connection.state() == Connection::Disconnected && !d->connection.isRetryingSlowly();
    if (isGivenUp && !d->channels.isEmpty())
        d->connection.open();
}

void Subscriber::reconnect()
{
    if (!d->channels.isEmpty())
        d->connection.open();
    d->connection.reconnect(u"connecting again, to the server that the other connection has reached"_s);
}

void Subscriber::setServer(const ServerUrl &server, const QString &reason)
{
    d->connection.setServer(server, reason);
}

void Subscriber::close()
{
    d->channels.clear();
    d->pingTimer->stop();
    d->wasReady = false; // requested, hence not an interruption
    d->connection.close();
}

bool Subscriber::isSubscribed(const QByteArray &channel) const
{
    return d->channels.value(channel).progress == Private::Confirmed;
}

bool Subscriber::isSharded() const
{
    return d->isSharded;
}

bool Subscriber::isReading() const
{
    return d->connection.isReading();
}

QString Subscriber::errorString() const
{
    return d->connection.errorString();
}

} // namespace QtRedis
