// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "eventloopprobe.h"
#include "redisserver.h"

#include "lock/lockregistry_p.h"

#include <QDistLock/DistributedLock>
#include <QDistLock/LockOptions>
#include <QDistLock/LockRegistry>

#include <QtCore/qcoreapplication.h>
#include <QtCore/qmutex.h>
#include <QtCore/qthread.h>
#include <QtTest/qsignalspy.h>
#include <QtTest/qtest.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

/// Shared by the tests of locks.
namespace LockTesting {

using namespace std::chrono_literals;
using QDistLock::DistributedLock;
using QDistLock::LockOptions;
using QDistLock::LockRegistry;
using QDistLock::LockRegistryPrivate;
using QDistLock::LockResult;
using std::chrono::milliseconds;

/// Runs an event loop until \a condition is true. Faster than QTRY_VERIFY, which polls every 50 ms.
inline bool eventually(const std::function<bool()> &condition, milliseconds timeout = 60s)
{
    return Support::EventLoopProbe::waitFor(condition, timeout);
}

/// Whether \a condition is true for each of \a items.
template<typename Items, typename Condition>
bool all(const Items &items, Condition condition)
{
    return std::all_of(std::begin(items), std::end(items), condition);
}

/// Processes posted events and what the sockets have received, without waiting.
inline void processEvents()
{
    for (int i = 0; i < 3; ++i) {
        QCoreApplication::sendPostedEvents();
        QCoreApplication::processEvents();
    }
}

/// Sends the commands requested so far, and reads no reply. (Commands collected during a turn are posted twice.)
inline void sendNow()
{
    for (int i = 0; i < 3; ++i)
        QCoreApplication::sendPostedEvents();
}

/// Longer than eventually() waits: what vanishes from the server meanwhile, our side has given back.
inline constexpr milliseconds Outlasting = 10min;

/// A lease that no pause of the machine ends, and a wait that none uses up.
inline LockOptions options(milliseconds lease = 30s, milliseconds wait = 60s)
{
    return LockOptions().withLease(lease).withWait(wait).withRetryInterval(20ms);
}

/// How often a test repeats something: \a usual, unless the environment says otherwise.
inline int countFrom(const char *variable, int usual)
{
    bool isGiven = false;
    const int given = qEnvironmentVariableIntValue(variable, &isGiven);
    return isGiven ? given : usual;
}

/// Spies on the signals of a lock, or of a MultiLock.
template<typename Lock>
struct SpiesOf
{
    explicit SpiesOf(Lock *lock)
        : acquired(lock, &Lock::acquired)
        , failed(lock, &Lock::acquireFailed)
        , lost(lock, &Lock::lost)
        , released(lock, &Lock::released)
        , renewed(lock, &Lock::renewed)
        , atRisk(lock, &Lock::atRisk)
        , errors(lock, &Lock::errorOccurred)
    {
    }

    DistributedLock::Error failure(int index = 0) const
    {
        return failed.at(index).at(0).value<DistributedLock::Error>();
    }
    DistributedLock::LossReason reason(int index = 0) const
    {
        return lost.at(index).at(0).value<DistributedLock::LossReason>();
    }
    qsizetype acquiresEnded() const { return acquired.size() + failed.size(); }
    qsizetype holdsEnded() const { return lost.size() + released.size(); }
    qsizetype total() const { return acquiresEnded() + holdsEnded() + renewed.size() + atRisk.size() + errors.size(); }

