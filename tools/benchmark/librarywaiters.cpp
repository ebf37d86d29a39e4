// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "contender.h"

#include <QDistLock/DistributedLock>
#include <QDistLock/LockRegistry>

#include <QtCore/qcoreapplication.h>
#include <QtCore/qeventloop.h>
#include <QtCore/qtimer.h>

#include <vector>

using namespace Qt::StringLiterals;

namespace Bench {
namespace {

using QDistLock::DistributedLock;

/*
    One holder, and everybody else waits. The first run only gets all of them into the queue; the others
    let the time go by, and measure what the waiting costs. The holder, with a separate registry, lives
    in the same process.
*/
class LibraryWaiters : public Contender
{
public:
    explicit LibraryWaiters(const Setup &setup)
        : m_holding(setup.server)
        , m_holder(&m_holding, u"bench:waiters:%1"_s.arg(QCoreApplication::applicationPid()))
    {
        m_holder.setLease(setup.lease);
        for (int i = 0; i < setup.clients; ++i) {
            m_registries.push_back(std::make_unique<QDistLock::LockRegistry>(setup.server));
            for (int j = 0; j < setup.locks; ++j) {
                m_waiters.push_back(std::make_unique<DistributedLock>(m_registries.back().get(), m_holder.name()));
                m_waiters.back()->setWaitTime(QDistLock::LockOptions::Forever);
                m_waiters.back()->setLease(setup.lease);
            }
        }
    }

    QJsonObject run(std::chrono::milliseconds duration, int) override
    {
        if (!m_holder.isHeld())
            prepare();
        const Stopwatch stopwatch;
        QEventLoop loop;
        QTimer::singleShot(duration, &loop, &QEventLoop::quit);
        loop.exec();
        if (!m_holder.isHeld())
            fail(u"qdistlock: the holder lost the lock"_s);
        return stopwatch.finish(static_cast<qint64>(m_waiters.size())).toJson();
    }

private:
    void prepare()
    {
        QEventLoop loop;
        QObject::connect(&m_holder, &DistributedLock::acquired, &loop, &QEventLoop::quit);
        QObject::connect(&m_holder, &DistributedLock::acquireFailed, &loop,
                         [this] { fail(u"qdistlock: "_s + m_holder.errorString()); });
        m_holder.acquire();
        loop.exec();

        size_t missing = m_waiters.size();
        for (const auto &waiter : m_waiters) {
            DistributedLock *lock = waiter.get();
            QObject::connect(lock, &DistributedLock::acquireFailed, lock,
                             [lock] { fail(u"qdistlock: "_s + lock->errorString()); });
            QObject::connect(lock, &DistributedLock::acquired, lock, [] { fail(u"qdistlock: a second holder"_s); });
            QObject::connect(lock, &DistributedLock::queuePositionChanged, &loop,
                             [lock, &loop, &missing, queued = false]() mutable {
                                 if (lock->queuePosition() >= 0 && !std::exchange(queued, true) && --missing == 0) {
                                     loop.quit();
                                 }
                             });
            lock->acquire();
        }
        loop.exec();
    }

    QDistLock::LockRegistry m_holding;
    DistributedLock m_holder;
    std::vector<std::unique_ptr<QDistLock::LockRegistry>> m_registries;
    std::vector<std::unique_ptr<DistributedLock>> m_waiters;
};

} // namespace

std::unique_ptr<Contender> makeLibraryWaiters(const Setup &setup)
{
    return std::make_unique<LibraryWaiters>(setup);
}

} // namespace Bench
