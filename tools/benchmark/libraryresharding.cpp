// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "contender.h"

#include <QDistLock/DistributedLock>
#include <QDistLock/LockRegistry>

#include <QtCore/qeventloop.h>
#include <QtCore/qtimer.h>

#include <algorithm>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

using namespace Qt::StringLiterals;

namespace Bench {
namespace {

using QDistLock::DistributedLock;

/*
    A client with many locks, each acquired and held again and again, and each eighth of them for a long time. A folder
    for each name is the witness, on which all processes of a machine agree: its holder makes it, and removes it
    before it releases the lock. Who finds it there holds the lock together with somebody else.

    Reports the acquisitions, overlaps, lost holds and errors.
*/
class LibraryResharding : public Contender
{
public:
    explicit LibraryResharding(const Setup &setup)
        : m_registry(setup.server)
    {
        for (int i = 0; i < setup.locks; ++i)
            addLock(i, setup);
    }

    QJsonObject run(std::chrono::milliseconds duration, int) override
    {
        m_acquisitions = m_overlaps = m_lost = m_errors = 0;
        m_end = microseconds() + std::chrono::microseconds(duration).count();
        m_busy = static_cast<int>(m_turns.size());
        const Stopwatch stopwatch;
        for (const auto &turn : m_turns)
            turn->lock.acquire();
        m_loop.exec();
        QJsonObject result = stopwatch.finish(m_acquisitions).toJson();
        result.insert(u"overlaps"_s, m_overlaps);
        result.insert(u"lost"_s, m_lost);
        result.insert(u"errors"_s, m_errors);
        return result;
    }

private:
    struct Turn
    {
        Turn(QDistLock::LockRegistry *registry, const QString &name)
            : lock(registry, name)
        {
        }
        DistributedLock lock;
        QTimer timer; ///< of the hold, or of the pause after it
        QByteArray witness;
        std::chrono::milliseconds work{};
        std::chrono::milliseconds pause{};
        bool isWitnessed = false;
    };

    void addLock(int index, const Setup &setup)
    {
        m_turns.push_back(std::make_unique<Turn>(&m_registry, u"bench:resharding:{%1}"_s.arg(index)));
        Turn *turn = m_turns.back().get();
        turn->witness = setup.witness.toLocal8Bit() + '/' + QByteArray::number(index);
        turn->work = index % 8 == 0 ? 100 * setup.work : setup.work;
        turn->pause = setup.pause;
        turn->timer.setSingleShot(true);
        turn->timer.setTimerType(Qt::PreciseTimer);
        DistributedLock *lock = &turn->lock;
        lock->setLease(setup.lease);
        lock->setWaitTime(QDistLock::LockOptions::Forever);
        QObject::connect(lock, &DistributedLock::acquired, lock, [this, turn] { hold(turn); });
        QObject::connect(lock, &DistributedLock::released, lock, [this, turn] { rest(turn); });
        QObject::connect(lock, &DistributedLock::lost, lock, [this, turn] {
            if (m_lost++ == 0)
                tell(u"lost "_s + turn->lock.name() + u": "_s + turn->lock.errorString());
            leave(turn);
            rest(turn);
        });
        QObject::connect(lock, &DistributedLock::acquireFailed, lock, [this, turn] {
            if (m_errors++ == 0)
                tell(turn->lock.errorString());
            rest(turn);
        });
        QObject::connect(&turn->timer, &QTimer::timeout, lock, [this, turn] {
            if (!turn->lock.isHeld())
                return turn->lock.acquire();
            leave(turn);
            turn->lock.release();
        });
    }

    void hold(Turn *turn)
    {
        ++m_acquisitions;
        turn->isWitnessed = ::mkdir(turn->witness.constData(), 0700) == 0;
        m_overlaps += !turn->isWitnessed;
        const std::chrono::microseconds left(std::max(m_end - microseconds(), qint64(0)));
        turn->timer.start(std::min(turn->work, std::chrono::ceil<std::chrono::milliseconds>(left)));
    }

    void leave(Turn *turn)
    {
        if (std::exchange(turn->isWitnessed, false))
            ::rmdir(turn->witness.constData());
    }

    void rest(Turn *turn)
    {
        if (microseconds() < m_end) {
            turn->timer.start(turn->pause);
            return;
        }
        turn->timer.stop();
        if (--m_busy == 0)
            m_loop.quit();
    }

    QDistLock::LockRegistry m_registry;
    std::vector<std::unique_ptr<Turn>> m_turns;
    QEventLoop m_loop;
    qint64 m_end = 0; ///< µs
    int m_acquisitions = 0;
    int m_overlaps = 0;
    int m_lost = 0;
    int m_errors = 0;
    int m_busy = 0;
};

} // namespace

std::unique_ptr<Contender> makeLibraryResharding(const Setup &setup)
{
    return std::make_unique<LibraryResharding>(setup);
}

} // namespace Bench
