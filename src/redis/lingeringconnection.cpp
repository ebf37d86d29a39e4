// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "redis/lingeringconnection.h"

#include "base/forkcount.h"
#include "redis/codec.h"
#include "redis/transport.h"

#include <QtCore/qcoreapplication.h>
#include <QtCore/qthread.h>
#include <QtCore/qtimer.h>

#include <algorithm>
#include <atomic>

namespace QtRedis {

namespace {

using namespace std::chrono_literals;
using QDistLock::Deadline;
using QDistLock::LeaseClock;

constexpr std::chrono::milliseconds LingerAtMost = 1s;
constexpr std::chrono::milliseconds DrainAtMost = 250ms;
// For a connection that is destroyed after others of its thread have used up DrainAtMost.
constexpr std::chrono::milliseconds DrainAtLeast = 10ms;

// These have no destructors: connections may be destroyed at any time while a thread or the program ends.
thread_local LingeringConnection *firstOfThread = nullptr;
thread_local LeaseClock::duration drainedFor{0}; // since the end of this thread began
std::atomic<bool> programEnds{false};

// An event loop may run in this thread again, or a signal will report its end.
bool threadGoesOn()
{
    return QCoreApplication::instance() && !QCoreApplication::closingDown() && !programEnds
            && !QThread::currentThread()->isFinished();
}

} // namespace

void LingeringConnection::linger(std::unique_ptr<Transport> transport, std::unique_ptr<ReplyReader> reader,
                                 size_t replies, Farewell farewell, size_t before)
{
    static const AtExit atExit;
    auto *const connection = new LingeringConnection(std::move(transport), std::move(reader), replies,
                                                     std::move(farewell), before);
    if (!threadGoesOn()) {
        drainThread();
        return;
    }
    drainedFor = {};
    connect(connection->m_transport.get(), &Transport::failed, connection, &QObject::deleteLater);
    QTimer::singleShot(LingerAtMost, connection, &QObject::deleteLater);
    connect(QThread::currentThread(), &QThread::finished, connection, drainThread, Qt::DirectConnection);
    if (QCoreApplication *const application = QCoreApplication::instance();
        application->thread() == QThread::currentThread()) {
        connect(application, &QObject::destroyed, connection, drainThread, Qt::DirectConnection);
    }
}

LingeringConnection::LingeringConnection(std::unique_ptr<Transport> transport, std::unique_ptr<ReplyReader> reader,
                                         size_t replies, Farewell farewell, size_t before)
    : m_transport(std::move(transport))
    , m_reader(std::move(reader))
    , m_forks(forkCount())
    , m_replies(replies)
    , m_farewell(std::move(farewell))
    , m_beforeFarewell(before)
    , m_next(std::exchange(firstOfThread, this))
{
    m_transport->disconnect();
    connect(m_transport.get(), &Transport::readyRead, this, &LingeringConnection::readReplies);
}

LingeringConnection::~LingeringConnection()
{
    LingeringConnection **link = &firstOfThread;
    while (*link != this)
        link = &(*link)->m_next;
    *link = m_next;
    if (m_forks != forkCount())
        m_transport->disown();
}

void LingeringConnection::readReplies()
{
    char chunk[16 * 1024];
    if (m_forks != forkCount())
        m_replies = 0; // the parent reads them
    while (m_replies > 0) {
        const qint64 size = m_transport->read(chunk, sizeof chunk);
        if (size <= 0)
            return;
        m_reader->feed(chunk, size);
        Reply reply;
        while (m_replies > 0 && m_reader->next(&reply))
            replied(reply);
        if (m_reader->hasError())
            m_replies = 0;
    }
    deleteLater();
}

void LingeringConnection::replied(const Reply &reply)
{
    --m_replies;
    if (m_beforeFarewell > 0) {
        --m_beforeFarewell;
    } else if (m_farewell) {
        const QList<QList<QByteArray>> commands = m_farewell(reply);
        QByteArray bytes;
        for (const QList<QByteArray> &command : commands)
            appendCommand(&bytes, command);
        m_replies += size_t(commands.size());
        if (!bytes.isEmpty())
            m_transport->write(bytes.constData(), bytes.size());
    }
}

void LingeringConnection::waitForReplies(const Deadline &deadline)
{
    readReplies();
    // One attempt even after the deadline: another connection may have used up the time.
    while (m_replies > 0 && m_transport->wait(deadline.remaining()) && !deadline.hasExpired()) {
    }
}

void LingeringConnection::drainThread()
{
    // At the end of a thread its connections may be destroyed one after the other, each with a call of this function.
    const auto begun = LeaseClock::system()->now();
    const Deadline deadline(std::max<LeaseClock::duration>(DrainAtLeast, DrainAtMost - drainedFor));
    while (LingeringConnection *const connection = firstOfThread) {
        connection->waitForReplies(deadline);
        delete connection;
    }
    drainedFor += LeaseClock::system()->now() - begun;
}

LingeringConnection::AtExit::~AtExit()
{
    programEnds = true;
    drainThread();
}

} // namespace QtRedis
