// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "faultproxy.h"

#include "posix.h"
#include "redisserver.h"
#include "resp.h"
#include "workerthread.h"

#include <QtCore/qfile.h>
#include <QtCore/qrandom.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <list>
#include <vector>

#include <sys/socket.h>
#include <unistd.h>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;

namespace Support {

namespace {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;

constexpr auto sliceGap = 100us;

enum class Action { None, CutBefore, CutAfter, DropReply, Answer };

struct Fault
{
    Action action;
    QByteArray command; // upper case; empty = any
    int nth;
    QByteArray answer;
    int times;
};

struct Chunk
{
    TimePoint due;
    QByteArray bytes;
    bool cut = false;     // reset the connection on reaching this
    QByteArray command;   // counted when it is passed on
    bool isReply = false; // likewise
};

struct Stream
{
    QByteArray unparsed;
    bool raw = false;
    std::deque<Chunk> queue;
    TimePoint lastDue{};
    TimePoint notBefore{}; // bandwidth and slices
    bool ended = false;    // nothing more comes from its source
    bool full = false;     // its sink takes no more for now
};

struct Pending
{
    Action action = Action::None;
    QByteArray answer;
    int replies = 1;
};

struct Connection
{
    int client = -1;
    int server = -1;
    Stream requests;
    Stream replies;
    std::deque<Pending> pending;
    bool subscribed = false;
    bool swallowed = false;
    bool repliesDropped = false;
    bool finished = false;
};

} // namespace

class FaultProxy::Private
{
public:
    explicit Private(QByteArray path, quint16 serverPort);
    ~Private();

    void run();
    void acceptAll();
    void open(int client);
    void close(Connection &connection, bool reset);
    void read(Connection &connection, bool fromClient);
    void parseRequests(Connection &connection);
    void parseReplies(Connection &connection);
    void answerPending(Connection &connection);
    void enqueue(Stream &stream, Chunk chunk, std::chrono::microseconds latency);
    void flushAll();
    void flush(Connection &connection, bool toServer);
    bool isHeld(bool toServer) const { return held || (!toServer && repliesHeld); }
    Fault takeFault(const QByteArray &command);
    void arm(Action action, const QByteArray &command, int nth, const QByteArray &answer = {}, int times = 1);

    QByteArray socketPath; // used by the worker
    quint16 serverPort;
    quint16 port = 0; // before listener, whose making sets it
    int listener = -1;

    // The members below are used in the worker thread only.
    std::list<Connection> connections;
    std::vector<Fault> faults;
    std::chrono::microseconds latencyToServer{0};
    std::chrono::microseconds latencyToClient{0};
    qint64 bandwidth = 0;
    int largestSlice = 0;
    bool blackHole = false;
    bool held = false;
    bool repliesHeld = false;
    bool refusing = false;
    QHash<QByteArray, qint64> commandsForwarded;
    qint64 repliesForwarded = 0;
    qint64 accepted = 0;
    int faultsDone = 0;

