// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "contender.h"

#include <QDistLock/DistributedLock>
#include <QDistLock/LockRegistry>

#include <QtCore/qeventloop.h>
#include <QtCore/qfile.h>

#include <malloc.h>
#include <unistd.h>

#include <vector>

namespace Bench {
namespace {

using QDistLock::DistributedLock;
using namespace std::chrono_literals;

/// Bytes.
struct Memory
{
    double heap;
    double resident;

    static Memory now()
    {
        const struct mallinfo2 info = mallinfo2();
        QFile statm(QStringLiteral("/proc/self/statm"));
        if (!statm.open(QIODevice::ReadOnly))
            fail(QStringLiteral("cannot read /proc/self/statm"));
        const double pages = statm.readAll().split(' ').value(1).toDouble();
        return {static_cast<double>(info.uordblks + info.hblkhd),
                pages * static_cast<double>(sysconf(_SC_PAGESIZE))};
    }
};

/// How much one lock costs: made but never used, held, and released again.
class LibraryMemory : public Contender
{
public:
    LibraryMemory(const QUrl &server, int locks)
        : m_registry(server)
        , m_count(locks)
    {}

    QJsonObject run(std::chrono::milliseconds) override
    {
        {
            // What the first lock of a registry brings along is not the price of a lock.
            DistributedLock first(&m_registry, QStringLiteral("bench:memory:first"));
            cycle(&first);
        }
        QStringList names;
        for (int i = 0; i < m_count; ++i)
            names.append(QStringLiteral("bench:memory:%1").arg(i));
        std::vector<std::unique_ptr<DistributedLock>> locks;
        locks.reserve(static_cast<size_t>(m_count));

        const Memory empty = Memory::now();
        for (int i = 0; i < m_count; ++i)
            locks.push_back(std::make_unique<DistributedLock>(&m_registry, names.at(i)));
        const Memory idle = Memory::now();
        int missing = m_count;
        QEventLoop loop;
        for (const auto &lock : locks) {
            lock->setLease(10min);
            lock->setWait(1min);
            QObject::connect(lock.get(), &DistributedLock::acquired, &loop, [&] {
                if (--missing == 0)
                    loop.quit();
            });
            QObject::connect(lock.get(), &DistributedLock::acquireFailed, &loop,
                             [&] { fail(QStringLiteral("qdistlock: ") + lock->errorString()); });
        }
        const Memory connected = Memory::now();
        for (const auto &lock : locks)
            lock->acquire();
        loop.exec();
        const Memory held = Memory::now();

        for (const auto &lock : locks) {
            QObject::connect(lock.get(), &DistributedLock::released, &loop, [&] {
                if (++missing == m_count)
                    loop.quit();
            });
            lock->release();
        }
        loop.exec();

        const double count = m_count;
        const double idleHeap = (idle.heap - empty.heap) / count;
        const double idleResident = (idle.resident - empty.resident) / count;
        // Connections of the application's own are not the lock's.
        return {{QStringLiteral("locks"), m_count},
                {QStringLiteral("idleHeapBytes"), idleHeap},
                {QStringLiteral("idleResidentBytes"), idleResident},
                {QStringLiteral("heldHeapBytes"), idleHeap + (held.heap - connected.heap) / count},
                {QStringLiteral("heldResidentBytes"),
                 idleResident + (held.resident - connected.resident) / count}};
    }

private:
    static void cycle(DistributedLock *lock)
    {
        QEventLoop loop;
        QObject::connect(lock, &DistributedLock::acquired, lock, &DistributedLock::release);
        QObject::connect(lock, &DistributedLock::released, &loop, &QEventLoop::quit);
        QObject::connect(lock, &DistributedLock::acquireFailed, &loop,
                         [lock] { fail(QStringLiteral("qdistlock: ") + lock->errorString()); });
        lock->acquire();
        loop.exec();
    }

    QDistLock::LockRegistry m_registry;
    const int m_count;
};

} // namespace

std::unique_ptr<Contender> makeLibraryMemory(const QUrl &server, int locks)
{
    return std::make_unique<LibraryMemory>(server, locks);
}

} // namespace Bench
