// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// The input is a sequence of events for a client with two locks: requests of the application, and bytes from a server
// that may be faulty. Each request ends exactly once; each hold ends exactly once, with a deadline within its lease; no
// reply makes the client spin; and no text contains the password.
//
// The input has sections, each ended by byte 0xff. The first byte of a section is its kind:
//   c…  the commands' connection receives the rest       s…  the subscription's connection receives it
//   a A  the first, second lock is acquired              r R  it is released
//   b   both are acquired, in one command
//   g… G…  the subscription's connection receives a proven grant to the first, second lock, with these numbers
//   i   inspect    l   list    f   force release         t3  10³ ms pass
//   x   the commands' connection breaks                  y   the subscription's does
//   w   broken connections are made again; at most once, since the back-off is real time

#include "fuzz.h"

#include "core/leasemachine.h"
#include "engine/redis/redisengine.h"
#include "redis/codec.h"
#include "redis/transport.h"

#include "../support/fakeclock.h"

#include <QtCore/qcoreapplication.h>
#include <QtCore/qcryptographichash.h>
#include <QtCore/qelapsedtimer.h>
#include <QtCore/qhash.h>
#include <QtCore/qloggingcategory.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <vector>

using namespace Qt::StringLiterals;

using namespace QDistLock;
using namespace std::chrono_literals;

namespace {

const QByteArray canary = "c4n4ry";

/// The network: answers the login, and then sends what the input contains.
class ScriptedTransport : public QtRedis::Transport
{
public:
    ScriptedTransport() { all().append(this); }
    ~ScriptedTransport() override { all().removeOne(this); }

    static QList<ScriptedTransport *> &all()
    {
        static QList<ScriptedTransport *> transports;
        return transports;
    }

    /// The connection in use, or null.
    static ScriptedTransport *current(bool subscription)
    {
        for (ScriptedTransport *transport : std::as_const(all())) {
            if (transport->m_up && transport->m_subscription == subscription)
                return transport;
        }
        return nullptr;
    }

    /// Lets new connections proceed. They wait after the first broken one, so that nothing depends on the back-off,
    /// which is real time.
    static void letConnect()
    {
        s_mayConnect = true;
        const auto transports = all();
        for (ScriptedTransport *transport : transports) {
            if (std::exchange(transport->m_waits, false))
                transport->connectToServer();
        }
    }

    /// The channel is called c in the input: its real name is random.
    void receive(QByteArrayView bytes)
    {
        m_toRead += bytes.toByteArray().replace(bulk("c"), bulk(m_channel));
        if (m_up && !m_toRead.isEmpty())
            Q_EMIT readyRead();
    }

    /// A message on the channel.
    void publish(const QByteArray &message) { receive("*3\r\n$7\r\nmessage\r\n" + bulk("c") + bulk(message)); }

    void breakDown() { Q_EMIT failed(QtRedis::Failure::Network, u"the connection broke"_s); }

    void connectToServer() override
    {
        m_waits = !s_mayConnect;
        if (m_waits)
            return;
        m_up = true;
        Q_EMIT connected();
    }

    void write(const char *data, qint64 size) override
    {
        FUZZ_CHECK(m_up);
        FUZZ_CHECK(m_commands.feed(data, qsizetype(size)));
        QtRedis::Reply command;
        QByteArray answers;
        while (m_commands.next(&command)) {
            const QByteArray name = command.elements.value(0).text;
            const QByteArray second = command.elements.value(1).text;
            if (name == "AUTH") {
                answers += "+OK\r\n";
            } else if (name == "SUBSCRIBE") {
                m_channel = second;
                answers += "*3\r\n$9\r\nsubscribe\r\n" + bulk(m_channel) + ":1\r\n";
            } else if (name == "CLIENT" && second == "SETNAME") {
                m_name = command.elements.value(2).text;
                m_subscription = m_name.endsWith("-sub");
                answers += "+OK\r\n";
            } else if (name == "CLIENT" && second == "LIST") {
                answers += bulk("id=7 name=" + m_name + '\n');
            } else if (name == "CLIENT" && second == "KILL") {
                answers += ":1\r\n";
            } else if (name == "CLIENT" && second == "ID") {
                answers += ":7\r\n";
            }
        }
        if (answers.isEmpty())
            return;
        m_toRead += answers;
        QMetaObject::invokeMethod(
                this, [this] { receive({}); }, Qt::QueuedConnection);
    }

