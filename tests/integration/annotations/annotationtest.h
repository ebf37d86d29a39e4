// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "support/locktest.h"
#include "support/posix.h"
#include "support/testkinds.h"

#include <QDistLock/Annotations>

#include <QtCore/qdeadlinetimer.h>
#include <QtCore/qsemaphore.h>
#include <QtCore/qthread.h>

#include <functional>
#include <utility>

/// What the tests of annotated methods share.
namespace AnnotationTesting {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

/// The failure of a future that has ended; NoError if it has a result.
template<typename T>
QDistLock::LockResult failureOf(QFuture<T> future)
{
    try {
        future.waitForFinished(); // throws its exception
    } catch (const QDistLock::LockUnavailable &unavailable) {
        return unavailable.result();
    }
    return {};
}

template<typename T>
bool finished(const QFuture<T> &future, milliseconds timeout = 60s)
{
    return LockTesting::eventually([&future] { return future.isFinished(); }, timeout);
}

/// Blocks the event loop of this thread until \a condition is true.
template<typename Condition>
void blockUntil(Condition condition)
{
    const QDeadlineTimer deadline(60s);
    while (!condition() && !deadline.hasExpired())
        Support::Posix::pollPause();
}

/// A thread with an event loop.
struct LoopThread
{
    LoopThread()
    {
        thread.start();
        inside.moveToThread(&thread);
    }
    ~LoopThread() { end(); }
    void end()
    {
        unblock();
        thread.quit();
        thread.wait();
    }
    /// Stops its event loop until unblock().
    void block()
    {
        QMetaObject::invokeMethod(
                &inside,
                [this] {
                    blocked.release();
                    go.acquire();
                },
                Qt::QueuedConnection);
        blocked.acquire();
    }
    void unblock() { go.release(); }
    /// Calls \a function in the thread, and returns when that has.
    template<typename Function>
    void call(Function &&function)
    {
        QMetaObject::invokeMethod(&inside, std::forward<Function>(function), Qt::BlockingQueuedConnection);
    }

    QThread thread;
    QObject inside;
    QSemaphore blocked;
    QSemaphore go;
};

/// A test with a server that is empty before and after each test function.
class AnnotationTest : public LockTesting::RedisLockTest
{
    Q_OBJECT

private Q_SLOTS:
    void initTestCase()
    {
        RedisLockTest::initTestCase();
        QDistLock::LockRegistry::setDefaultServer(m_server.url());
    }
    void cleanup()
    {
        LockTest::cleanup();
        if (!QTest::currentTestFailed())
            QVERIFY(nothingLeft());
    }

protected:
    /// Another client takes the lock: the real redis-cli, in a separate process.
    void hold(const QByteArray &key)
    {
        QCOMPARE(m_server.cli({"SET", key, "somebody", "PX", "600000"}), QByteArray("OK"));
    }
    void letGo(const QByteArray &key) { m_server.command({"DEL", key}); }
    /// Another client releases \a lock by force. May be called in any thread.
    void endByForce(const QString &lock) { QVERIFY(LockTesting::endByForce(m_server.url(), lock)); }
    /// The time-out is less than a lease: a key that nobody releases must not pass because it expires.
    bool nothingLeft()
    {
        return LockTesting::eventually([this] { return LockTesting::lockKeys(m_server).isEmpty(); }, 20s);
    }
    /// Waits until the library has asked the server for a lock; \a before is the number of its commands until now.
    bool asked(qint64 before)
    {
        return LockTesting::eventually([this, before] { return m_server.commandsProcessed("evalsha") > before; });
    }
    /// Waits until a call is in the server's queue for the lock \a name.
    bool waits(const QByteArray &name)
    {
        return LockTesting::eventually([this, name] { return m_server.exists("{lock:" + name + "}:queue"); });
    }
    /// Waits until the background thread has done everything it was asked for before.
    static void waitForService()
    {
        const QDistLock::ScopedLock behind(QStringLiteral("behind")); // uses the same connection
        QVERIFY(behind);
    }
};

} // namespace AnnotationTesting
