// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "support/eventloopprobe.h"
#include "support/redisserver.h"

#include "lockregistry_p.h"

#include <QDistLock/DistributedLock>
#include <QDistLock/LockOptions>
#include <QDistLock/LockRegistry>

#include <QtCore/qcoreapplication.h>
#include <QtCore/qmutex.h>
#include <QtTest/qsignalspy.h>
#include <QtTest/qtest.h>

#include <utility>

/// What the tests of the lock share.
namespace LockTesting {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using QDistLock::DistributedLock;
using QDistLock::LockOptions;
using QDistLock::LockRegistry;
using QDistLock::LockRegistryPrivate;
using QDistLock::LockResult;

/// Runs an event loop until then; without the steps of 50 ms that QTRY_VERIFY takes.
inline bool eventually(const std::function<bool()> &condition, milliseconds timeout = 10s)
{
    return Support::EventLoopProbe::waitFor(condition, timeout);
}

/// What comes without waiting: posted events and what lies in the sockets.
inline void processEvents()
{
    for (int i = 0; i < 3; ++i) {
        QCoreApplication::sendPostedEvents();
        QCoreApplication::processEvents();
    }
}

/// What was asked for goes out, nothing comes in. (What is collected during a turn is posted twice.)
inline void sendNow()
{
    for (int i = 0; i < 3; ++i)
        QCoreApplication::sendPostedEvents();
}

inline LockOptions options(milliseconds lease = 1s, milliseconds wait = 5s)
{
    return LockOptions().withLease(lease).withWait(wait).withRetryInterval(20ms);
}

/// Every signal that ends something.
struct Spies
{
    explicit Spies(DistributedLock *lock)
        : acquired(lock, &DistributedLock::acquired)
        , failed(lock, &DistributedLock::acquireFailed)
        , lost(lock, &DistributedLock::lost)
        , released(lock, &DistributedLock::released)
        , renewed(lock, &DistributedLock::renewed)
        , atRisk(lock, &DistributedLock::atRisk)
        , errors(lock, &DistributedLock::errorOccurred)
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
    qsizetype total() const
    {
        return acquiresEnded() + holdsEnded() + renewed.size() + atRisk.size() + errors.size();
    }

    QSignalSpy acquired, failed, lost, released, renewed, atRisk, errors;
};

/// True once \a lock is held.
inline bool acquireNow(DistributedLock *lock)
{
    lock->acquire();
    return eventually([lock] { return lock->isHeld() || lock->state() == DistributedLock::Unlocked; })
            && lock->isHeld();
}

/// Takes all messages there are while it lives, the innermost one.
class LogCapture
{
public:
    LogCapture()
        : m_outer(std::exchange(s_current, this))
    {
        m_before = qInstallMessageHandler(handle);
    }
    ~LogCapture()
    {
        qInstallMessageHandler(m_before);
        s_current = m_outer;
    }

    QStringList messages() const
    {
        const QMutexLocker locker(&m_mutex);
        return m_messages;
    }
    QString text() const { return messages().join(u'\n'); }
    /// Those of one kind.
    QStringList messages(QtMsgType type, const char *category = "qdistlock.lock") const
    {
        const QMutexLocker locker(&m_mutex);
        QStringList found;
        for (qsizetype i = 0; i < m_messages.size(); ++i) {
            if (m_kinds.at(i) == std::pair(type, QByteArray(category)))
                found.append(m_messages.at(i));
        }
        return found;
    }
    /// Messages that have all these words.
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
        const QMutexLocker locker(&s_current->m_mutex);
        s_current->m_kinds.append({type, context.category});
        s_current->m_messages.append(message);
    }

    inline static LogCapture *s_current = nullptr;
    LogCapture *const m_outer;
    QtMessageHandler m_before = nullptr;
    mutable QMutex m_mutex;
    QStringList m_messages;
    QList<std::pair<QtMsgType, QByteArray>> m_kinds;
};

/// The keys that hold or hide a lock: all but the fences, which stay on purpose.
inline QList<QByteArray> lockKeys(Support::RedisServer &server)
{
    QList<QByteArray> keys = server.keys();
    keys.removeIf([](const QByteArray &key) { return key.endsWith(":fence"); });
    return keys;
}

} // namespace LockTesting