    WorkerThread worker; // the last member, so that it ends first
};

FaultProxy::Private::Private(QByteArray path, quint16 serverPort)
    : socketPath(std::move(path))
    , serverPort(serverPort)
    , listener(Posix::listenTcp(&port))
{
    if (listener < 0)
        qWarning("FaultProxy: cannot listen: %s", std::strerror(errno));
    worker.start([this] { run(); });
}

FaultProxy::Private::~Private()
{
    worker.stop();
    for (Connection &connection : connections)
        close(connection, false);
    if (listener >= 0)
        ::close(listener);
}

void FaultProxy::Private::run()
{
    std::vector<pollfd> entries;
    while (!worker.isStopping()) {
        entries.clear();
        entries.push_back({worker.wakeFd(), POLLIN, 0});
        entries.push_back({refusing ? -1 : listener, POLLIN, 0});
        const TimePoint now = Clock::now();
        TimePoint wake = TimePoint::max();
        const auto addWake = [&](const Stream &stream, bool toServer) {
            if (!stream.queue.empty() && !stream.full && !isHeld(toServer))
                wake = std::min(wake, std::max(stream.queue.front().due, stream.notBefore));
        };
        for (const Connection &connection : connections) {
            const auto events = [](const Stream &source, const Stream &sink) {
                return static_cast<short>((source.ended ? 0 : POLLIN) | (sink.full ? POLLOUT : 0));
            };
            const short clientEvents = events(connection.requests, connection.replies);
            const short serverEvents = events(connection.replies, connection.requests);
            // poll() ignores a negative descriptor; a closed one would be reported in every turn.
            entries.push_back({clientEvents ? connection.client : -1, clientEvents, 0});
            entries.push_back({serverEvents ? connection.server : -1, serverEvents, 0});
            addWake(connection.requests, true);
            addWake(connection.replies, false);
        }
        timespec timeout{};
        if (wake > now && wake != TimePoint::max()) {
            const auto left = std::chrono::nanoseconds(wake - now).count();
            timeout.tv_sec = static_cast<time_t>(left / 1'000'000'000);
            timeout.tv_nsec = static_cast<long>(left % 1'000'000'000);
        }
        ::ppoll(entries.data(), entries.size(), wake == TimePoint::max() ? nullptr : &timeout, nullptr);

        size_t i = 2;
        for (Connection &connection : connections) {
            const short clientEvents = entries[i++].revents;
            const short serverEvents = entries[i++].revents;
            if (clientEvents & POLLOUT)
                connection.replies.full = false;
            if (serverEvents & POLLOUT)
                connection.requests.full = false;
            if (clientEvents & (POLLIN | POLLHUP | POLLERR))
                read(connection, true);
            if (!connection.finished && serverEvents & (POLLIN | POLLHUP | POLLERR))
                read(connection, false);
        }
        if (entries[1].revents)
            acceptAll();
        worker.runTasks(); // after the bytes that came before it, and it invalidates the entries
        flushAll();
        connections.remove_if([](const Connection &connection) { return connection.finished; });
    }
}

void FaultProxy::Private::flushAll()
{
    for (Connection &connection : connections) {
        if (!connection.finished)
            flush(connection, true);
        if (!connection.finished)
            flush(connection, false);
    }
}

void FaultProxy::Private::acceptAll()
{
    for (;;) {
        const int fd = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0)
            return;
        open(fd);
    }
}

void FaultProxy::Private::open(int client)
{
    ++accepted;
    Posix::setNoDelay(client);
    Connection connection;
    connection.client = client;
    connection.swallowed = blackHole;
    if (!blackHole) {
        connection.server = socketPath.isEmpty() ? Posix::connectTcp(serverPort) : Posix::connectUnix(socketPath);
        if (connection.server < 0) {
            Posix::closeWithReset(client);
            return;
        }
    }
    connections.push_back(std::move(connection));
}

void FaultProxy::Private::close(Connection &connection, bool reset)
{
    if (connection.client >= 0) {
        if (reset)
            Posix::closeWithReset(connection.client);
        else
            ::close(connection.client);
    }
    if (connection.server >= 0)
        ::close(connection.server);
    connection.client = -1;
    connection.server = -1;
    connection.finished = true;
}

void FaultProxy::Private::read(Connection &connection, bool fromClient)
{
    Stream &stream = fromClient ? connection.requests : connection.replies;
    const int fd = fromClient ? connection.client : connection.server;
    char chunk[64 * 1024];
    // One read in each turn, so that every connection is served.
    const ssize_t n = ::recv(fd, chunk, sizeof(chunk), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0)
        stream.ended = true;
    if (n <= 0 || connection.swallowed)
        return;
    if (stream.raw) {
        Chunk raw;
        raw.bytes = QByteArray(chunk, n);
        enqueue(stream, std::move(raw), fromClient ? latencyToServer : latencyToClient);
        return;
    }
    stream.unparsed.append(chunk, n);
    if (fromClient)
        parseRequests(connection);
    else
        parseReplies(connection);
}

void FaultProxy::Private::parseRequests(Connection &connection)
{
    Stream &stream = connection.requests;
    while (!stream.unparsed.isEmpty()) {
        qsizetype size = 0;
        QList<QByteArray> arguments;
        const Resp::Status status = Resp::parseCommand(stream.unparsed, &size, &arguments);
        if (status == Resp::Status::Incomplete)
            return;
        Chunk chunk;
        if (status == Resp::Status::Invalid) {
            stream.raw = true;
            connection.replies.raw = true;
            chunk.bytes = std::exchange(stream.unparsed, QByteArray());
            enqueue(stream, std::move(chunk), latencyToServer);
            return;
        }
        chunk.bytes = stream.unparsed.first(size);
        chunk.command = arguments.first().toUpper();
        stream.unparsed.remove(0, size);

        const Fault fault = takeFault(chunk.command);
        Pending pending;
        pending.action = fault.action;
        pending.answer = fault.answer;
        if (chunk.command.endsWith("SUBSCRIBE")) {
            connection.subscribed = true;
            pending.replies = std::max(1, static_cast<int>(arguments.size()) - 1);
        }
        if (fault.action == Action::CutBefore) {
            Chunk cut;
            cut.cut = true;
            enqueue(stream, std::move(cut), latencyToServer);
            stream.ended = true;
            stream.unparsed.clear();
            return;
        }
        connection.pending.push_back(pending);
        if (fault.action == Action::Answer) {
            ++faultsDone;
            answerPending(connection);
        } else {
            enqueue(stream, std::move(chunk), latencyToServer);
        }
    }
}

void FaultProxy::Private::parseReplies(Connection &connection)
{
    Stream &stream = connection.replies;
    while (!stream.unparsed.isEmpty()) {
        qsizetype size = 0;
        QVariant value;
        const Resp::Status status = Resp::parseReply(stream.unparsed, &size, connection.subscribed ? &value : nullptr);
        if (status == Resp::Status::Incomplete)
            return;
        Chunk chunk;
        if (status == Resp::Status::Invalid) {
            stream.raw = true;
            chunk.bytes = std::exchange(stream.unparsed, QByteArray());
            enqueue(stream, std::move(chunk), latencyToClient);
            return;
        }
        chunk.bytes = stream.unparsed.first(size);
        chunk.isReply = true;
        stream.unparsed.remove(0, size);

        const QByteArray kind = value.toList().value(0).toByteArray();
        const bool isPush = connection.subscribed && kind.endsWith("message");
        if (!isPush && !connection.pending.empty()) {
            Pending &head = connection.pending.front();
            const Action action = head.action;
            if (action == Action::CutAfter) {
                Chunk cut;
                cut.cut = true;
                enqueue(stream, std::move(cut), latencyToClient);
                stream.ended = true;
                stream.unparsed.clear();
                return;
            }
            if (action == Action::DropReply && !connection.repliesDropped) {
                connection.repliesDropped = true;
                ++faultsDone;
            }
            if (--head.replies <= 0)
                connection.pending.pop_front();
        }
        if (!connection.repliesDropped)
            enqueue(stream, std::move(chunk), latencyToClient);
        answerPending(connection);
    }
}

void FaultProxy::Private::answerPending(Connection &connection)
{
    while (!connection.pending.empty() && connection.pending.front().action == Action::Answer) {
        Chunk chunk;
        chunk.bytes = connection.pending.front().answer;
        chunk.isReply = true;
        connection.pending.pop_front();
        if (!connection.repliesDropped)
            enqueue(connection.replies, std::move(chunk), latencyToClient);
    }
}

void FaultProxy::Private::enqueue(Stream &stream, Chunk chunk, std::chrono::microseconds latency)
{
    stream.lastDue = std::max(stream.lastDue, Clock::now() + latency); // the order stays
    chunk.due = stream.lastDue;
    stream.queue.push_back(std::move(chunk));
}

void FaultProxy::Private::flush(Connection &connection, bool toServer)
{
    Stream &stream = toServer ? connection.requests : connection.replies;
    const int fd = toServer ? connection.server : connection.client;
    if (isHeld(toServer))
        return;
    while (!stream.queue.empty() && !stream.full) {
        const TimePoint now = Clock::now();
        Chunk &chunk = stream.queue.front();
        if (now < chunk.due || now < stream.notBefore)
            return;
        if (chunk.cut) {
            ++faultsDone;
            close(connection, true);
            return;
        }
        qsizetype size = chunk.bytes.size();
        if (largestSlice > 0 && !toServer)
            size = std::min<qsizetype>(size, 1 + QRandomGenerator::global()->bounded(largestSlice));
        if (bandwidth > 0)
            size = std::min<qsizetype>(size, std::max<qint64>(1, bandwidth / 100));
        const ssize_t n = ::send(fd, chunk.bytes.constData(), static_cast<size_t>(size), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            stream.full = true;
            return;
        }
        if (n < 0) {
            // The reader has closed. What it sent before still arrives: read() finds the end after that.
            stream.queue.clear();
            if (!toServer)
                connection.repliesDropped = true;
            return;
        }
        if (largestSlice > 0 && !toServer)
            stream.notBefore = now + sliceGap;
        if (bandwidth > 0)
            stream.notBefore = now + std::chrono::nanoseconds(n * 1'000'000'000 / bandwidth);
        chunk.bytes.remove(0, n);
        if (!chunk.bytes.isEmpty())
            continue;
        if (!chunk.command.isEmpty())
            ++commandsForwarded[chunk.command];
        if (chunk.isReply)
            ++repliesForwarded;
        stream.queue.pop_front();
    }
    // Only the client learns that a connection in the black hole has ended.
    if (!stream.ended || !stream.queue.empty() || connection.swallowed)
        return;
    // Only the end is passed on, so that the server answers all and closes then. A server whose reply found the
    // connection closed would forget the commands it has not read yet.
    if (toServer)
        ::shutdown(fd, SHUT_WR);
    else
        close(connection, false);
}

Fault FaultProxy::Private::takeFault(const QByteArray &command)
{
    for (auto fault = faults.begin(); fault != faults.end(); ++fault) {
        if (!fault->command.isEmpty() && fault->command != command)
            continue;
        if (--fault->nth > 0)
            continue;
        const Fault taken = *fault;
        if (--fault->times <= 0)
            faults.erase(fault);
        return taken;
    }
    return {Action::None, QByteArray(), 0, QByteArray(), 0};
}

void FaultProxy::Private::arm(Action action, const QByteArray &command, int nth, const QByteArray &answer, int times)
{
    worker.invoke([&] { faults.push_back({action, command.toUpper(), nth, answer, times}); });
}

FaultProxy::FaultProxy(const RedisServer &server)
    : FaultProxy(server.socketPath())
{
}

FaultProxy::FaultProxy(const QString &socketPath)
    : d(new Private(QFile::encodeName(socketPath), 0))
{
}

FaultProxy::FaultProxy(quint16 serverPort)
    : d(new Private(QByteArray(), serverPort))
{
}

FaultProxy::~FaultProxy() = default;

bool FaultProxy::isListening() const
{
    return d->listener >= 0;
}

quint16 FaultProxy::port() const
{
    return d->port;
}

QUrl FaultProxy::url() const
{
    return QUrl(u"redis://127.0.0.1:%1"_s.arg(d->port));
}

void FaultProxy::setLatency(std::chrono::microseconds toServer, std::chrono::microseconds toClient)
{
    d->worker.invoke([&] {
        d->latencyToServer = toServer;
        d->latencyToClient = toClient;
    });
}

void FaultProxy::setBandwidth(qint64 bytesPerSecond)
{
    d->worker.invoke([&] { d->bandwidth = bytesPerSecond; });
}

void FaultProxy::setSlicing(int largest)
{
    d->worker.invoke([&] { d->largestSlice = largest; });
}

void FaultProxy::setBlackHole(bool on)
{
    d->worker.invoke([&] {
        d->blackHole = on;
        if (!on)
            return;
        d->acceptAll();
        for (Connection &connection : d->connections) {
            connection.swallowed = true;
            connection.requests.queue.clear();
            connection.replies.queue.clear();
            connection.requests.full = false;
            connection.replies.full = false;
        }
    });
}

void FaultProxy::setHeld(bool on)
{
    d->worker.invoke([&] { d->held = on; });
}

void FaultProxy::setRepliesHeld(bool on)
{
    d->worker.invoke([&] {
        d->repliesHeld = on;
        d->flushAll();
    });
}

void FaultProxy::setServer(const RedisServer &server)
{
    d->worker.invoke([&] { d->socketPath = QFile::encodeName(server.socketPath()); });
}

void FaultProxy::setServer(quint16 port)
{
    d->worker.invoke([&] {
        d->socketPath.clear();
        d->serverPort = port;
    });
}

void FaultProxy::setRefusing(bool on)
{
    d->worker.invoke([&] {
        if (on == d->refusing)
            return;
        d->refusing = on;
        // On Linux a listener that was shut down refuses connections and keeps its port. It reuses addresses, which it
        // must to listen beside its connections; but then another process that does so could listen there meanwhile.
        const int reuses = on ? 0 : 1;
        if (on)
            d->acceptAll();
        ::setsockopt(d->listener, SOL_SOCKET, SO_REUSEADDR, &reuses, sizeof(reuses));
        if (on)
            ::shutdown(d->listener, SHUT_RD);
        else
            ::listen(d->listener, 128);
    });
}

void FaultProxy::heal()
{
    setRefusing(false);
    d->worker.invoke([&] {
        d->faults.clear();
        d->latencyToServer = 0us;
        d->latencyToClient = 0us;
        d->bandwidth = 0;
        d->largestSlice = 0;
        d->blackHole = false;
        d->held = false;
        d->repliesHeld = false;
    });
}

void FaultProxy::resetAll()
{
    d->worker.invoke([&] {
        if (!d->refusing)
            d->acceptAll();
        for (Connection &connection : d->connections)
            d->close(connection, true);
    });
}

void FaultProxy::closeAll()
{
    d->worker.invoke([&] {
        if (!d->refusing)
            d->acceptAll();
        for (Connection &connection : d->connections)
            d->close(connection, false);
    });
}

void FaultProxy::cutBefore(const QByteArray &command, int nth)
{
    d->arm(Action::CutBefore, command, nth);
}

void FaultProxy::cutAfter(const QByteArray &command, int nth)
{
    d->arm(Action::CutAfter, command, nth);
}

void FaultProxy::dropReply(const QByteArray &command, int nth)
{
    d->arm(Action::DropReply, command, nth);
}

void FaultProxy::answer(const QByteArray &reply, const QByteArray &command, int nth, int times)
{
    d->arm(Action::Answer, command, nth, reply, times);
}

int FaultProxy::faultsDone() const
{
    int count = 0;
    d->worker.invoke([&] { count = d->faultsDone; });
    return count;
}

bool FaultProxy::waitForFaults(int count, std::chrono::milliseconds timeout) const
{
    const TimePoint deadline = Clock::now() + timeout;
    while (faultsDone() < count) {
        if (Clock::now() > deadline)
            return false;
        Posix::pollPause();
    }
    return true;
}

qint64 FaultProxy::commandsForwarded(const QByteArray &command) const
{
    qint64 count = 0;
    d->worker.invoke([&] {
        if (!command.isEmpty()) {
            count = d->commandsForwarded.value(command.toUpper());
            return;
        }
        for (const qint64 calls : std::as_const(d->commandsForwarded))
            count += calls;
    });
    return count;
}

bool FaultProxy::waitForCommands(qint64 count, const QByteArray &command, std::chrono::milliseconds timeout) const
{
    const TimePoint deadline = Clock::now() + timeout;
    while (commandsForwarded(command) < count) {
        if (Clock::now() > deadline)
            return false;
        Posix::pollPause();
    }
    return true;
}

qint64 FaultProxy::repliesForwarded() const
{
    qint64 count = 0;
    d->worker.invoke([&] { count = d->repliesForwarded; });
    return count;
}

qint64 FaultProxy::connectionsAccepted() const
{
    qint64 count = 0;
    d->worker.invoke([&] { count = d->accepted; });
    return count;
}

int FaultProxy::connections() const
{
    int count = 0;
    d->worker.invoke([&] { count = static_cast<int>(d->connections.size()); });
    return count;
}

} // namespace Support
