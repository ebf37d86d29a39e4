// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "fakeserver.h"

#include "posix.h"
#include "resp.h"
#include "workerthread.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>
#include <optional>
#include <vector>

#include <sys/socket.h>
#include <unistd.h>

using namespace Qt::StringLiterals;

namespace Support {

namespace {

struct Client
{
    int fd = -1;
    int number = 0;
    QByteArray unparsed;
    QByteArray output;
    QByteArray endless;
    bool closing = false; // once the output is sent
    bool full = false;
    bool finished = false;
};

} // namespace

class FakeServer::Private
{
public:
    Private(Handler handler, quint16 port);
    ~Private();

    void run();
    void acceptAll();
    void read(Client &client);
    void parse(Client &client);
    void say(Client &client, const Answer &answer);
    void flush(Client &client);
    void close(Client &client);
    std::optional<QByteArray> loginAnswer(const QList<QByteArray> &arguments, int number) const;

    quint16 port; // before listener, whose making sets it
    int listener = -1;

    // The members below are used in the worker thread only.
    Handler handler;
    Answer greeting;
    bool answersLogin = true;
    std::list<Client> clients;
    QList<QList<QByteArray>> commands;
    int accepted = 0;
    qint64 bytesSent = 0;

    WorkerThread worker; // the last member, so that it ends first
};

FakeServer::Private::Private(Handler handler, quint16 port)
    : port(port)
    , listener(Posix::listenTcp(&this->port))
    , handler(std::move(handler))
{
    if (listener < 0)
        qWarning("FakeServer: cannot listen: %s", std::strerror(errno));
    worker.start([this] { run(); });
}

FakeServer::Private::~Private()
{
    worker.stop();
    for (Client &client : clients)
        close(client);
    if (listener >= 0)
        ::close(listener);
}

void FakeServer::Private::run()
{
    std::vector<pollfd> entries;
    while (!worker.isStopping()) {
        entries.clear();
        entries.push_back({worker.wakeFd(), POLLIN, 0});
        entries.push_back({listener, POLLIN, 0});
        for (const Client &client : clients)
            entries.push_back({client.fd, static_cast<short>(POLLIN | (client.full ? POLLOUT : 0)), 0});
        ::poll(entries.data(), entries.size(), -1);
        size_t i = 2;
        for (Client &client : clients) {
            const short events = entries[i++].revents;
            if (events & POLLOUT)
                client.full = false;
            if (events & (POLLIN | POLLHUP | POLLERR))
                read(client);
        }
        if (entries[1].revents)
            acceptAll();
        worker.runTasks(); // invalidates the entries
        for (Client &client : clients) {
            if (!client.finished)
                flush(client);
        }
        clients.remove_if([](const Client &client) { return client.finished; });
    }
}

void FakeServer::Private::acceptAll()
{
    for (;;) {
        const int fd = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0)
            return;
        Posix::setNoDelay(fd);
        Client client;
        client.fd = fd;
        client.number = ++accepted;
        say(client, greeting);
        clients.push_back(std::move(client));
    }
}

void FakeServer::Private::read(Client &client)
{
    char chunk[64 * 1024];
    const ssize_t n = ::recv(client.fd, chunk, sizeof(chunk), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        close(client);
        return;
    }
    client.unparsed.append(chunk, n);
    parse(client);
}

void FakeServer::Private::parse(Client &client)
{
    while (!client.unparsed.isEmpty() && !client.closing) {
        qsizetype size = 0;
        QList<QByteArray> arguments;
        switch (Resp::parseCommand(client.unparsed, &size, &arguments)) {
        case Resp::Status::Incomplete:
            return;
        case Resp::Status::Invalid: // a TLS hello, say
            arguments = {client.unparsed};
            size = client.unparsed.size();
            break;
        case Resp::Status::Complete:
            break;
        }
        client.unparsed.remove(0, size);
        const auto login = answersLogin ? loginAnswer(arguments, client.number) : std::nullopt;
        if (login) {
            client.output += *login;
            continue;
        }
        commands.append(arguments);
        say(client, handler(arguments, client.number));
    }
}

std::optional<QByteArray> FakeServer::Private::loginAnswer(const QList<QByteArray> &arguments, int number) const
{
    const QByteArray command = arguments.first().toUpper();
    const QByteArray subcommand = arguments.value(1).toUpper();
    if (command == "AUTH" || command == "SELECT" || (command == "CLIENT" && subcommand == "SETNAME"))
        return "+OK\r\n";
    if (command == "CLIENT" && subcommand == "ID")
        return ':' + QByteArray::number(number) + "\r\n";
    if (command == "CLIENT" && subcommand == "LIST")
        return Resp::encodeBulk("");
    if (command == "CLIENT" && subcommand == "KILL")
        return ":0\r\n";
    if (command == "PING")
        return "+PONG\r\n";
    return std::nullopt;
}

