// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "redis/connection.h"

#include "base/backoff.h"
#include "base/forkcount.h"
#include "base/leaseclock.h"
#include "base/postedcall.h"
#include "redis/codec.h"
#include "redis/lingeringconnection.h"
#include "redis/logging.h"
#include "redis/transport.h"

#include <QtCore/qhash.h>
#include <QtCore/qpointer.h>
#include <QtCore/qtimer.h>

#include <algorithm>
#include <deque>
#include <iterator>
#include <utility>
#include <vector>

using namespace Qt::StringLiterals;

namespace QtRedis {

namespace {

using namespace std::chrono_literals;
using QDistLock::Deadline;
using std::chrono::milliseconds;

constexpr milliseconds FirstRetry = 10ms;
constexpr milliseconds LongestRetry = 1s;
// After a permanent failure: somebody has to change a setting.
constexpr milliseconds FirstSlowRetry = 1s;
constexpr milliseconds LongestSlowRetry = 10s;
// After a connection that lasted this long the back-off starts from the beginning.
constexpr milliseconds StableAfter = 1s;
// If a connection that was closed while it was idle is made again within this time, that is no failure.
constexpr milliseconds QuietTime = 900ms;
// An overdue reply may be in the socket already, because the event loop was busy: it is read before the time is up.
constexpr milliseconds GraceTime = 5ms;
constexpr milliseconds LongestTimeout = 24h;   // prevents overflows
constexpr char TlsAlert = 0x15;                // the first byte of a server that expected TLS
constexpr qsizetype KeptCapacity = 256 * 1024; // of the output buffer

// Pub/sub messages of RESP2 are not replies to a command.
bool isMessage(const Reply &reply)
{
    if (reply.type != Reply::Array || reply.elements.size() < 3)
        return false;
    const QByteArray &kind = reply.elements.first().text;
    return kind == "message" || kind == "pmessage" || kind == "smessage";
}

bool isPassing(const QByteArray &code)
{
    return code == "LOADING" || code == "MASTERDOWN" || code == "BUSY" || code == "CLUSTERDOWN" || code == "TRYAGAIN";
}

/// False if another connection of this thread has just reported the same: a client has several to one server.
bool isNews(const QString &text)
{
    thread_local QHash<QString, Deadline> reported;
    reported.removeIf([](const auto &entry) { return entry.value().hasExpired(); });
    if (reported.contains(text))
        return false;
    reported.insert(text, Deadline(LongestSlowRetry));
    return true;
}

bool isRefusedByLimit(const Reply &error)
{
    return error.text.startsWith("ERR max number of clients");
}

} // namespace

bool isPermanent(Failure failure)
{
    switch (failure) {
    case Failure::Certificate:
    case Failure::Authentication:
    case Failure::Permission:
    case Failure::Fork:
    case Failure::Service:
        return true;
    case Failure::None:
    case Failure::Network:
    case Failure::NameResolution:
    case Failure::Timeout:
    case Failure::Protocol:
    case Failure::Server:
        break;
    }
    return false;
}

class Connection::Private
{
public:
    Private(Connection *connection, const ServerUrl &serverUrl);

    enum Step : quint8 { Auth, Select, Role, MyId, SetName, Id, FindFormer, KillFormer, Command };

    struct Pending
    {
        Step step = Command;
        milliseconds timeout{0};
        Deadline deadline;
        QByteArray name; // of the command or script
        Handler handler;
        const Script *script = nullptr;    // until EVAL has been sent, if it has to be
        QList<QByteArray> keys, arguments; // of a script, or of SUNSUBSCRIBE
    };

    void startAttempt();
    void beginHandshake();
    void sendStep(Step step, const QList<QByteArray> &arguments);
    void handshakeReply(Step step, const Reply &reply);
    void handshakeError(Step step, const Reply &reply);
    void findFormer(const QByteArray &clientList);
    bool isAddressKnown() const { return server.sentinels.isEmpty(); }
    /// How to correct the login, for errors.
    QString passwordSource() const;

    void append(Pending &&command);
    void appendScript(const char *verb, const char *body, Pending &&command);
    void refuse(const QByteArray &name, Handler &&handler);
    void scheduleWrite();
    void write();

    void processReadable();
    void endReading();
    bool isPush(const Reply &reply) const;
    void deliver(Reply &&reply);
    void checkDeadlines();
    void armDeadline(const Deadline &deadline);

