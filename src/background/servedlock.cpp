// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "background/servedlock.h"

#include "background/lockservice.h"
#include "base/leaseclock.h"
#include "core/leasemachine.h"
#include "lock/distributedlock_p.h"
#include "lock/lockregistry_p.h"
#include "lock/resolvedaddress.h"

#include <QtCore/qcoreapplication.h>
#include <QtCore/qcoreevent.h>

#include <algorithm>
#include <utility>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace QDistLock {

/// Constructing a DistributedLock takes as long as the rest of an acquisition, so this many are kept for each server.
static constexpr size_t MostIdle = 64;

ServedLock::ServedLock(ServerLocks *server)
    : m_server(server)
    , m_lock(&server->m_registry, QString())
{
    connect(&m_lock, &DistributedLock::acquired, this, &ServedLock::acquired);
    connect(&m_lock, &DistributedLock::acquireFailed, this, &ServedLock::acquireFailed);
    connect(&m_lock, &DistributedLock::renewed, this, &ServedLock::updateDeadline);
    connect(&m_lock, &DistributedLock::released, this, [this] { holdEnded(true); });
    connect(&m_lock, &DistributedLock::lost, this, [this] {
        m_acquisition->loseHold();
        finish();
    });
}

void ServedLock::begin(const AcquisitionPointer &acquisition)
{
    m_acquisition = acquisition;
    m_key = keyOf(acquisition->address);
    DistributedLockPrivate::get(&m_lock)->address = acquisition->address;
    m_lock.setOptions(acquisition->options);
    m_behindRelease = m_server->m_releasing.contains(m_key);
    m_lock.acquire();
}

void ServedLock::acquired()
{
    static const LockService::CloseAtExit closeAtExit;
    m_acquisition->fencingToken.store(m_lock.fencingToken(), std::memory_order_relaxed);
    updateDeadline();
    if (const UseLimit &limit = m_acquisition->useLimit; limit.passed) {
        // The timer counts milliseconds in an int.
        const auto waits = limit.waitEnds.isForever() ? 0ms : limit.waitEnds.remaining();
        m_useTimer.start(int((m_acquisition->options.lease + std::min<milliseconds>(waits, 24h)).count()), this);
    }
    m_acquisition->end({DistributedLock::NoError, QString(), m_lock.fencingToken()});
}

void ServedLock::timerEvent(QTimerEvent *event)
{
    if (event->timerId() != m_useTimer.timerId())
        return;
    m_useTimer.stop();
    if (!m_acquisition->refuseUse() || m_acquisition->abandoned.exchange(true))
        return;
    const auto passed = m_acquisition->useLimit.passed;
    release();
    passed();
}

void ServedLock::updateDeadline()
{
    // The clock is read first, so that the sum is never later than the lock's own deadline. TimerSlack: the lock may
    // release its key up to that much before the deadline, and emits its signal later.
    const auto now = LeaseClock::system()->now();
    const auto remaining = m_lock.remainingTime() - LeaseMachine::TimerSlack;
    m_acquisition->deadline.store(remaining > 0ns ? now + remaining : LeaseTime(), std::memory_order_release);
}

void ServedLock::acquireFailed()
{
    // If the server did not know the release script, the release is sent again and executed after this acquire.
    if (m_lock.error() == DistributedLock::BusyError && std::exchange(m_behindRelease, false)
        && m_acquisition->options.wait == 0ms && !m_acquisition->abandoned.load()) {
        m_lock.tryAcquire();
        return;
    }
    m_acquisition->end({m_lock.error(), m_lock.errorString(), 0});
    m_acquisition->endHold(false);
    finish();
}

void ServedLock::release()
{
    if (m_lock.state() == DistributedLock::Acquiring)
        m_lock.cancel();
    if (!m_lock.isHeld() || std::exchange(m_releasing, true))
        return; // a signal of m_lock that the hold has ended is on its way
    m_acquisition->deadline.store(LeaseTime(), std::memory_order_release);
    ++m_server->m_releasing[m_key];
    m_lock.release();
}

void ServedLock::holdEnded(bool confirmed)
{
    m_acquisition->endHold(confirmed);
    finish();
}

void ServedLock::finish()
{
    m_useTimer.stop();
    if (std::exchange(m_releasing, false)) {
        const auto it = m_server->m_releasing.find(m_key);
        if (--it.value() == 0)
            m_server->m_releasing.erase(it);
    }
    m_server->m_active.erase(m_acquisition.get());
    m_acquisition.reset();
    // A signal of m_lock is being emitted, so the lock must not be deleted here.
    if (m_lock.state() == DistributedLock::Unlocked && m_server->m_idle.size() < MostIdle) {
        m_server->m_idle.emplace_back(this);
    } else {
        m_lock.disconnect(this);
        deleteLater();
    }
}

void ServedLock::abort()
{
    m_lock.disconnect(this);
    if (!m_acquisition->hasEnded()) {
        m_acquisition->end(acquireFailure(DistributedLock::CancelledError, m_acquisition->address.name(),
                                          u"the application ends"_s));
    }
    m_acquisition->endHold(false);
}

ServerLocks::ServerLocks(const QUrl &server)
    : m_registry(server)
{
}

ServerLocks::~ServerLocks()
{
    abortAll();
    QCoreApplication::sendPostedEvents(nullptr, QEvent::DeferredDelete); // locks deleted by finish() use m_registry
}

void ServerLocks::acquire(const AcquisitionPointer &acquisition)
{
    // After a permanent error the registry makes no further attempt by itself; this acquire makes it try again.
    const EngineError &error = LockRegistryPrivate::get(&m_registry)->error;
    if (acquisition->failFast && error && !error.isPermanent && m_registry.state() != LockRegistry::Ready) {
        const QString &server = LockRegistryPrivate::get(&m_registry)->serverText;
        acquisition->end({error.code,
                          u"Lock %1 on %2: %3"_s.arg(Detail::quoted(acquisition->address.name()), server, error.text),
                          0});
        acquisition->endHold(false);
        return;
    }
    ServedLock *lock = nullptr;
    if (m_idle.empty()) {
        lock = new ServedLock(this);
    } else {
        lock = m_idle.back().release();
        m_idle.pop_back();
    }
    m_active.emplace(acquisition.get(), lock);
    lock->begin(acquisition);
}

void ServerLocks::release(const AcquisitionPointer &acquisition)
{
    if (const auto it = m_active.find(acquisition.get()); it != m_active.end())
        it->second->release();
}

void ServerLocks::abortAll()
{
    const auto active = std::exchange(m_active, {});
    for (const auto &[acquisition, lock] : active) {
        lock->abort();
        delete lock;
    }
}

} // namespace QDistLock