void FakeServer::Private::say(Client &client, const Answer &answer)
{
    if (client.closing || !client.endless.isEmpty())
        return;
    // No shared data: ThreadSanitizer does not see Qt's last release of it, which would come after the caller's.
    client.output.append(answer.bytes.constData(), answer.bytes.size());
    client.endless = answer.endless;
    client.closing = answer.close;
}

void FakeServer::Private::flush(Client &client)
{
    // At most this much of an endless reply in one turn, so that the other clients are served, too.
    qsizetype endlessLeft = 1024 * 1024;
    while (!client.full) {
        if (client.output.isEmpty() && !client.endless.isEmpty()) {
            if (endlessLeft <= 0) {
                client.full = true; // asks for POLLOUT, which comes at once
                return;
            }
            client.output = client.endless.repeated(1 + 64 * 1024 / client.endless.size());
            endlessLeft -= client.output.size();
        }
        if (client.output.isEmpty())
            break;
        const ssize_t n = ::send(client.fd, client.output.constData(), static_cast<size_t>(client.output.size()),
                                 MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            client.full = true;
            return;
        }
        if (n < 0) {
            close(client);
            return;
        }
        bytesSent += n;
        client.output.remove(0, n);
    }
    if (client.closing)
        close(client);
}

void FakeServer::Private::close(Client &client)
{
    ::close(client.fd);
    client.fd = -1;
    client.finished = true;
}

FakeServer::FakeServer(const QByteArray &bytes)
    : FakeServer([bytes](const QList<QByteArray> &, int) { return Answer{bytes}; })
{
}

FakeServer::FakeServer(Handler handler, quint16 port)
    : d(new Private(std::move(handler), port))
{
}

FakeServer::~FakeServer() = default;

bool FakeServer::isListening() const
{
    return d->listener >= 0;
}

quint16 FakeServer::port() const
{
    return d->port;
}

QUrl FakeServer::url() const
{
    return QUrl(u"redis://127.0.0.1:%1"_s.arg(d->port));
}

void FakeServer::setHandler(Handler handler)
{
    d->worker.invoke([&] { d->handler = std::move(handler); });
}

void FakeServer::setAnswersLogin(bool on)
{
    d->worker.invoke([&] { d->answersLogin = on; });
}

void FakeServer::setGreeting(const Answer &greeting)
{
    d->worker.invoke([&] { d->greeting = greeting; });
}

void FakeServer::push(const QByteArray &bytes, int connection)
{
    d->worker.invoke([&] {
        for (Client &client : d->clients) {
            if (connection == 0 || client.number == connection)
                d->say(client, {bytes});
        }
    });
}

void FakeServer::closeAll()
{
    d->worker.invoke([&] {
        for (Client &client : d->clients) {
            client.endless.clear();
            client.closing = true;
        }
    });
}

QList<QList<QByteArray>> FakeServer::commands() const
{
    QList<QList<QByteArray>> commands;
    d->worker.invoke([&] { commands = d->commands; });
    return commands;
}

int FakeServer::connectionsAccepted() const
{
    int count = 0;
    d->worker.invoke([&] { count = d->accepted; });
    return count;
}

int FakeServer::connections() const
{
    int count = 0;
    d->worker.invoke([&] { count = static_cast<int>(d->clients.size()); });
    return count;
}

qint64 FakeServer::bytesSent() const
{
    qint64 count = 0;
    d->worker.invoke([&] { count = d->bytesSent; });
    return count;
}

UnansweredPort::UnansweredPort()
    : m_listener(Posix::listenTcp(&m_port))
{
    if (m_listener < 0)
        return;
    ::listen(m_listener, 0);
    // The backlog is full when a connection is not completed.
    for (int i = 0; i < 64; ++i) {
        const int fd = Posix::connectTcp(m_port);
        if (fd < 0)
            break;
        m_fillers.append(fd);
        if (!Posix::waitFor(fd, POLLOUT, std::chrono::steady_clock::now() + std::chrono::milliseconds(100)))
            return;
    }
    qWarning("UnansweredPort: the queue of port %u does not fill", m_port);
    ::close(m_listener);
    m_listener = -1;
}

UnansweredPort::~UnansweredPort()
{
    for (const int fd : std::as_const(m_fillers))
        ::close(fd);
    if (m_listener >= 0)
        ::close(m_listener);
}

bool UnansweredPort::isValid() const
{
    return m_listener >= 0;
}

QUrl UnansweredPort::url() const
{
    return QUrl(u"redis://127.0.0.1:%1"_s.arg(m_port));
}

} // namespace Support
