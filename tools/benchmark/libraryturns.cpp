// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "contender.h"

#include <QDistLock/DistributedLock>
#include <QDistLock/LockRegistry>

#include <QtCore/qeventloop.h>
#include <QtCore/qjsonarray.h>

#include <vector>

using namespace Qt::StringLiterals;

namespace Bench {
namespace {

using QDistLock::DistributedLock;

/// One lock after the other, each acquired and released. Reports how long each pair took; errors are only counted.
class LibraryTurns : public Contender
{
public:
    explicit LibraryTurns(const Setup &setup)
        : m_registry(setup.server)
    {
        for (int i = 0; i < setup.locks; ++i) {
            m_locks.push_back(std::make_unique<DistributedLock>(&m_registry, u"bench:turns:{%1}"_s.arg(i)));
            DistributedLock *lock = m_locks.back().get();
            QObject::connect(lock, &DistributedLock::acquired, lock, &DistributedLock::release);
            QObject::connect(lock, &DistributedLock::released, lock, [this] { next(); });
            QObject::connect(lock, &DistributedLock::acquireFailed, lock, [this, lock] {
                countError(lock->errorString());
                next();
            });
            QObject::connect(lock, &DistributedLock::lost, lock, [this, lock] {
                countError(u"lost "_s + lock->name());
                next();
            });
        }
    }

    QJsonObject run(std::chrono::milliseconds duration, int) override
    {
        m_times = {};
        m_errors = 0;
        m_end = microseconds() + std::chrono::microseconds(duration).count();
        const Stopwatch stopwatch;
        start();
        m_loop.exec();
        QJsonObject result = stopwatch.finish(m_times.size()).toJson();
        result.insert(u"microseconds"_s, m_times);
        result.insert(u"errors"_s, m_errors);
        return result;
    }

private:
    void start()
    {
        m_start = microseconds();
        m_locks[m_index]->acquire();
        m_index = (m_index + 1) % m_locks.size();
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

    void countError(const QString &text)
    {
        if (m_errors++ == 0)
            tell(text);
    }

    QDistLock::LockRegistry m_registry;
    std::vector<std::unique_ptr<DistributedLock>> m_locks;
    QEventLoop m_loop;
    QJsonArray m_times;
    size_t m_index = 0;
    qint64 m_start = 0; ///< µs
    qint64 m_end = 0;
    int m_errors = 0;
};

} // namespace

std::unique_ptr<Contender> makeLibraryTurns(const Setup &setup)
{
    return std::make_unique<LibraryTurns>(setup);
}

} // namespace Bench