    qint64 read(char *data, qint64 size) override
    {
        const auto taken = std::min<qsizetype>(qsizetype(size), m_toRead.size());
        std::copy_n(m_toRead.constData(), taken, data);
        m_toRead.remove(0, taken);
        return taken;
    }

    void abort() override
    {
        m_up = false;
        m_waits = false;
        s_mayConnect = false;
    }

    QString pendingStep() const override { return u"not connected"_s; }
    bool isClosed() const override { return false; }
    void disown() override { abort(); }
    bool wait(std::chrono::milliseconds) override { return false; }

private:
    static QByteArray bulk(const QByteArray &text)
    {
        return '$' + QByteArray::number(text.size()) + "\r\n" + text + "\r\n";
    }

    QtRedis::ReplyReader m_commands; // a command is an array of strings
    QByteArray m_name;
    QByteArray m_channel;
    QByteArray m_toRead;
    bool m_subscription = false;
    bool m_up = false;
    bool m_waits = false;
    static inline bool s_mayConnect = false;
};

class Client
{
public:
    explicit Client(bool canaryInInput);
    ~Client();

    void act(QByteArrayView section);

private:
    struct Lock : LeaseMachine::EngineStatus
    {
        Lock(const Client *owner, const char *name)
            : client(owner)
            , id(idOf(name))
        {
        }
        bool isEngineReady() const override { return client->m_engine->state() == LockEngine::Ready; }
        bool canBeWoken() const override { return client->m_engine->canBeWoken(id); }

        const Client *const client;
        LeaseMachine machine{this};
        LockId id;
        QByteArray token;
        bool open = false; ///< acquired, and neither released nor lost
    };

    static LockId idOf(const char *name);
    void connectNow();
    void acquire(Lock *lock);
    void release(Lock *lock);
    void run(Lock *lock);
    void runAll();
    void execute(Lock *lock, const LeaseMachine::Command &command);
    void checkOutcome(Lock *lock, const LeaseMachine::Outcome &outcome);
    void checkDeadline(const Lock &lock);
    static void count(QHash<quint64, int> *requests, quint64 id);
    using Replied = void (LeaseMachine::*)(const EngineReply &, LeaseTime);
    LockEngine::Completion completion(Lock *lock, quint64 epoch, Replied replied);
    /// Counts how often each request ended.
    int *question();
    void checkError(const EngineError &error);
    void checkReply(const EngineReply &reply);

