// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "contender.h"
#include "looptimer.h"

#include <QDistLock/DistributedLock>
#include <QDistLock/LockRegistry>

#include <QtCore/qeventloop.h>
#include <QtCore/qjsonarray.h>
#include <QtCore/qsocketnotifier.h>
#include <QtCore/qtimer.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include <unistd.h>

using namespace Qt::StringLiterals;

namespace Bench {
namespace {

using QDistLock::DistributedLock;

/*
    Locks held over fail-overs: those of the first registry. With more than one client, that many locks of a second
    registry wait for the first of them.

    A run lasts until the next line on standard input, which begins the next run: the locks are renewed all the time.
    It reports when the first lock was renewed, and for how long the event loop was kept at most.
*/
class LibrarySentinel : public Contender
{
public:
    explicit LibrarySentinel(const Setup &setup)
        : m_holding(setup.server)
        , m_waiting(setup.server)
        , m_input(STDIN_FILENO, QSocketNotifier::Read)
    {
        std::setvbuf(stdin, nullptr, _IONBF, 0); // a line that was read ahead would not be noticed
        m_input.setEnabled(false);
        QObject::connect(&m_input, &QSocketNotifier::activated, &m_loop, [this] {
            m_input.setEnabled(false);
            m_loop.quit();
        });
        for (int i = 0; i < setup.locks; ++i)
            hold(makeLock(&m_holding, i, setup.lease));
        QObject::connect(m_locks.front().get(), &DistributedLock::renewed, &m_loop,
                         [this] { m_renewals.append(static_cast<double>(microseconds())); });
        for (int i = 1; i < setup.clients; ++i)
            makeLock(&m_waiting, 0, setup.lease);
        m_locks.front()->acquire();
    }

    QJsonObject run(std::chrono::milliseconds, int) override
    {
        m_renewals = {};
        m_lost = 0;
        const Stopwatch stopwatch;
        const LoopTimer timer;
        m_input.setEnabled(true);
        m_loop.exec();
        QJsonObject result = stopwatch.finish(m_renewals.size()).toJson();
        result.insert(u"renewed"_s, m_renewals);
        result.insert(u"longestTurn"_s, timer.longestMilliseconds());
        result.insert(u"lost"_s, m_lost);
        result.insert(u"held"_s, int(std::count_if(m_locks.begin(), m_locks.end(), [](const auto &lock) {
                          return lock->isHeld();
                      })));
        return result;
    }

private:
    DistributedLock *makeLock(QDistLock::LockRegistry *registry, int index, std::chrono::milliseconds lease)
    {
        const QString name = u"bench:sentinel:%1:%2"_s.arg(getpid()).arg(index);
        m_locks.push_back(std::make_unique<DistributedLock>(registry, name));
        m_locks.back()->setLease(lease);
        m_locks.back()->setWaitTime(QDistLock::LockOptions::Forever);
        return m_locks.back().get();
    }

    /// All others follow the first lock, for which the waiters must come too late.
    void hold(DistributedLock *lock)
    {
        QObject::connect(lock, &DistributedLock::lost, lock, [this, lock] {
            ++m_lost;
            lock->acquire();
        });
        if (lock == m_locks.front().get()) {
            QObject::connect(lock, &DistributedLock::acquired, &m_loop, [this] {
                if (std::exchange(m_isPrepared, true))
                    return;
                for (size_t i = 1; i < m_locks.size(); ++i)
                    m_locks[i]->acquire();
            });
        }
    }

    QDistLock::LockRegistry m_holding, m_waiting;
    std::vector<std::unique_ptr<DistributedLock>> m_locks;
    QSocketNotifier m_input;
    QEventLoop m_loop;
    QJsonArray m_renewals; ///< µs
    int m_lost = 0;
    bool m_isPrepared = false;
};

/*
    Pairs of one lock without minReplicas. In some runs another lock of the same registry asks for a replica that does
    not answer, again and again.
*/
class LibraryBesideWait : public Contender
{
public:
    explicit LibraryBesideWait(const Setup &setup)
        : m_registry(setup.server)
        , m_lock(&m_registry, u"bench:beside:%1"_s.arg(getpid()))
        , m_waiting(&m_registry, u"bench:wait:%1"_s.arg(getpid()))
    {
        m_waiting.setOptions(QDistLock::LockOptions()
                                     .withLease(setup.lease)
                                     .withWait(QDistLock::LockOptions::Forever)
                                     .withMinReplicas(1)
                                     .withReplicaTimeout(ReplicaTimeout));
        QObject::connect(&m_lock, &DistributedLock::acquired, &m_lock, &DistributedLock::release);
        QObject::connect(&m_lock, &DistributedLock::released, &m_lock, [this] { next(); });
        QObject::connect(&m_lock, &DistributedLock::acquireFailed, &m_lock,
                         [this] { fail(u"qdistlock: "_s + m_lock.errorString()); });
        QObject::connect(&m_waiting, &DistributedLock::acquired, &m_waiting,
                         [] { fail(u"qdistlock: a replica has answered"_s); });
    }

    /// \a participants: 2 = beside the other lock, 1 = alone.
    QJsonObject run(std::chrono::milliseconds duration, int participants) override
    {
        QTimer::singleShot(2 * ReplicaTimeout, &m_loop, &QEventLoop::quit); // the last WAIT ends
        m_loop.exec();
        if (participants == 2)
            m_waiting.acquire();
        m_times = {};
        m_end = microseconds() + duration.count() * 1000;
        const Stopwatch stopwatch;
        start();
        m_loop.exec();
        QJsonObject result = stopwatch.finish(m_times.size()).toJson();
        result.insert(u"microseconds"_s, m_times);
        m_waiting.cancel();
        return result;
    }

private:
    void start()
    {
        m_start = microseconds();
        m_lock.acquire();
    }

    void next()
    {
        const qint64 now = microseconds();
        m_times.append(static_cast<double>(now - m_start));
        if (now < m_end)
            start();
        else
            m_loop.quit();
    }

    static constexpr std::chrono::milliseconds ReplicaTimeout{250};

    QDistLock::LockRegistry m_registry;
    DistributedLock m_lock, m_waiting;
    QEventLoop m_loop;
    QJsonArray m_times;
    qint64 m_start = 0; ///< µs
    qint64 m_end = 0;
};

} // namespace

std::unique_ptr<Contender> makeLibrarySentinel(const Setup &setup)
{
    return std::make_unique<LibrarySentinel>(setup);
}

std::unique_ptr<Contender> makeLibraryBesideWait(const Setup &setup)
{
    return std::make_unique<LibraryBesideWait>(setup);
}

} // namespace Bench
