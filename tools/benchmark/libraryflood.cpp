// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "contender.h"

#include <QDistLock/Annotations>
#include <QDistLock/DistributedLock>
#include <QDistLock/LockRegistry>

#include <QtCore/qcoreapplication.h>
#include <QtCore/qeventloop.h>
#include <QtCore/qloggingcategory.h>
#include <QtCore/qtimer.h>

#include <malloc.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <utility>

using namespace Qt::StringLiterals;

namespace Bench {
namespace {

using QDistLock::DistributedLock;

constexpr int EmissionsEachMillisecond = 50;
constexpr qint64 Wait = 2000;
/// The number of calls that wait at the same time.
constexpr int Patient = EmissionsEachMillisecond * int(Wait);

std::atomic<int> warnings{0};

void countWarnings(QtMsgType type, const QMessageLogContext &, const QString &)
{
    warnings += type == QtWarningMsg;
}

double threadCpuMilliseconds()
{
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return double(time.tv_sec) * 1e3 + double(time.tv_nsec) / 1e6;
}

class Source : public QObject
{
    Q_OBJECT
Q_SIGNALS:
    void fired();
};

/*
    A signal is emitted 50 000 times a second. Each emission waits up to 2 s for one of at most `locks` locks, which
    another client holds. With two `clients` 100 000 calls wait before them, for ever. Reports how long after their
    deadlines the calls ended, the longest turn of the event loop (CPU, the emissions included), and the memory that a
    waiting call needs.
*/
class LibraryFlood : public Contender
{
public:
    explicit LibraryFlood(const Setup &setup)
        : m_registry(setup.server)
        , m_holder(&m_registry, u"bench:flood:%1"_s.arg(QCoreApplication::applicationPid()))
        , m_options(u"wait=%1ms; maxQueued=%2"_s.arg(Wait).arg(setup.locks))
        , m_withPatient(setup.clients > 1)
    {
        QDistLock::LockRegistry::setDefaultServer(setup.server);
        QObject::connect(&m_holder, &DistributedLock::acquireFailed, &m_holder,
                         [this] { fail(u"qdistlock: "_s + m_holder.errorString()); });
    }

    QJsonObject run(std::chrono::milliseconds duration, int) override
    {
        QEventLoop loop;
        QObject::connect(&m_holder, &DistributedLock::acquired, &loop, &QEventLoop::quit);
        m_holder.acquire();
        if (!m_holder.isHeld())
            loop.exec();
        const auto outer = qInstallMessageHandler(countWarnings);
        // bench.py silences the library, but this case counts its warnings. A filter is asked with every level enabled,
        // so it must turn the others off.
        QLoggingCategory::installFilter([](QLoggingCategory *category) {
            category->setEnabled(QtDebugMsg, false);
            category->setEnabled(QtWarningMsg, true);
        });
        warnings = 0;

        const auto receiver = std::make_unique<QObject>();
        const auto called = [] { fail(u"qdistlock: a second holder"_s); };
        Source source;
        Source patient;
        QDistLock::connectLocked(&source, &Source::fired, receiver.get(), called, m_holder.name(), m_options);
        QDistLock::connectLocked(&patient, &Source::fired, receiver.get(), called, m_holder.name(),
                                 u"wait=forever; maxQueued=unlimited"_s);

        qint64 emitted = 0;
        qint64 refused = 0;
        qint64 ended = 0;
        double latest = 0;
        std::deque<qint64> deadlines; // in order of time
        QObject::connect(QDistLock::LockedCalls::instance(), &QDistLock::LockedCalls::failed, receiver.get(),
                         [&](const QDistLock::LockedCallInfo &call) {
                             if (call.error == DistributedLock::BusyError) {
                                 ++refused;
                                 return;
                             }
                             ++ended;
                             latest = std::max(latest, double(microseconds() - deadlines.front()) / 1e3);
                             deadlines.pop_front();
                         });

        const Stopwatch stopwatch;
        const size_t before = mallinfo2().uordblks;
        for (int i = 0; m_withPatient && i < Patient; ++i)
            Q_EMIT patient.fired();

        double longestTurn = 0;
        double bytes = 0;
        double turnBegan = threadCpuMilliseconds();
        const qint64 begin = microseconds();
        qint64 nextLook = begin;
        const qint64 end = begin + std::chrono::microseconds(duration).count();
        QTimer turn; // once in each turn
        turn.callOnTimeout([&] {
            const double now = threadCpuMilliseconds();
            longestTurn = std::max(longestTurn, now - std::exchange(turnBegan, now));
            const qint64 clock = microseconds();
            // After a long turn the remaining emissions follow in the next turns.
            const qint64 due = (std::min(clock, end) - begin) / 1000 * EmissionsEachMillisecond - emitted;
            for (qint64 i = std::min<qint64>(due, 2 * EmissionsEachMillisecond); i > 0; --i, ++emitted) {
                const qint64 refusedBefore = refused;
                Q_EMIT source.fired();
                if (refused == refusedBefore)
                    deadlines.push_back(microseconds() + Wait * 1000);
            }
            if (clock >= nextLook) { // not in each turn, and not counted, because it takes milliseconds
                nextLook = clock + 200'000;
                bytes = std::max(bytes, double(mallinfo2().uordblks - before));
                turnBegan = threadCpuMilliseconds();
            }
            if (clock < end)
                return;
            if (deadlines.empty() || clock > end + 60'000'000)
                loop.quit();
        });
        turn.start(0);
        loop.exec();
        turn.stop();
        if (!deadlines.empty())
            fail(u"qdistlock: calls that never ended"_s);

        QJsonObject result = stopwatch.finish(emitted).toJson();
        result.insert(u"refused"_s, refused);
        result.insert(u"ended"_s, ended);
        result.insert(u"latestMs"_s, latest);
        result.insert(u"longestTurnMs"_s, longestTurn);
        result.insert(u"mebibytes"_s, bytes / 1024 / 1024);
        result.insert(u"warnings"_s, warnings.load());
        qInstallMessageHandler(outer);
        return result;
    }

private:
    QDistLock::LockRegistry m_registry;
    DistributedLock m_holder;
    const QString m_options;
    const bool m_withPatient;
};

} // namespace

std::unique_ptr<Contender> makeLibraryFlood(const Setup &setup)
{
    return std::make_unique<LibraryFlood>(setup);
}

} // namespace Bench

#include "libraryflood.moc"
