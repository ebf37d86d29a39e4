// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "contender.h"

#include <QDistLock/DistributedLock>
#include <QDistLock/LockRegistry>
#include <QDistLock/Semaphore>

#include <QtCore/qcoreapplication.h>
#include <QtCore/qeventloop.h>

#include <vector>

using namespace Qt::StringLiterals;

namespace Bench {
namespace {

using QDistLock::DistributedLock;

/// The public interface with its defaults (watchdog and fencing tokens on), by signals and slots.
class LibraryPairs : public Contender
{
public:
    LibraryPairs(const Setup &setup, QDistLock::LockOptions::Mode mode)
        : m_registry(setup.server)
    {
        m_registry.setDefaults(QDistLock::LockOptions().withMode(mode));
        for (int i = 0; i < setup.locks; ++i) {
            const QString name = u"bench:%1:%2"_s.arg(QCoreApplication::applicationPid()).arg(i);
            if (setup.permits > 0)
                m_locks.push_back(std::make_unique<QDistLock::Semaphore>(&m_registry, name, setup.permits));
            else
                m_locks.push_back(std::make_unique<DistributedLock>(&m_registry, name));
            DistributedLock *lock = m_locks.back().get();
            QObject::connect(lock, &DistributedLock::acquired, lock, &DistributedLock::release);
            QObject::connect(lock, &DistributedLock::released, lock, [this, lock] { next(lock); });
            QObject::connect(lock, &DistributedLock::acquireFailed, lock,
                             [lock] { fail(u"qdistlock: "_s + lock->errorString()); });
            QObject::connect(lock, &DistributedLock::lost, lock,
                             [lock] { fail(u"qdistlock: lost "_s + lock->name()); });
        }
    }

    QJsonObject run(std::chrono::milliseconds duration, int) override
    {
        m_limit = std::chrono::duration<double>(duration).count();
        m_pairs = 0;
        m_busy = static_cast<int>(m_locks.size());
        const Stopwatch stopwatch;
        m_stopwatch = &stopwatch;
        for (const auto &lock : m_locks)
            lock->acquire();
        m_loop.exec();
        return stopwatch.finish(m_pairs).toJson();
    }

private:
    void next(DistributedLock *lock)
    {
        ++m_pairs;
        if (m_stopwatch->seconds() < m_limit)
            lock->acquire();
        else if (--m_busy == 0)
            m_loop.quit();
    }

    QDistLock::LockRegistry m_registry;
    std::vector<std::unique_ptr<DistributedLock>> m_locks;
    QEventLoop m_loop;
    const Stopwatch *m_stopwatch = nullptr;
    double m_limit = 0;
    qint64 m_pairs = 0;
    int m_busy = 0;
};

} // namespace

std::unique_ptr<Contender> makeLibraryPairs(const Setup &setup)
{
    return std::make_unique<LibraryPairs>(setup, QDistLock::LockOptions::Exclusive);
}

std::unique_ptr<Contender> makeLibraryReaders(const Setup &setup)
{
    return std::make_unique<LibraryPairs>(setup, QDistLock::LockOptions::Shared);
}

} // namespace Bench
