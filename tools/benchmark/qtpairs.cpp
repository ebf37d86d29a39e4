// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "bareqtsocket.h"
#include "contender.h"

#include <QtCore/qeventloop.h>
#include <QtCore/qlist.h>
#include <QtCore/qqueue.h>

using namespace Qt::StringLiterals;

namespace Bench {
namespace {

/*
    A bare Qt socket. The locks are independent: the reply to a SET sends the EVALSHA of that lock, and the reply to
    that sends its next SET.
*/
class QtPairs : public Contender, private BareQtSocket
{
public:
    QtPairs(const QUrl &server, int locks)
        : BareQtSocket(server)
        , m_sha1(loadReleaseScript(server))
    {
        for (int i = 0; i < locks; ++i)
            m_locks.append({bareKey("qt", i), {}, false});
    }

    QJsonObject run(std::chrono::milliseconds duration, int) override
    {
        m_limit = std::chrono::duration<double>(duration).count();
        m_pairs = 0;
        const Stopwatch stopwatch;
        m_stopwatch = &stopwatch;
        for (Lock &lock : m_locks)
            acquire(&lock);
        m_loop.exec();
        return stopwatch.finish(m_pairs).toJson();
    }

private:
    struct Lock
    {
        QByteArray key;
        QByteArray token;
        bool held;
    };

    void acquire(Lock *lock)
    {
        lock->token = "bare-token-" + QByteArray::number(++m_sequence).rightJustified(12, '0');
        send({"SET", lock->key, lock->token, "NX", "PX", "30000"});
        m_pending.enqueue(lock);
    }

    void received(const ReplyPointer &reply) override
    {
        Lock *const lock = m_pending.dequeue();
        if (!lock->held) {
            if (reply->type != REDIS_REPLY_STATUS)
                fail(u"Qt socket: a free lock was not acquired"_s);
            lock->held = true;
            send({"EVALSHA", m_sha1, "1", lock->key, lock->token});
            m_pending.enqueue(lock);
            return;
        }
        if (reply->integer != 1)
            fail(u"Qt socket: a held lock was not released"_s);
        lock->held = false;
        ++m_pairs;
        if (m_stopwatch->seconds() < m_limit)
            acquire(lock);
        else if (m_pending.isEmpty())
            m_loop.quit();
    }

    const QByteArray m_sha1;
    QList<Lock> m_locks;
    QQueue<Lock *> m_pending;
    QEventLoop m_loop;
    const Stopwatch *m_stopwatch = nullptr;
    double m_limit = 0;
    qint64 m_pairs = 0;
    qint64 m_sequence = 0;
};

} // namespace

std::unique_ptr<Contender> makeQtPairs(const Setup &setup)
{
    return std::make_unique<QtPairs>(setup.server, setup.locks);
}

} // namespace Bench
