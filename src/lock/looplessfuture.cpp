// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "lock/looplessfuture.h"

#include "base/forkcount.h"
#include "base/logging.h"
#include "lock/threadcheck.h"

#include <QtCore/qmetaobject.h>
#include <QtCore/qthread.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace QDistLock {

namespace {

using Clock = std::chrono::steady_clock;

/// A loop that starts later than this after a call is reported.
constexpr milliseconds Patience = 1s;
/// No sum of times overflows, and nobody waits that long.
constexpr milliseconds LongestWait = std::chrono::hours(24 * 365);

struct Watch
{
    QString subject;
    QString lock;
    QString thread;
    Clock::time_point end;
    std::shared_ptr<FutureEnd> state;
    std::shared_ptr<std::atomic<bool>> loopHasRun;
    std::function<void(const QString &)> endFuture;
    bool isReported = false;
};

class Watches
{
public:
    void add(Watch watch)
    {
        const std::lock_guard lock(m_mutex);
        if (forkCount() != m_forks)
            return; // the thread does not exist in this child process
        const auto added = m_watches.emplace(Clock::now() + Patience, std::move(watch));
        if (m_isRunning) {
            if (added == m_watches.begin())
                m_changed.notify_one();
            return;
        }
        try {
            std::thread([this] { run(); }).detach();
            m_isRunning = true;
        } catch (const std::system_error &) {
            m_watches.clear(); // no more threads; the library works without this one
        }
    }

private:
    void run()
    {
        std::unique_lock lock(m_mutex);
        while (!m_watches.empty()) {
            const Clock::time_point first = m_watches.begin()->first;
            if (Clock::now() < first) {
                m_changed.wait_until(lock, first);
                continue;
            }
            Watch watch = std::move(m_watches.extract(m_watches.begin()).mapped());
            lock.unlock();
            const bool goesOn = judge(&watch);
            lock.lock();
            if (goesOn)
                m_watches.emplace(watch.end, std::move(watch));
        }
        m_isRunning = false;
    }

    /// False when there is nothing more to do.
    static bool judge(Watch *watch)
    {
        if (watch->state->isTaken() || watch->loopHasRun->load())
            return false;
        const QString text =
                u"%1 in %2, which has run no event loop since; without one nothing ends there: run exec() in that thread, or use ScopedLock, which needs none"_s
                        .arg(watch->subject, watch->thread);
        if (!std::exchange(watch->isReported, true))
            qCWarning(lcLock, "%ls", qUtf16Printable(withFields(text, watch->lock)));
        if (Clock::now() < watch->end)
            return true;
        if (watch->state->take())
            watch->endFuture(text);
        return false;
    }

    const int m_forks = forkCount();
    std::mutex m_mutex;
    std::condition_variable m_changed;
    std::multimap<Clock::time_point, Watch> m_watches; ///< by the time of the next judge()
    bool m_isRunning = false;
};

} // namespace

void endWithoutEventLoop(QObject *object, const QString &subject, const QString &lock, milliseconds wait,
                         const std::shared_ptr<FutureEnd> &state, std::function<void(const QString &reason)> end)
{
    if (QThread::currentThread()->loopLevel() > 0)
        return;
    static auto *const watches = new Watches; // never deleted: its thread may outlive main()
    const auto loopHasRun = std::make_shared<std::atomic<bool>>(false);
    QMetaObject::invokeMethod(
            object, [loopHasRun] { loopHasRun->store(true); }, Qt::QueuedConnection);
    watches->add({subject, lock, describe(QThread::currentThread()),
                  Clock::now() + std::min(wait, LongestWait) + Patience, state, loopHasRun, std::move(end)});
}

} // namespace QDistLock