    /// True in a child process after fork(), where the connection belongs to the parent and has failed for good.
    bool isInherited();
    void disown();
    void postFailed();
    void endTransport();
    std::vector<std::pair<Handler, CommandResult>> endCommands(Failure why, const QString &reason);
    bool isIdle() const;
    void lose(Failure why, const QString &reason);
    void loseQuietly(const QString &text);
    void retryLater();
    void retrySlowly();
    bool isStillNeeded() const { return isNeeded && isNeeded(); }
    void postResults();
    QString describe(const QString &clause) const;

    Connection *const q;
    ServerUrl server;
    const int forks = forkCount();
    QByteArray clientName;
    std::function<QByteArray()> clusterIdOf;
    QByteArray clusterId; ///< that the present handshake asks for; empty if it does not
    milliseconds connectTimeout = 3s;

    State state = Disconnected;
    Failure failure = Failure::None;
    QString errorString;

    std::unique_ptr<Transport> transport;
    std::unique_ptr<ReplyReader> reader;
    quint64 generation = 0; // of the transport; callers compare it to find out that theirs was replaced
    bool connected = false; // of the transport
    bool heard = false;     // bytes have arrived through it

    QByteArray output;
    std::deque<Pending> pending; // in the order sent
    size_t unwritten = 0;        // this many at the end of `pending` are still in `output`
    QDistLock::PostedCall postedWrite{q, [this] { write(); }};
    std::vector<std::pair<Handler, CommandResult>> results; // waiting for postResults()

    bool processing = false; // in processReadable()
    bool reading = false;    // readEnded() will be emitted
    bool corked = false;
    std::shared_ptr<const PushHandler> pushHandler;
    Farewell farewell;
    size_t beforeFarewell = 0; // outstanding replies before those of the farewell
    std::function<bool()> isNeeded;

    QTimer *const connectTimer; // limits an attempt, or waits for the next one
    QTimer *const deadlineTimer;
    Deadline armedFor;
    bool graceGiven = false;

