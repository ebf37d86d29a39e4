// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "contender.h"

#include <QDistLock/DistributedLock>
#include <QDistLock/LockRegistry>
#include <QDistLock/impl/permits.h>

#include <QtCore/qeventloop.h>
#include <QtCore/qjsonarray.h>
#include <QtCore/qtimer.h>

#include <algorithm>
#include <vector>

using namespace Qt::StringLiterals;

namespace Bench {
namespace {

using QDistLock::DistributedLock;

/*
    Clients that all acquire the same lock, again as soon as they have released it or after a pause. After the end of a
    run each is served once more, so that no client is left in the queue.

    For each turn the run reports the client; in µs, when the acquire was called, when its place in the queue was known
    (the request reached the server between the two), when the lock was acquired, and when release() was called; and the
    fencing token, which shows the order in which the server granted the lock.
*/
class LibraryContended : public Contender
{
public:
    LibraryContended(const Setup &setup, bool hasReaders)
    {
        for (int i = 0; i < setup.clients; ++i) {
            m_registries.push_back(std::make_unique<QDistLock::LockRegistry>(setup.server));
            for (int j = 0; j < setup.locks; ++j)
                addWaiter(m_registries.back().get(), setup);
        }
        for (const auto &waiter : m_waiters) {
            if (setup.permits > 0)
                QDistLock::Detail::setPermits(&waiter->lock, setup.permits, 1); // what makes it a Semaphore
        }
        for (size_t i = 0; hasReaders && i + 1 < m_waiters.size(); ++i)
            m_waiters[i]->lock.setMode(QDistLock::LockOptions::Shared);
    }

    QJsonObject run(std::chrono::milliseconds duration, int participants) override
    {
        // The memory is written once before, because the first write to a page may stall a virtual machine for
        // milliseconds.
        constexpr qint64 TurnsPerSecond = 8000;
        constexpr qint64 Most = 16000; // in a long run many other processes take most of the turns
        const qint64 expected = TurnsPerSecond * duration.count() / 1000 + 1000;
        m_turns.assign(static_cast<size_t>(std::min(expected, Most)), Turn());
        m_turns.clear();
        const Stopwatch stopwatch;
        m_end = microseconds() + std::chrono::microseconds(duration).count();
        m_busy = std::min(participants, static_cast<int>(m_waiters.size()));
        for (int i = 0; i < m_busy; ++i)
            ask(m_waiters[static_cast<size_t>(i)].get());
        m_loop.exec();
        QJsonObject result = stopwatch.finish(static_cast<qint64>(m_turns.size())).toJson();
        const auto insert = [this, &result](const char *name, auto member) {
            QJsonArray values;
            for (const Turn &turn : m_turns)
                values.append(turn.*member);
            result.insert(QLatin1String(name), values);
        };
        insert("clients", &Turn::client);
        insert("asked", &Turn::asked);
        insert("queued", &Turn::queued);
        insert("acquired", &Turn::acquired);
        insert("released", &Turn::released);
        insert("fences", &Turn::fence);
        return result;
    }

private:
    struct Turn
    {
        int client = 0;
        qint64 asked = 0;
        qint64 queued = 0;
        qint64 acquired = 0;
        qint64 fence = 0;
        qint64 released = 0;
    };

    struct Waiter
    {
        Waiter(QDistLock::LockRegistry *registry, const QString &name)
            : lock(registry, name)
        {
        }
        DistributedLock lock;
        int index = 0;
        qint64 asked = 0;
        qint64 queued = 0;
        size_t turn = 0;
    };

    void addWaiter(QDistLock::LockRegistry *registry, const Setup &setup)
    {
        m_waiters.push_back(std::make_unique<Waiter>(registry, u"bench:contended"_s));
        Waiter *waiter = m_waiters.back().get();
        waiter->index = static_cast<int>(m_waiters.size());
        DistributedLock *lock = &waiter->lock;
        lock->setWaitTime(QDistLock::LockOptions::Forever);
        lock->setFair(setup.fair);
        QObject::connect(lock, &DistributedLock::queuePositionChanged, lock, [waiter] {
            if (waiter->queued == 0 && waiter->lock.queuePosition() >= 0)
                waiter->queued = microseconds();
        });
        QObject::connect(lock, &DistributedLock::acquired, lock, [this, waiter, work = setup.work] {
            const qint64 now = microseconds();
            waiter->turn = m_turns.size();
            m_turns.push_back({waiter->index, waiter->asked, waiter->queued ? waiter->queued : now, now,
                               waiter->lock.fencingToken()});
            if (work.count() == 0)
                release(waiter);
            else
                QTimer::singleShot(work, Qt::PreciseTimer, &waiter->lock, [this, waiter] { release(waiter); });
        });
        QObject::connect(lock, &DistributedLock::released, lock, [this, waiter, pause = setup.pause] {
            if (pause.count() == 0)
                continueWith(waiter);
            else
                QTimer::singleShot(pause, Qt::PreciseTimer, &waiter->lock, [this, waiter] { continueWith(waiter); });
        });
        QObject::connect(lock, &DistributedLock::acquireFailed, lock,
                         [lock] { fail(u"qdistlock: "_s + lock->errorString()); });
        QObject::connect(lock, &DistributedLock::lost, lock, [lock] { fail(u"qdistlock: lost "_s + lock->name()); });
    }

    void release(Waiter *waiter)
    {
        m_turns[waiter->turn].released = microseconds();
        waiter->lock.release();
    }

    void continueWith(Waiter *waiter)
    {
        if (microseconds() < m_end)
            ask(waiter);
        else if (--m_busy == 0)
            m_loop.quit();
    }

    static void ask(Waiter *waiter)
    {
        waiter->asked = microseconds();
        waiter->queued = 0;
        waiter->lock.acquire();
    }

    std::vector<std::unique_ptr<QDistLock::LockRegistry>> m_registries;
    std::vector<std::unique_ptr<Waiter>> m_waiters;
    QEventLoop m_loop;
    std::vector<Turn> m_turns;
    qint64 m_end = 0;
    int m_busy = 0;
};

} // namespace

std::unique_ptr<Contender> makeLibraryContended(const Setup &setup)
{
    return std::make_unique<LibraryContended>(setup, false);
}

std::unique_ptr<Contender> makeLibraryReadWrite(const Setup &setup)
{
    return std::make_unique<LibraryContended>(setup, true);
}

} // namespace Bench
