// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "worker.h"

#include <QtCore/QCoreApplication>
#include <QtCore/QDebug>
#include <QtCore/QRandomGenerator>

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

using namespace Qt::StringLiterals;

using QDistLock::DistributedLock;
using QDistLock::LockOptions;
using namespace std::chrono_literals;

namespace {

// At least one cent and at most twice the mean of the remaining packets; the last draw takes the rest. So the expected
// amount is the same for every draw, and the pot ends exactly empty.
qint64 randomShare(const Pot::Content &content)
{
    if (content.packets == 1)
        return content.cents;
    const qint64 most = qMax<qint64>(1, 2 * content.cents / content.packets - 1);
    return QRandomGenerator::global()->bounded(qint64(1), most + 1);
}

Pot::Content after(const Pot::Content &content, qint64 cents)
{
    return {content.cents - cents, content.packets - 1};
}

template<typename... Values>
void say(const char *format, Values... values)
{
    std::printf(format, values...);
    std::fflush(stdout);
}

} // namespace

Worker::Worker(const QUrl &server, const QUrl &locks, bool locked, int number)
    : m_registry(locks)
    , m_lock(&m_registry, u"red-packet"_s)
    , m_pot(server, locked ? "locked" : "unlocked")
    , m_input(STDIN_FILENO, QSocketNotifier::Read)
    , m_locked(locked)
    , m_number(number)
{
    // A short lease: it is how long the others wait when a holder dies.
    m_lock.setOptions(LockOptions().withLease(1s).withWait(LockOptions::Forever).withRetryInterval(5ms));

    connect(&m_lock, &DistributedLock::acquired, this, &Worker::drawLocked);
    connect(&m_lock, &DistributedLock::released, this, &Worker::next);
    connect(&m_lock, &DistributedLock::lost, this, &Worker::next);
    connect(&m_lock, &DistributedLock::acquireFailed, this, [this] {
        qCritical().noquote() << "Worker" << m_number << m_lock.errorString();
        QCoreApplication::exit(1);
    });

    connect(&m_input, &QSocketNotifier::activated, this, &Worker::readCommands);
    say("ready\n");
}

void Worker::next()
{
    if (m_empty)
        QCoreApplication::quit();
    else if (m_locked)
        m_lock.acquire();
    else
        QMetaObject::invokeMethod(this, &Worker::draw, Qt::QueuedConnection);
}

void Worker::draw()
{
    const Pot::Content content = m_pot.read();
    m_empty = content.packets == 0;
    if (!m_empty) {
        const qint64 cents = randomShare(content);
        m_pot.write(after(content, cents), {m_number, 0, cents});
        say("drew 0 %lld\n", cents);
    }
    next();
}

void Worker::drawLocked()
{
    const qint64 token = m_lock.fencingToken();
    const std::optional<Pot::Content> content = m_pot.readFenced(token);
    if (content) {
        m_empty = content->packets == 0;
        if (!m_empty && m_lock.isHeld()) {
            const qint64 cents = randomShare(*content);
            // Even after isHeld() returned true, the lease can end before the write reaches the pot.
            pauseIfRequested(token);
            if (m_pot.writeFenced(after(*content, cents), {m_number, token, cents}))
                say("drew %lld %lld\n", token, cents);
            else
                say("refused %lld %d\n", token, int(m_lock.isHeld()));
        }
    }
    m_lock.release(); // released() follows, or lost() if the lease has ended
}

// Blocks the event loop on purpose: this is the worst moment to be stopped or killed, because between the read and the
// write the event loop cannot emit lost().
void Worker::pauseIfRequested(qint64 token)
{
    if (!m_pause)
        return;
    say("holding %lld\n", token);
    while (m_pause)
        readCommands();
}

void Worker::readCommands()
{
    char buffer[256];
    const ssize_t size = ::read(STDIN_FILENO, buffer, sizeof buffer);
    if (size <= 0) { // the coordinator gives up, or has ended
        m_pause = false;
        m_input.setEnabled(false);
        return QCoreApplication::exit(1);
    }
    m_line.append(buffer, size);
    for (qsizetype end; (end = m_line.indexOf('\n')) >= 0; m_line.remove(0, end + 1)) {
        const QByteArray command = m_line.left(end);
        if (command == "start")
            next();
        else if (command == "pause")
            m_pause = true;
        else if (command == "go")
            m_pause = false;
    }
}
