// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "contender.h"

#include <QDistLock/DistributedLock>
#include <QDistLock/LockRegistry>
#include <QDistLock/MultiLock>

#include <QtCore/qcoreapplication.h>
#include <QtCore/qeventloop.h>

#include <vector>

using namespace Qt::StringLiterals;

namespace Bench {
namespace {

using QDistLock::DistributedLock;
using QDistLock::MultiLock;

/// Several free locks, all acquired and all released, again and again.
class LibraryTogether : public Contender
{
public:
    QJsonObject run(std::chrono::milliseconds duration, int) override
    {
        m_limit = std::chrono::duration<double>(duration).count();
        m_turns = 0;
        const Stopwatch stopwatch;
        m_stopwatch = &stopwatch;
        acquire();
        m_loop.exec();
        return stopwatch.finish(m_turns).toJson();
    }

protected:
    explicit LibraryTogether(const Setup &setup)
        : m_registry(setup.server)
    {
        for (int i = 0; i < setup.locks; ++i)
            m_names.append(u"bench:%1:%2"_s.arg(QCoreApplication::applicationPid()).arg(i));
    }

    virtual void acquire() = 0;
    void released()
    {
        ++m_turns;
        if (m_stopwatch->seconds() < m_limit)
            acquire();
        else
            m_loop.quit();
    }

    QDistLock::LockRegistry m_registry;
    QStringList m_names;

private:
    QEventLoop m_loop;
    const Stopwatch *m_stopwatch = nullptr;
    double m_limit = 0;
    qint64 m_turns = 0;
};

class WithMultiLock : public LibraryTogether
{
public:
    explicit WithMultiLock(const Setup &setup)
        : LibraryTogether(setup)
        , m_lock(&m_registry, m_names)
    {
        QObject::connect(&m_lock, &MultiLock::acquired, &m_lock, &MultiLock::release);
        QObject::connect(&m_lock, &MultiLock::released, &m_lock, [this] { released(); });
        QObject::connect(&m_lock, &MultiLock::acquireFailed, &m_lock,
                         [this] { fail(u"qdistlock: "_s + m_lock.errorString()); });
    }

private:
    void acquire() override { m_lock.acquire(); }

    MultiLock m_lock;
};

/// Each lock is acquired when the one before it is held, and all are released in one turn of the event loop.
class OneByOne : public LibraryTogether
{
public:
    explicit OneByOne(const Setup &setup)
        : LibraryTogether(setup)
    {
        for (const QString &name : std::as_const(m_names)) {
            m_locks.push_back(std::make_unique<DistributedLock>(&m_registry, name));
            DistributedLock *lock = m_locks.back().get();
            QObject::connect(lock, &DistributedLock::acquired, lock, [this] { next(); });
            QObject::connect(lock, &DistributedLock::released, lock, [this] {
                if (--m_held == 0)
                    released();
            });
            QObject::connect(lock, &DistributedLock::acquireFailed, lock,
                             [lock] { fail(u"qdistlock: "_s + lock->errorString()); });
        }
    }

private:
    void acquire() override { m_locks.front()->acquire(); }
    void next()
    {
        if (++m_held < m_locks.size()) {
            m_locks[m_held]->acquire();
            return;
        }
        for (const auto &lock : m_locks)
            lock->release();
    }

    std::vector<std::unique_ptr<DistributedLock>> m_locks;
    size_t m_held = 0;
};

} // namespace

std::unique_ptr<Contender> makeLibraryTogether(const Setup &setup)
{
    return std::make_unique<WithMultiLock>(setup);
}

std::unique_ptr<Contender> makeLibraryOneByOne(const Setup &setup)
{
    return std::make_unique<OneByOne>(setup);
}

} // namespace Bench