    QSignalSpy acquired, failed, lost, released, renewed, atRisk, errors;
};
using Spies = SpiesOf<DistributedLock>;

/// Acquires \a lock, and waits for the result. True if the lock is held.
inline bool acquireNow(DistributedLock *lock)
{
    lock->acquire();
    return eventually([lock] { return lock->isHeld() || lock->state() == DistributedLock::Unlocked; })
            && lock->isHeld();
}

/// Waits in the queue at \a position.
inline bool joinQueue(DistributedLock *lock, int position = 0)
{
    lock->acquire();
    return eventually([&] { return lock->queuePosition() == position; });
}

/// Acquires, which must fail: NoError if it does not.
template<typename Lock>
DistributedLock::Error failureNow(Lock *lock)
{
    QSignalSpy failed(lock, &Lock::acquireFailed);
    lock->acquire();
    return eventually([&] { return failed.size() == 1; }) ? failed.first().first().value<DistributedLock::Error>()
                                                          : DistributedLock::NoError;
}

template<typename Lock>
bool releaseNow(Lock *lock)
{
    QSignalSpy released(lock, &Lock::released);
    lock->release();
    return eventually([&] { return released.size() == 1; });
}

/// The result of an acquire that times out because somebody else holds the lock. \a acquire is called with the wait. If
/// the machine pauses, the wait may end before the server has replied, with a ConnectionError: then a longer wait
/// follows.
template<typename Acquire>
LockResult timeOutOf(Acquire acquire)
{
    LockResult result;
    for (milliseconds wait = 100ms; wait < 2min; wait *= 4) {
        result = acquire(wait);
        if (result.error != DistributedLock::ConnectionError)
            break;
    }
    return result;
}

/// Its waiters can be woken. At the moment when this becomes true they make an attempt, whatever the clock says.
inline bool isListening(LockRegistry *registry)
{
    const auto *engine = LockRegistryPrivate::get(registry)->engine();
    return engine && engine->canBeWoken({});
}

/// Releases the lock \a name by force, from a client in another thread. The holder is notified at once, however long
/// its lease is, if its registry is listening. True if somebody held it.
inline bool endByForce(const QUrl &server, const QString &name)
{
    bool ended = false;
    const std::unique_ptr<QThread> thread(QThread::create([&] {
        LockRegistry registry(server);
        const auto forced = registry.forceRelease(name);
        ended = eventually([&forced] { return forced.isFinished(); }) && forced.resultCount() == 1
                && forced.result().value == LockRegistry::Done;
    }));
    thread->start();
    thread->wait();
    return ended;
}

/// Collects all log messages while it exists. Of nested objects only the innermost one does.
class LogCapture
{
public:
    LogCapture()
    {
        const QMutexLocker locker(&s_mutex);
        m_outer = std::exchange(s_current, this);
        m_before = qInstallMessageHandler(handle);
    }
    ~LogCapture()
    {
        const QMutexLocker locker(&s_mutex);
        qInstallMessageHandler(m_before);
        s_current = m_outer;
    }

    QStringList messages() const
    {
        const QMutexLocker locker(&s_mutex);
        return m_messages;
    }
    QString text() const { return messages().join(u'\n'); }
    /// The messages of one type and category.
    QStringList messages(QtMsgType type, const char *category = "qdistlock.lock") const
    {
        const QMutexLocker locker(&s_mutex);
        QStringList found;
        for (qsizetype i = 0; i < m_messages.size(); ++i) {
            if (m_kinds.at(i) == std::pair(type, QByteArray(category)))
                found.append(m_messages.at(i));
        }
        return found;
    }
    /// The number of messages that contain all these words.
    qsizetype count(const QStringList &words) const
    {
        const QStringList all = messages();
        return std::count_if(all.begin(), all.end(), [&words](const QString &message) {
            return std::all_of(words.begin(), words.end(),
                               [&message](const QString &word) { return message.contains(word); });
        });
    }

private:
    Q_DISABLE_COPY_MOVE(LogCapture)
    static void handle(QtMsgType type, const QMessageLogContext &context, const QString &message)
    {
        const QMutexLocker locker(&s_mutex);
        if (!s_current)
            return; // another thread has entered this function just before the last capture ended
        s_current->m_kinds.append({type, context.category});
        s_current->m_messages.append(message);
    }

    inline static QMutex s_mutex; // for all captures: other threads log while one ends
    inline static LogCapture *s_current = nullptr;
    LogCapture *m_outer = nullptr;
    QtMessageHandler m_before = nullptr;
    QStringList m_messages;
    QList<std::pair<QtMsgType, QByteArray>> m_kinds;
};

/// All keys except the fences and the numbers of permits, which are meant to stay.
inline QList<QByteArray> lockKeys(Support::RedisServer &server)
{
    QList<QByteArray> keys = server.keys();
    keys.removeIf([](const QByteArray &key) { return key.endsWith(":fence") || key.endsWith(":permits"); });
    return keys;
}

} // namespace LockTesting
