// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "contender.h"

#include <QDistLock/DistributedLock>
#include <QDistLock/LockRegistry>

#include <QtCore/qcoreapplication.h>
#include <QtCore/qeventloop.h>
#include <QtCore/qtimer.h>

#include <malloc.h>

#include <vector>

using namespace Qt::StringLiterals;

namespace Bench {
namespace {

using QDistLock::DistributedLock;

/*
    Many locks of one registry, held until the process ends. The first run constructs and acquires them, and reports the
    memory that one lock needs; the other runs measure the cost of the renewals, and count those of one lock.
*/
class LibraryHeld : public Contender
{
public:
    explicit LibraryHeld(const Setup &setup)
        : m_registry(setup.server)
        , m_lease(setup.lease)
        , m_count(setup.locks)
    {
    }

    QJsonObject run(std::chrono::milliseconds duration, int) override
    {
        if (m_locks.empty())
            return prepare();
        int renewals = 0;
        QEventLoop loop;
        QObject::connect(m_locks.front().get(), &DistributedLock::renewed, &loop, [&renewals] { ++renewals; });
        const Stopwatch stopwatch;
        QTimer::singleShot(duration, &loop, &QEventLoop::quit);
        loop.exec();
        for (const auto &lock : m_locks) {
            if (!lock->isHeld())
                fail(u"qdistlock: lost "_s + lock->name());
        }
        QJsonObject result = stopwatch.finish(m_count).toJson();
        result.insert(u"renewals"_s, renewals);
        return result;
    }

private:
    QJsonObject prepare()
    {
        {
            // The first lock of a registry costs more than each further one, and is not counted.
            DistributedLock first(&m_registry, u"bench:held:first"_s);
            QEventLoop loop;
            QObject::connect(&first, &DistributedLock::acquired, &first, &DistributedLock::release);
            QObject::connect(&first, &DistributedLock::released, &loop, &QEventLoop::quit);
            QObject::connect(&first, &DistributedLock::acquireFailed, &loop,
                             [&first] { fail(u"qdistlock: "_s + first.errorString()); });
            first.acquire();
            loop.exec();
        }
        m_locks.reserve(static_cast<size_t>(m_count));
        const Memory empty = Memory::now();
        for (int i = 0; i < m_count; ++i) {
            const QString name = u"bench:held:%1:%2"_s.arg(QCoreApplication::applicationPid()).arg(i);
            m_locks.push_back(std::make_unique<DistributedLock>(&m_registry, name));
        }
        const Memory idle = Memory::now();

        QEventLoop loop;
        int missing = m_count;
        for (const auto &lock : m_locks) {
            lock->setLease(m_lease);
            lock->setWaitTime(std::chrono::minutes(1));
            QObject::connect(lock.get(), &DistributedLock::acquired, &loop, [&] {
                if (--missing == 0)
                    loop.quit();
            });
            QObject::connect(lock.get(), &DistributedLock::acquireFailed, &loop,
                             [&] { fail(u"qdistlock: "_s + lock->errorString()); });
        }
        // The connections of each lock to its own slots belong to the application, not to the lock.
        const Memory connected = Memory::now();
        for (const auto &lock : m_locks)
            lock->acquire();
        loop.exec();
        QCoreApplication::sendPostedEvents(); // delivers events that keep the replies of this turn
        malloc_trim(0);
        const Memory held = Memory::now();

        const auto each = [this](double bytes) { return bytes / m_count; };
        const double idleHeap = each(idle.heap - empty.heap);
        const double idleResident = each(idle.resident - empty.resident);
        return {{u"idleHeapBytes"_s, idleHeap},
                {u"idleResidentBytes"_s, idleResident},
                {u"heldHeapBytes"_s, idleHeap + each(held.heap - connected.heap)},
                {u"heldResidentBytes"_s, idleResident + each(held.resident - connected.resident)}};
    }

    QDistLock::LockRegistry m_registry;
    std::vector<std::unique_ptr<DistributedLock>> m_locks;
    const std::chrono::milliseconds m_lease;
    const int m_count;
};

} // namespace

std::unique_ptr<Contender> makeLibraryHeld(const Setup &setup)
{
    return std::make_unique<LibraryHeld>(setup);
}

} // namespace Bench
