// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "contender.h"
#include "looptimer.h"

#include <QDistLock/DistributedLock>
#include <QDistLock/LockMonitorModel>
#include <QDistLock/LockRegistry>

#include <QtCore/qeventloop.h>
#include <QtCore/qjsonarray.h>
#include <QtCore/qtimer.h>

#include <optional>

using namespace Qt::StringLiterals;

namespace Bench {
namespace {

using QDistLock::DistributedLock;
using QDistLock::LockMonitorModel;

constexpr int VisibleRows = 50;

/*
    A model of the locks that other processes hold. The first run ends when it knows all of them. Each further run
    reports when it saw that a holder is not connected any more, and how long after the acquire it shows a lock that
    is acquired and released again and again.
*/
class LibraryMonitor : public Contender
{
public:
    explicit LibraryMonitor(const Setup &setup)
        : m_registry(setup.server)
        , m_others(setup.server)
        , m_lock(&m_others, u"bench:handed:over"_s)
        , m_count(setup.locks)
    {
        QObject::connect(&m_lock, &DistributedLock::acquired, &m_lock, [this] { m_acquired.emplace(); });
        QObject::connect(&m_lock, &DistributedLock::released, &m_lock, &DistributedLock::acquire);
        QObject::connect(&m_lock, &DistributedLock::acquireFailed, &m_lock,
                         [this] { fail(u"qdistlock: "_s + m_lock.errorString()); });
        QObject::connect(&m_model, &LockMonitorModel::rowsInserted, &m_model,
                         [this](const QModelIndex &, int first, int last) { rowsChanged(first, last); });
        QObject::connect(
                &m_model, &LockMonitorModel::dataChanged, &m_model,
                [this](const QModelIndex &first, const QModelIndex &last) { rowsChanged(first.row(), last.row()); });
    }

    QJsonObject run(std::chrono::milliseconds duration, int) override
    {
        if (!m_model.registry())
            return prepare();
        m_delays = {};
        m_disconnectedSeconds = {};
        if (m_lock.state() == DistributedLock::Unlocked)
            m_lock.acquire();
        QEventLoop loop;
        const LoopTimer turns;
        const Stopwatch stopwatch;
        m_stopwatch = &stopwatch;
        QTimer::singleShot(duration, &loop, &QEventLoop::quit);
        loop.exec();
        m_stopwatch = nullptr;
        if (const QStringList problems = m_model.problems(); !problems.isEmpty())
            fail(u"qdistlock: "_s + problems.join(u' '));
        QJsonObject result = stopwatch.finish(m_delays.size()).toJson();
        result.insert(u"delays"_s, m_delays);
        result.insert(u"longestTurnMs"_s, turns.longestMilliseconds());
        result.insert(u"bytesPerRow"_s, (Memory::now().heap - m_empty.heap) / m_model.count());
        if (m_disconnectedSeconds)
            result.insert(u"disconnectedSeconds"_s, *m_disconnectedSeconds);
        return result;
    }

private:
    QJsonObject prepare()
    {
        QEventLoop loop;
        const auto check = [this, &loop] {
            if (m_model.isComplete() && m_model.count() >= m_count)
                loop.quit();
        };
        QObject::connect(&m_model, &LockMonitorModel::countChanged, &loop, check);
        QObject::connect(&m_model, &LockMonitorModel::completeChanged, &loop, check);
        m_empty = Memory::now();
        const Stopwatch stopwatch;
        m_model.setRegistry(&m_registry);
        loop.exec();
        QStringList visible{m_lock.name()};
        for (int row = 0; visible.size() < VisibleRows; ++row)
            visible.append(m_model.index(row % m_model.count()).data().toString());
        m_model.setVisibleNames(visible);
        return stopwatch.finish(m_model.count()).toJson();
    }

    void rowsChanged(int first, int last)
    {
        if (!m_stopwatch)
            return;
        for (int row = first; row <= last; ++row) {
            const QModelIndex index = m_model.index(row);
            const auto status = index.data(LockMonitorModel::Status).value<LockMonitorModel::LockStatus>();
            if (status == LockMonitorModel::Disconnected && !m_disconnectedSeconds)
                m_disconnectedSeconds = m_stopwatch->seconds();
            if (m_acquired && index.data(LockMonitorModel::FencingToken).toLongLong() == m_lock.fencingToken()
                && index.data().toString() == m_lock.name()) {
                m_delays.append(m_acquired->seconds());
                m_acquired.reset();
                m_lock.release();
            }
        }
    }

    QDistLock::LockRegistry m_registry, m_others;
    DistributedLock m_lock;
    LockMonitorModel m_model;
    const int m_count;
    Memory m_empty{};
    const Stopwatch *m_stopwatch = nullptr; ///< of the present run
    std::optional<Stopwatch> m_acquired;    ///< since m_lock is held, until the model shows it
    QJsonArray m_delays;                    ///< in seconds
    std::optional<double> m_disconnectedSeconds;
};

} // namespace

std::unique_ptr<Contender> makeLibraryMonitor(const Setup &setup)
{
    return std::make_unique<LibraryMonitor>(setup);
}

} // namespace Bench