    const bool m_canaryInInput;
    Support::FakeClock m_clock;
    LockOptions m_options;
    std::array<Lock, 2> m_locks;
    quint64 m_lastRequest = 0;
    QHash<quint64, int> m_acquires; ///< how often each acquire ended
    QHash<quint64, int> m_releases;
    bool m_reconnected = false;
    std::vector<std::unique_ptr<int>> m_questions;
    std::unique_ptr<RedisEngine> m_engine;
};

QtRedis::ServerUrl server()
{
    QString error;
    const QUrl url(u"redis://u5er:c4n4ry@h"_s);
    return *QtRedis::ServerUrl::parse(url, &error);
}

/// Runs the event loop until it is idle.
void processEvents()
{
    for (int i = 0; i < 3; ++i)
        QCoreApplication::processEvents();
    QCoreApplication::sendPostedEvents(nullptr, QEvent::DeferredDelete);
}

Client::Client(bool canaryInInput)
    : m_canaryInInput(canaryInInput)
    , m_locks{Lock(this, "a"), Lock(this, "b")}
    , m_engine(std::make_unique<RedisEngine>(server(), &m_clock))
{
    QObject::connect(m_engine.get(), &LockEngine::stateChanged, m_engine.get(), [this] {
        for (Lock &lock : m_locks) {
            if (m_engine->state() == LockEngine::Ready)
                lock.machine.engineReady(m_clock.now());
            run(&lock);
        }
    });
    QObject::connect(m_engine.get(), &LockEngine::failed, m_engine.get(), [this] {
        FUZZ_CHECK(m_engine->error());
        checkError(m_engine->error());
        for (Lock &lock : m_locks) {
            lock.machine.engineFailed(m_engine->error(), m_clock.now());
            run(&lock);
        }
    });
    QObject::connect(m_engine.get(), &LockEngine::wakeableChanged, m_engine.get(), [this] {
        for (Lock &lock : m_locks) {
            lock.machine.wakeableChanged(m_clock.now());
            run(&lock);
        }
    });
    m_engine->setWaiters([this](quint64 sequence) -> std::optional<LockEngine::Waiter> {
        for (const Lock &lock : m_locks) {
            if (Token::sequenceOf(lock.token) == sequence)
                return LockEngine::Waiter{lock.id, lock.token};
        }
        return std::nullopt;
    });
    QObject::connect(m_engine.get(), &LockEngine::noticed, m_engine.get(),
                     [this](LockEngine::Notice notice, quint64 sequence, std::chrono::milliseconds ms) {
                         FUZZ_CHECK(sequence != 0 && ms >= 0ms);
                         for (Lock &lock : m_locks) {
                             if (Token::sequenceOf(lock.token) != sequence)
                                 continue;
                             if (notice == LockEngine::Grant)
                                 lock.machine.grantNoticed(m_clock.now());
                             else if (notice == LockEngine::Next)
                                 lock.machine.nextNoticed(ms, m_clock.now());
                             else
                                 lock.machine.forcedReleaseNoticed(m_clock.now());
                             run(&lock);
                         }
                     });
    QObject::connect(m_engine.get(), &LockEngine::handedOver, m_engine.get(),
                     [this](const LockEngine::Handover &handover) {
                         FUZZ_CHECK(handover.fencingToken > 0);
                         for (Lock &lock : m_locks) {
                             if (Token::sequenceOf(lock.token) == Token::sequenceOf(handover.token)) {
                                 lock.machine.handedOver(handover, m_clock.now());
                                 return run(&lock);
                             }
                         }
                         m_engine->abandon(handover.lock, handover.token, handover.lease, 0ms, handover.lease);
                     });
    m_options.wait = 1h;
    m_engine->open();
    connectNow();
}

Client::~Client()
{
    for (const bool subscription : {false, true}) {
        if (ScriptedTransport *transport = ScriptedTransport::current(subscription))
            transport->breakDown();
    }
    processEvents();
    for (const auto &count : m_questions)
        FUZZ_CHECK(*count == 1);
    for (Lock &lock : m_locks) {
        lock.machine.detach(m_clock.now(), QString());
        run(&lock);
        FUZZ_CHECK(!lock.open);
    }
    for (const auto *requests : {&m_acquires, &m_releases}) {
        for (const int count : *requests)
            FUZZ_CHECK(count == 1);
    }
    m_engine.reset();
    processEvents();
    FUZZ_CHECK(ScriptedTransport::all().isEmpty());
}

LockId Client::idOf(const char *name)
{
    QString error;
    return *LockId::make(u"lock:"_s, QLatin1String(name), &error);
}

void Client::checkError(const EngineError &error)
{
    FUZZ_CHECK(error.code != DistributedLock::NoError && !error.text.isEmpty());
    const QByteArray text = error.text.toUtf8();
    FUZZ_CHECK2(m_canaryInInput || !text.contains(canary), text);
    for (const Lock &lock : m_locks)
        FUZZ_CHECK2(lock.token.isEmpty() || !text.contains(lock.token), text);
}

void Client::checkReply(const EngineReply &reply)
{
    FUZZ_CHECK(bool(reply.error) == (reply.status == EngineReply::Failed));
    if (reply.error)
        checkError(reply.error);
    FUZZ_CHECK((reply.fencingToken > 0) == (reply.status == EngineReply::Granted));
    FUZZ_CHECK(reply.arrival.isEmpty() || reply.queuePosition >= 0);
    FUZZ_CHECK(reply.queuePosition >= -1);
}

int *Client::question()
{
    m_questions.push_back(std::make_unique<int>(0));
    return m_questions.back().get();
}

LockEngine::Completion Client::completion(Lock *lock, quint64 epoch, Replied replied)
{
    return [this, lock, replied, epoch, count = question()](const EngineReply &reply) {
        ++*count;
        checkReply(reply);
        if (lock->machine.epoch() != epoch)
            return;
        (lock->machine.*replied)(reply, m_clock.now());
        run(lock);
    };
}

void Client::execute(Lock *lock, const LeaseMachine::Command &command)
{
    using Command = LeaseMachine::Command;
    const auto ms = [](std::chrono::nanoseconds duration) {
        return std::chrono::ceil<std::chrono::milliseconds>(duration);
    };
    switch (command.kind) {
    case Command::Acquire:
        if (command.freshToken)
            lock->token = m_engine->makeToken();
        if (command.freshToken && m_engine->lastSequence() % 2 == 0)
            lock->token = Token::ofReader(lock->token);
        m_engine->acquire(
                {lock->id, lock->token, m_options.lease, true, command.enqueue, false, lock->machine.arrival()},
                completion(lock, command.epoch, &LeaseMachine::acquireReplied));
        break;
    case Command::Renew:
        FUZZ_CHECK(command.duration > 0ns); // PEXPIRE 0 would delete the lock
        m_engine->renew(lock->id, lock->token, ms(command.duration), {},
                        completion(lock, command.epoch, &LeaseMachine::renewReplied));
        break;
    case Command::Release:
        m_engine->release(lock->id, lock->token, m_options.lease, ms(command.duration),
                          completion(lock, command.epoch, &LeaseMachine::releaseReplied));
        break;
    case Command::Abandon:
        m_engine->abandon(lock->id, lock->token, m_options.lease, ms(command.duration), m_options.lease);
        break;
    }
}

void Client::checkOutcome(Lock *lock, const LeaseMachine::Outcome &outcome)
{
    using Outcome = LeaseMachine::Outcome;
    switch (outcome.kind) {
    case Outcome::Acquired:
        FUZZ_CHECK(lock->machine.fencingToken() > 0);
        checkDeadline(*lock);
        lock->open = true;
        count(&m_acquires, outcome.id);
        break;
    case Outcome::AcquireFailed:
        FUZZ_CHECK(outcome.error);
        count(&m_acquires, outcome.id);
        break;
    case Outcome::Renewed:
        FUZZ_CHECK(lock->open);
        checkDeadline(*lock);
        break;
    case Outcome::Released:
    case Outcome::Lost:
        FUZZ_CHECK(std::exchange(lock->open, false));
        break;
    case Outcome::ReleaseDone:
        count(&m_releases, outcome.id);
        break;
    case Outcome::AtRisk:
        FUZZ_CHECK(lock->open);
        break;
    case Outcome::ErrorOccurred:
        FUZZ_CHECK(lock->open || lock->machine.phase() == LeaseMachine::Acquiring);
        checkError(outcome.error);
        break;
    case Outcome::ErrorCleared:
        break;
    }
}

void Client::checkDeadline(const Lock &lock)
{
    FUZZ_CHECK(lock.machine.deadline() > m_clock.now());
    FUZZ_CHECK(lock.machine.deadline() <= m_clock.now() + m_options.lease);
}

void Client::count(QHash<quint64, int> *requests, quint64 id)
{
    FUZZ_CHECK(requests->contains(id));
    ++(*requests)[id];
}

void Client::run(Lock *lock)
{
    const auto commands = lock->machine.takeCommands();
    for (const LeaseMachine::Command &command : commands)
        execute(lock, command);
    const auto outcomes = lock->machine.takeOutcomes();
    for (const LeaseMachine::Outcome &outcome : outcomes)
        checkOutcome(lock, outcome);
}

void Client::runAll()
{
    for (Lock &lock : m_locks) {
        lock.machine.tick(m_clock.now());
        run(&lock);
        FUZZ_CHECK(lock.open == lock.machine.holdsLease());
        // Otherwise a timer with this deadline would never stop.
        FUZZ_CHECK(lock.machine.nextWakeUp() > m_clock.now());
    }
    processEvents();
}

void Client::acquire(Lock *lock)
{
    const quint64 id = ++m_lastRequest;
    m_acquires.insert(id, 0);
    lock->machine.acquire(id, false, m_options, m_clock.now());
}

void Client::release(Lock *lock)
{
    const quint64 id = ++m_lastRequest;
    m_releases.insert(id, 0);
    lock->machine.release(id, m_clock.now());
}

void Client::connectNow()
{
    QElapsedTimer timer;
    timer.start();
    do {
        ScriptedTransport::letConnect();
        QCoreApplication::processEvents(QEventLoop::WaitForMoreEvents);
    } while (m_engine->state() == LockEngine::Connecting && timer.elapsed() < 5000);
    FUZZ_CHECK(m_engine->state() == LockEngine::Ready);
}

void Client::act(QByteArrayView section)
{
    if (section.isEmpty())
        return;
    const QByteArrayView rest = section.sliced(1);
    const char what = section.front();
    switch (what) {
    case 'c':
    case 's':
        if (ScriptedTransport *transport = ScriptedTransport::current(what == 's'))
            transport->receive(rest);
        break;
    case 'g':
    case 'G':
        if (ScriptedTransport *transport = ScriptedTransport::current(true)) {
            const QByteArray token = m_locks[what == 'G'].token;
            const QByteArray proof = QCryptographicHash::hash(token + rest.toByteArray(), QCryptographicHash::Sha1)
                                             .toHex();
            transport->publish("grant " + QByteArray::number(Token::sequenceOf(token)) + rest.toByteArray() + ' '
                               + proof);
        }
        break;
    case 'x':
    case 'y':
        if (ScriptedTransport *transport = ScriptedTransport::current(what == 'y'))
            transport->breakDown();
        break;
    case 'w':
        if (m_engine->state() == LockEngine::Connecting && !std::exchange(m_reconnected, true))
            connectNow();
        break;
    case 'b':
        acquire(&m_locks[0]);
        acquire(&m_locks[1]);
        break;
    case 'a':
    case 'A':
        acquire(&m_locks[what == 'A']);
        break;
    case 'r':
    case 'R':
        release(&m_locks[what == 'R']);
        break;
    case 't':
        if (!rest.isEmpty() && rest.front() >= '0' && rest.front() <= '6')
            m_clock.advance(1ms * qint64(std::pow(10, rest.front() - '0')));
        break;
    case 'i':
        m_engine->inspect(m_locks[0].id, [this, count = question()](const EngineError &error, const LockInfo &) {
            ++*count;
            if (error)
                checkError(error);
        });
        break;
    case 'l':
        m_engine->list(u"lock:"_s, u"*"_s,
                       [this, count = question()](const EngineError &error, const QList<LockInfo> &infos) {
                           ++*count;
                           if (error)
                               checkError(error);
                           FUZZ_CHECK(!error || infos.isEmpty());
                       });
        break;
    case 'f':
        m_engine->forceRelease(m_locks[0].id, 0, [this, count = question()](const EngineReply &reply) {
            ++*count;
            if (reply.error)
                checkError(reply.error);
        });
        break;
    default:
        break;
    }
    for (Lock &lock : m_locks)
        run(&lock);
    processEvents();
    runAll();
}

} // namespace

// Replaces src/redis/transport.cpp, which the linker then does not use.
std::unique_ptr<QtRedis::Transport> QtRedis::Transport::create(const ServerUrl &, int)
{
    return std::make_unique<ScriptedTransport>();
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static QCoreApplication application(*argc, *argv);
    QLoggingCategory::setFilterRules(u"qdistlock.*=false"_s);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    QByteArrayView input = Fuzz::bytes(data, size);
    Client client(input.toByteArray().contains(canary));
    while (!input.isEmpty()) {
        const qsizetype end = input.indexOf('\xff');
        client.act(end < 0 ? input : input.first(end));
        input = end < 0 ? QByteArrayView() : input.sliced(end + 1);
    }
    return 0;
}
