// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "barecommands.h"
#include "contender.h"

#include <QDistLock/DistributedLock>
#include <QDistLock/LockRegistry>

#include <QtCore/qeventloop.h>
#include <QtCore/qjsonarray.h>
#include <QtCore/qrandom.h>
#include <QtCore/qtimer.h>

#include <vector>

using namespace Qt::StringLiterals;

namespace Bench {
namespace {

using QDistLock::DistributedLock;

/*
    In each run every lock is acquired at its own moment of the run and deleted at another behind the
    library's back. Prints, for each, the milliseconds from DEL's reply to lost().
*/
class LibraryLost : public Contender
{
public:
    explicit LibraryLost(const Setup &setup)
        : m_registry(setup.server)
        , m_context(connectHiredis(setup.server))
    {
        for (int i = 0; i < setup.locks; ++i) {
            m_victims.push_back(std::make_unique<Victim>(&m_registry, u"bench:lost:%1"_s.arg(i)));
            Victim *victim = m_victims.back().get();
            DistributedLock *lock = &victim->lock;
            lock->setLease(setup.lease);
            QObject::connect(lock, &DistributedLock::acquired, lock, [this, victim] {
                QTimer::singleShot(someTime(), Qt::PreciseTimer, &victim->lock, [this, victim] { remove(victim); });
            });
            QObject::connect(lock, &DistributedLock::lost, lock, [this, victim] {
                if (victim->deleted == 0)
                    fail(u"qdistlock: lost too early"_s);
                m_latencies.append(static_cast<double>(microseconds() - victim->deleted) / 1000);
                if (m_latencies.size() == static_cast<qsizetype>(m_victims.size()))
                    m_loop.quit();
            });
            QObject::connect(lock, &DistributedLock::acquireFailed, lock,
                             [lock] { fail(u"qdistlock: "_s + lock->errorString()); });
        }
    }

    QJsonObject run(std::chrono::milliseconds duration, int) override
    {
        m_latencies = {};
        m_duration = duration;
        const Stopwatch stopwatch;
        for (const auto &victim : m_victims) {
            victim->deleted = 0;
            QTimer::singleShot(someTime(), Qt::PreciseTimer, &victim->lock, &DistributedLock::acquire);
        }
        m_loop.exec();
        QJsonObject result = stopwatch.finish(m_latencies.size()).toJson();
        result.insert(u"milliseconds"_s, m_latencies);
        return result;
    }

private:
    struct Victim
    {
        Victim(QDistLock::LockRegistry *registry, const QString &name)
            : lock(registry, name)
        {
        }
        DistributedLock lock;
        qint64 deleted = 0; ///< µs
    };

    /// At most half the run.
    std::chrono::milliseconds someTime() const
    {
        return std::chrono::milliseconds(
                QRandomGenerator::global()->bounded(1 + static_cast<int>(m_duration.count() / 2)));
    }

    void remove(Victim *victim)
    {
        const QByteArray key = "lock:" + victim->lock.name().toUtf8();
        const ReplyPointer reply(static_cast<redisReply *>(redisCommand(m_context.get(), "DEL %s", key.constData())));
        if (!reply || reply->integer != 1)
            fail(u"hiredis: a held lock had no key"_s);
        victim->deleted = microseconds();
    }

    QDistLock::LockRegistry m_registry;
    const ContextPointer m_context;
    std::vector<std::unique_ptr<Victim>> m_victims;
    QEventLoop m_loop;
    QJsonArray m_latencies;
    std::chrono::milliseconds m_duration{};
};

} // namespace

std::unique_ptr<Contender> makeLibraryLost(const Setup &setup)
{
    return std::make_unique<LibraryLost>(setup);
}

} // namespace Bench