    QDistLock::BackOff retries{FirstRetry, 0.5};          // since the last stable connection
    QDistLock::BackOff slowRetries{FirstSlowRetry, 0.25}; // since it was Ready
    int misses = 0;      // attempts, or connections, that did not lead to the right server
    Deadline stableFrom; // if it is still Ready then
    Deadline quietUntil; // nothing passing is a failure before, see QuietTime
    qint64 clientId = 0; // of the present connection; 0 = unknown
    qint64 formerId = 0; // of the last connection that was Ready, which must be ended on the server
};

Connection::Private::Private(Connection *connection, const ServerUrl &serverUrl)
    : q(connection)
    , server(serverUrl)
    , connectTimer(new QTimer(connection))
    , deadlineTimer(new QTimer(connection))
{
    connectTimer->setSingleShot(true);
    connectTimer->setTimerType(Qt::PreciseTimer);
    deadlineTimer->setSingleShot(true);
    deadlineTimer->setTimerType(Qt::PreciseTimer);
    QObject::connect(connectTimer, &QTimer::timeout, q, [this] {
        if (!transport) {
            if (state == Disconnected && !isStillNeeded())
                return;
            startAttempt();
            return;
        }
        const QString step = connected ? u"the server did not answer the handshake"_s : transport->pendingStep();
        lose(Failure::Timeout, u"%1 within %2 ms"_s.arg(step).arg(connectTimeout.count()));
    });
    QObject::connect(deadlineTimer, &QTimer::timeout, q, [this] { checkDeadlines(); });
}

QString Connection::Private::describe(const QString &clause) const
{
    const QString text = server.toDisplayString() + QLatin1String(": ") + clause;
    return clause.endsWith(u'?') ? text : text + u'.';
}

// Connecting

void Connection::Private::startAttempt()
{
    if (isInherited())
        return;
    Q_ASSERT(!transport);
    if (!isAddressKnown())
        return; // setServer() continues
    if (state == Disconnected) {
        state = Connecting;
        const QPointer<Connection> guard(q);
        Q_EMIT q->stateChanged();
        if (!guard || state != Connecting || transport)
            return;
    }
    ++generation;
    connected = heard = false;
    reader = std::make_unique<ReplyReader>();
    transport = Transport::create(server, misses);
    connectTimer->start(connectTimeout);
    QObject::connect(transport.get(), &Transport::connected, q, [this] { beginHandshake(); });
    QObject::connect(transport.get(), &Transport::readyRead, q, [this] { processReadable(); });
    QObject::connect(transport.get(), &Transport::failed, q, [this](Failure why, const QString &text) {
        // The last bytes may contain the reason.
        const QPointer<Connection> guard(q);
        const quint64 current = generation;
        processReadable();
        if (!guard || current != generation)
            return;
        // Redis does that where it expects TLS. It may also be a server that is just starting.
        const bool mayNeedTls = server.scheme == ServerUrl::Tcp && connected && !heard;
        lose(why, mayNeedTls ? text + u"; if this port speaks TLS, use rediss://"_s : text);
    });
    transport->connectToServer();
}

void Connection::Private::beginHandshake()
{
    connected = true;
    if (QString problem; !server.readPassword(&problem)) {
        lose(Failure::Authentication, problem);
        return;
    }
    if (!server.user.isEmpty())
        sendStep(Auth, {QByteArrayLiteral("AUTH"), server.user.toUtf8(), server.password.toUtf8()});
    else if (!server.password.isEmpty())
        sendStep(Auth, {QByteArrayLiteral("AUTH"), server.password.toUtf8()});
    if (server.database != 0)
        sendStep(Select, {QByteArrayLiteral("SELECT"), QByteArray::number(server.database)});
    if (!server.service.isEmpty())
        sendStep(Role, {QByteArrayLiteral("ROLE")});
    clusterId = clusterIdOf ? clusterIdOf() : QByteArray();
    if (!clusterId.isEmpty())
        sendStep(MyId, {QByteArrayLiteral("CLUSTER"), QByteArrayLiteral("MYID")});
    if (!clientName.isEmpty()) {
        sendStep(SetName, {QByteArrayLiteral("CLIENT"), QByteArrayLiteral("SETNAME"), clientName});
        if (formerId != 0) {
            sendStep(FindFormer,
                     {QByteArrayLiteral("CLIENT"), QByteArrayLiteral("LIST"), QByteArrayLiteral("ID"),
                      QByteArray::number(formerId)});
        }
    }
    sendStep(Id, {QByteArrayLiteral("CLIENT"), QByteArrayLiteral("ID")});
    write();
}

// The handshake's deadline is connectTimer.
void Connection::Private::sendStep(Step step, const QList<QByteArray> &arguments)
{
    appendCommand(&output, arguments);
    Pending command;
    command.step = step;
    command.timeout = LongestTimeout;
    command.deadline = Deadline(LongestTimeout);
    command.name = arguments.first();
    pending.push_back(std::move(command));
    ++unwritten;
}

void Connection::Private::handshakeReply(Step step, const Reply &reply)
{
    if (step == KillFormer)
        return; // it has ended already, or an ACL forbids to end it
    if (reply.isError()) {
        const QByteArray code = reply.errorCode();
        const bool optional = step != Auth && step != Select;
        // A proxy may refuse a command without a code, in its own words.
        const bool tolerable = code == "NOPERM" || ((code == "ERR" || code.isEmpty()) && !isRefusedByLimit(reply));
        if (!optional || !tolerable) {
            handshakeError(step, reply);
            return;
        }
        qCDebug(lcRedis, "%s: %s is refused, continuing without it: %s", qUtf8Printable(server.toDisplayString()),
                step == Role           ? "ROLE"
                        : step == MyId ? "CLUSTER MYID"
                                       : "CLIENT",
                qUtf8Printable(server.shown(reply.text)));
    } else if (step == Role && (reply.elements.isEmpty() || reply.elements.first().text != "master")) {
        lose(Failure::Server,
             u"the server is not the master of \"%1\" (yet); asking the Sentinels again"_s.arg(server.service));
        return;
    } else if (step == MyId && reply.text != clusterId) {
        lose(Failure::Server,
             u"another node has this address now, perhaps one of another cluster; asking the nodes that are known who serves its slots"_s);
        return;
    } else if (step == FindFormer) {
        findFormer(reply.text);
    } else if (step == Id) {
        clientId = reply.integer;
    }
    if (step != Id)
        return;

    // The last step.
    formerId = clientId;
    connectTimer->stop();
    slowRetries.reset();
    stableFrom = Deadline(StableAfter);
    failure = Failure::None;
    errorString.clear();
    state = Ready;
    qCDebug(lcRedis, "%s: ready", qUtf8Printable(server.toDisplayString()));
    Q_EMIT q->stateChanged();
}

void Connection::Private::handshakeError(Step step, const Reply &reply)
{
    const QByteArray code = reply.errorCode();
    // The reply to AUTH may repeat any part of the login.
    const QString said = server.shown(step == Auth ? code : reply.text);
    if (isRefusedByLimit(reply)) {
        lose(Failure::Server,
             u"the server has no room for another client; raise its maxclients or close other clients"_s);
    } else if (code == "DENIED") {
        lose(Failure::Permission,
             u"the server runs in protected mode and accepts local clients only; give it a password or a bind address"_s);
    } else if (code == "NOAUTH") {
        lose(Failure::Authentication, u"the server asks for a password; give it in "_s + passwordSource());
    } else if (step == Auth && reply.text.contains("without any password")) {
        const QString variable = QString::fromLatin1(server.passwordVariable);
        lose(Failure::Authentication,
             u"a password was given but %1 has none set; %2"_s.arg(
                     server.isSentinel ? u"this Sentinel"_s : u"the server"_s,
                     variable.isEmpty() ? u"leave it out of the URL"_s : u"unset %1, or %1_FILE"_s.arg(variable)));
    } else if (code == "WRONGPASS") {
        const QString advice = server.isSentinel ? u"; check "_s + passwordSource()
                : server.service.isEmpty()
                ? QString()
                : u"; give all servers of \"%1\" the same users and passwords"_s.arg(server.service);
        lose(Failure::Authentication, u"the server refuses user name or password (\"WRONGPASS\")"_s + advice);
    } else if (step == Auth && !isPassing(code) && code != "NOPERM") {
        lose(Failure::Authentication,
             u"the server refuses the login (\"%1\"); check user name and password, and whether its AUTH command was renamed"_s
                     .arg(said));
    } else if (code == "NOPERM") {
        lose(Failure::Permission, u"the server's ACL forbids the handshake (\"%1\")"_s.arg(said));
    } else if (step == Select && !isPassing(code)) {
        lose(Failure::Server, u"database %1 cannot be selected (\"%2\")"_s.arg(server.database).arg(said));
    } else {
        lose(Failure::Server, u"the server replied to the handshake with \"%1\""_s.arg(said));
    }
}

QString Connection::Private::passwordSource() const
{
    const QString variable = QString::fromLatin1(server.passwordVariable);
    if (server.isSentinel) {
        return variable
                + u", and its user as sentinel-user in the URL: a Sentinel does not use the login of the master"_s;
    }
    return variable.isEmpty() ? u"the URL"_s : u"the URL, in %1 or in the file that %1_FILE names"_s.arg(variable);
}

// A server that restarts counts ids from the beginning: the same id may belong to somebody else.
void Connection::Private::findFormer(const QByteArray &clientList)
{
    const QByteArray id = QByteArrayLiteral("id=") + QByteArray::number(formerId);
    const QByteArray name = QByteArrayLiteral("name=") + clientName;
    const auto lines = clientList.split('\n');
    for (const QByteArray &line : lines) {
        const QList<QByteArray> fields = line.trimmed().split(' ');
        if (!fields.contains(id) || !fields.contains(name))
            continue;
        qCDebug(lcRedis, "%s: ending the former connection", qUtf8Printable(server.toDisplayString()));
        // Ready does not wait for the reply: commands sent from then on run after this one.
        sendStep(KillFormer,
                 {QByteArrayLiteral("CLIENT"), QByteArrayLiteral("KILL"), QByteArrayLiteral("ID"),
                  QByteArray::number(formerId)});
    }
}

// Sending

// Its bytes are in `output`.
void Connection::Private::append(Pending &&command)
{
    armDeadline(command.deadline);
    pending.push_back(std::move(command));
    ++unwritten;
    scheduleWrite();
}

void Connection::Private::appendScript(const char *verb, const char *body, Pending &&command)
{
    appendCommand(&output, {verb, body, QByteArray::number(command.keys.size())}, command.keys, command.arguments);
    append(std::move(command));
}

void Connection::Private::scheduleWrite()
{
    if (!corked && !processing)
        postedWrite.post();
}

void Connection::Private::write()
{
    if (output.isEmpty() || !connected || isInherited())
        return;
    unwritten = 0;
    transport->write(output.constData(), output.size());
    if (output.capacity() > KeptCapacity)
        output = QByteArray();
    else
        output.resize(0);
}

void Connection::Private::refuse(const QByteArray &name, Handler &&handler)
{
    CommandResult result;
    result.outcome = CommandResult::NotSent;
    result.failure = failure == Failure::None ? Failure::Network : failure;
    const QString reason = !errorString.isEmpty()
            ? errorString
            : describe(state == Connecting ? u"still connecting"_s : u"not connected"_s);
    result.errorString = u"%1 was not sent. %2"_s.arg(QString::fromUtf8(name), reason);
    results.emplace_back(std::move(handler), std::move(result));
    postResults();
}

// Calls the handlers of `results` from the event loop.
void Connection::Private::postResults()
{
    QMetaObject::invokeMethod(
            q,
            [this] {
                if (results.empty())
                    return;
                const auto ended = std::exchange(results, {});
                const QPointer<Connection> guard(q);
                for (const auto &[handler, result] : ended) {
                    if (handler)
                        handler(result);
                    if (!guard)
                        return;
                }
                Q_EMIT q->repliesProcessed();
            },
            Qt::QueuedConnection);
}

// Receiving

void Connection::Private::processReadable()
{
    if (!transport || isInherited())
        return;
    const QPointer<Connection> guard(q);
    const quint64 current = generation;
    processing = true;

    bool delivered = false;
    char chunk[16 * 1024];
    while (generation == current) {
        const qint64 size = transport->read(chunk, sizeof chunk);
        if (size <= 0)
            break;
        const bool isAlert = !std::exchange(heard, true) && chunk[0] == TlsAlert && server.scheme == ServerUrl::Tcp;
        reader->feed(chunk, size);
        Reply reply;
        while (generation == current && reader->next(&reply)) {
            delivered = reading = true;
            deliver(std::move(reply));
            if (!guard)
                return;
        }
        if (generation == current && reader->hasError()) {
            if (isAlert)
                lose(Failure::Certificate, u"the server speaks TLS on this port; use rediss://"_s);
            else
                lose(Failure::Protocol,
                     u"the server sent an invalid reply (%1); is it a Redis server?"_s.arg(reader->errorString()));
            if (!guard)
                return;
        }
    }
    if (delivered) {
        Q_EMIT q->repliesProcessed();
        if (!guard)
            return;
    }
    processing = false;
    write();
    if (!delivered)
        return;
    if (transport && transport->isReentrant())
        endReading();
    else
        QMetaObject::invokeMethod(
                q, [this] { endReading(); }, Qt::QueuedConnection);
}

void Connection::Private::endReading()
{
    reading = false;
    Q_EMIT q->readEnded(); // a slot may destroy this
}

bool Connection::Private::isPush(const Reply &reply) const
{
    if (isMessage(reply))
        return true;
    // The reply to SUNSUBSCRIBE, or sent without one: the node of a cluster no longer serves the channel's slot.
    if (reply.type != Reply::Array || reply.elements.isEmpty() || reply.elements.first().text != "sunsubscribe")
        return false;
    return pending.size() <= unwritten || pending.front().name != "SUNSUBSCRIBE" || reply.elements.size() < 2
            || !pending.front().arguments.contains(reply.elements.at(1).text);
}

void Connection::Private::deliver(Reply &&reply)
{
    if (pushHandler && isPush(reply)) {
        const auto handler = pushHandler; // outlives a call that replaces it or deletes the connection
        (*handler)(reply);
        return;
    }
    if (pending.size() <= unwritten) {
        if (reply.isError() && state == Ready) {
            lose(Failure::Server, u"the server ends the connection with \"%1\""_s.arg(server.shown(reply.text)));
        } else if (reply.isError()) {
            handshakeError(Command, reply); // sent before the server closes
        } else if (pushHandler) {
            const auto handler = pushHandler;
            (*handler)(reply);
        } else {
            lose(Failure::Protocol, u"the server sent an unexpected reply"_s);
        }
        return;
    }
    Pending command = std::move(pending.front());
    pending.pop_front();
    if (command.step != Command) {
        handshakeReply(command.step, reply);
        return;
    }
    if (command.script && reply.isError() && reply.text.startsWith("NOSCRIPT")) {
        const char *const text = std::exchange(command.script, nullptr)->text;
        appendScript("EVAL", text, std::move(command));
        return;
    }
    if (reply.errorCode() == "NOAUTH") // as from a proxy that has connected to the server again
        q->reconnect(u"the server does not know the login of this connection any more; logging in again"_s);
    CommandResult result;
    result.outcome = CommandResult::Replied;
    result.reply = std::move(reply);
    if (command.handler)
        command.handler(result);
}

// Deadlines: one timer for the earliest. It is restarted only when it runs out or an earlier deadline is added.

void Connection::Private::armDeadline(const Deadline &deadline)
{
    if (deadlineTimer->isActive() && !(deadline < armedFor))
        return;
    armedFor = deadline;
    deadlineTimer->start(deadline.remaining());
}

void Connection::Private::checkDeadlines()
{
    if (isInherited())
        return;
    const Pending *first = nullptr;
    for (const Pending &command : pending) {
        if (!first || command.deadline < first->deadline)
            first = &command;
    }
    if (!first || !first->deadline.hasExpired()) {
        graceGiven = false;
        if (first)
            armDeadline(first->deadline);
        return;
    }
    if (!graceGiven) {
        graceGiven = true;
        armDeadline(Deadline(GraceTime));
        return;
    }
    lose(Failure::Timeout,
         u"no reply to %1 within %2 ms"_s.arg(QString::fromUtf8(first->name)).arg(first->timeout.count()));
}

// Ending

bool Connection::Private::isInherited()
{
    if (forks == forkCount())
        return false;
    if (failure == Failure::Fork)
        return true;
    failure = Failure::Fork;
    errorString = describe(
            u"this process is a fork of the one that made the connection; call exec() in it, or make a new connection here"_s);
    auto ended = endCommands(failure, errorString);
    disown();
    state = Disconnected;
    std::move(ended.begin(), ended.end(), std::back_inserter(results));
    postResults();
    postFailed();
    return true;
}

void Connection::Private::postFailed()
{
    QMetaObject::invokeMethod(
            q,
            [this] {
                const QPointer<Connection> guard(q);
                Q_EMIT q->stateChanged();
                if (guard)
                    Q_EMIT q->failed();
            },
            Qt::QueuedConnection);
}

void Connection::Private::disown()
{
    if (transport) {
        transport->disconnect(q);
        transport->disown();
    }
    endTransport();
}

void Connection::Private::endTransport()
{
    ++generation;
    connected = false;
    connectTimer->stop();
    deadlineTimer->stop();
    graceGiven = false;
    reader.reset();
    clientId = 0;
    output.clear();
    if (!transport)
        return;
    transport->disconnect(q);
    transport->abort();
    transport.release()->deleteLater(); // it may be on the call stack
}

std::vector<std::pair<Connection::Handler, CommandResult>> Connection::Private::endCommands(Failure why,
                                                                                            const QString &reason)
{
    std::vector<std::pair<Handler, CommandResult>> ended;
    ended.reserve(pending.size());
    const size_t written = pending.size() - unwritten;
    for (size_t i = 0; i < pending.size(); ++i) {
        Pending &command = pending[i];
        if (command.step != Command)
            continue;
        CommandResult result;
        result.outcome = i < written ? CommandResult::Unknown : CommandResult::NotSent;
        result.failure = why == Failure::Timeout && !command.deadline.hasExpired() ? Failure::Network : why;
        result.errorString = (i < written ? u"%1 may or may not have run. %2"_s : u"%1 was not sent. %2"_s)
                                     .arg(QString::fromUtf8(command.name), reason);
        ended.emplace_back(std::move(command.handler), std::move(result));
    }
    pending.clear();
    unwritten = 0;
    return ended;
}

/// Nobody waits for a reply.
bool Connection::Private::isIdle() const
{
    return std::none_of(pending.cbegin(), pending.cend(), [](const Pending &command) { return bool(command.handler); });
}

void Connection::Private::lose(Failure why, const QString &reason)
{
    const QString text = describe(reason);
    if (state == Ready && stableFrom.hasExpired())
        retries.reset();
    if (state != Ready)
        ++misses;
    if (state == Ready && why == Failure::Network && isIdle())
        quietUntil = Deadline(QuietTime);
    else if (state == Ready || failure != Failure::None || isPermanent(why))
        quietUntil = {};
    if (!quietUntil.hasExpired()) {
        loseQuietly(text);
        return;
    }
    const auto ended = endCommands(why, text);
    endTransport();
    const bool reported = errorString == text;
    failure = why;
    errorString = text;
    const State before = state;
    if (isPermanent(why)) {
        state = Disconnected;
        if (!isStillNeeded()) {
            qCWarning(lcRedis, "%s Not retried until the next use.", qUtf8Printable(text));
        } else {
            retrySlowly();
            if (reported || !isNews(text))
                qCDebug(lcRedis, "%s", qUtf8Printable(text));
            else
                qCWarning(lcRedis, "%s Retrying every few seconds while the connection is needed.",
                          qUtf8Printable(text));
        }
    } else {
        state = Connecting;
        retryLater();
        qCDebug(lcRedis, "%s", qUtf8Printable(text));
    }

    const QPointer<Connection> guard(q);
    const quint64 current = generation;
    if (state != before) {
        Q_EMIT q->stateChanged();
        if (!guard)
            return;
    }
    for (const auto &[handler, result] : ended) {
        if (handler)
            handler(result);
        if (!guard)
            return;
    }
    if (current == generation) {
        Q_EMIT q->failed();
        if (!guard)
            return;
    }
    Q_EMIT q->repliesProcessed();
}

void Connection::Private::loseQuietly(const QString &text)
{
    pending.clear();
    unwritten = 0;
    endTransport();
    qCDebug(lcRedis, "%s Nobody was waiting for a reply.", qUtf8Printable(text));
    // Once begun, it continues: somebody may be waiting for stateChanged() or failed().
    const bool isResting = state == Ready && isNeeded && !isNeeded();
    const State before = std::exchange(state, isResting ? Disconnected : Connecting);
    if (!isResting) {
        retryLater();
        // Not later than at the end of the time, so that it is reported then.
        connectTimer->start(std::min(quietUntil.remaining(), connectTimer->intervalAsDuration()));
    }
    if (state != before)
        Q_EMIT q->stateChanged();
}

void Connection::Private::retryLater()
{
    connectTimer->start(std::chrono::round<milliseconds>(retries.next(LongestRetry)));
}

void Connection::Private::retrySlowly()
{
    connectTimer->start(std::chrono::round<milliseconds>(slowRetries.next(LongestSlowRetry)));
}

// The public class

Connection::Connection(const ServerUrl &server, QObject *parent)
    : QObject(parent)
    , d(std::make_unique<Private>(this, server))
{
}

Connection::~Connection()
{
    if (d->transport)
        d->transport->disconnect(this);
    if (d->forks != forkCount())
        d->disown();
    d->write();
    if (d->transport && d->state == Ready && !d->pending.empty())
        LingeringConnection::linger(std::move(d->transport), std::move(d->reader), d->pending.size(),
                                    std::move(d->farewell), d->beforeFarewell);
    else if (!d->processing)
        d->transport.reset(); // otherwise its read() is on the call stack
    d->endTransport();
}

void Connection::setClientName(const QByteArray &name)
{
    d->clientName = name;
}

void Connection::setClusterId(std::function<QByteArray()> idOf)
{
    d->clusterIdOf = std::move(idOf);
}

void Connection::setConnectTimeout(std::chrono::milliseconds timeout)
{
    d->connectTimeout = timeout;
}

void Connection::setNeeded(std::function<bool()> isNeeded)
{
    d->isNeeded = std::move(isNeeded);
}

void Connection::open()
{
    const bool known = d->failure == Failure::Fork;
    if (d->isInherited()) {
        if (known)
            d->postFailed();
        return;
    }
    // While replies are processed, it is in use.
    if (d->state == Ready && !d->processing && d->isIdle() && d->transport->isClosed())
        d->lose(Failure::Network, u"the server closed the connection"_s);
    if (d->state != Disconnected)
        return;
    d->state = Connecting;
    d->retries.reset();
    d->connectTimer->start(0);
    Q_EMIT stateChanged();
}

void Connection::close()
{
    d->connectTimer->stop();
    if (d->isInherited() || d->state == Disconnected)
        return;
    d->write();
    auto ended = d->endCommands(Failure::Network, d->describe(u"the connection was closed by this program"_s));
    d->endTransport();
    d->state = Disconnected;
    d->failure = Failure::None;
    d->errorString.clear();
    if (!ended.empty()) {
        std::move(ended.begin(), ended.end(), std::back_inserter(d->results));
        d->postResults();
    }
    Q_EMIT stateChanged();
}

void Connection::reconnect(const QString &reason)
{
    if (!d->transport)
        return;
    QMetaObject::invokeMethod(
            this,
            [this, generation = d->generation, reason] {
                if (generation != d->generation)
                    return;
                ++d->misses;
                d->lose(Failure::Server, reason);
            },
            Qt::QueuedConnection);
}

void Connection::setServer(const ServerUrl &server, const QString &reason)
{
    if (d->isInherited())
        return;
    const bool wasReady = d->state == Ready;
    const bool wasWaiting = d->connectTimer->isActive();
    const QString text = d->describe(reason);
    auto ended = d->endCommands(Failure::Server, text);
    d->endTransport();
    d->server = server;
    d->formerId = 0; // a number of the other server
    d->retries.reset();
    d->slowRetries.reset();
    d->misses = 0;
    if (!ended.empty()) {
        std::move(ended.begin(), ended.end(), std::back_inserter(d->results));
        d->postResults();
    }
    if (wasReady) {
        d->state = Connecting;
        d->failure = Failure::Server;
        d->errorString = text;
        QMetaObject::invokeMethod(
                this, [this] { Q_EMIT failed(); }, Qt::QueuedConnection);
    }
    if (d->state == Connecting || wasWaiting)
        d->connectTimer->start(0);
    if (wasReady)
        Q_EMIT stateChanged();
}

Connection::State Connection::state() const
{
    return d->state;
}

bool Connection::isComing() const
{
    return d->state == Connecting && d->failure == Failure::None;
}

Failure Connection::failure() const
{
    return d->failure;
}

QString Connection::errorString() const
{
    return d->errorString;
}

const ServerUrl &Connection::server() const
{
    return d->server;
}

qint64 Connection::id() const
{
    return d->clientId;
}

void Connection::send(const QList<QByteArray> &arguments, std::chrono::milliseconds timeout, Handler handler)
{
    Q_ASSERT(!arguments.isEmpty());
    if (d->isInherited() || d->state != Ready) {
        d->refuse(arguments.first(), std::move(handler));
        return;
    }
    Private::Pending command;
    command.timeout = qMin(timeout, LongestTimeout);
    command.deadline = Deadline(command.timeout);
    command.name = arguments.first();
    command.handler = std::move(handler);
    if (command.name == "SUNSUBSCRIBE")
        command.arguments = arguments.sliced(1);
    appendCommand(&d->output, arguments);
    d->append(std::move(command));
}

void Connection::sendScript(const Script &script, const QList<QByteArray> &keys, const QList<QByteArray> &arguments,
                            std::chrono::milliseconds timeout, Handler handler)
{
    const QByteArray name = QByteArray::fromRawData(script.name, qsizetype(qstrlen(script.name)));
    if (d->isInherited() || d->state != Ready) {
        d->refuse(name, std::move(handler));
        return;
    }
    Private::Pending command;
    command.timeout = qMin(timeout, LongestTimeout);
    command.deadline = Deadline(command.timeout);
    command.name = name;
    command.handler = std::move(handler);
    command.script = &script;
    command.keys = keys;
    command.arguments = arguments;
    d->appendScript("EVALSHA", script.sha1, std::move(command));
}

void Connection::setFarewell(const QList<QList<QByteArray>> &commands, Farewell answer)
{
    if (d->isInherited() || d->state != Ready)
        return;
    d->beforeFarewell = d->pending.size();
    d->farewell = std::move(answer);
    for (const QList<QByteArray> &command : commands)
        send(command, LongestTimeout, nullptr);
}

void Connection::cork()
{
    d->corked = true;
}

void Connection::flush()
{
    d->corked = false;
    d->write();
}

bool Connection::isRetryingSlowly() const
{
    return d->state == Disconnected && d->connectTimer->isActive();
}

bool Connection::isDelivering() const
{
    return d->processing;
}

bool Connection::isWaiting() const
{
    return !d->pending.empty();
}

bool Connection::isReading() const
{
    return d->reading;
}

void Connection::setPushHandler(PushHandler handler)
{
    d->pushHandler = handler ? std::make_shared<const PushHandler>(std::move(handler)) : nullptr;
}

} // namespace QtRedis
