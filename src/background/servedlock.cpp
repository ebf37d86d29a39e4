// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "background/servedlock.h"

#include "background/lockservice.h"
#include "base/leaseclock.h"
#include "core/leasemachine.h"
#include "lock/lockregistry_p.h"
#include "lock/multilock_p.h"
#include "lock/resolvedaddress.h"

#include <QtCore/qbasictimer.h>
#include <QtCore/qcoreapplication.h>
#include <QtCore/qcoreevent.h>

#include <algorithm>
#include <type_traits>
#include <utility>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace QDistLock {

/// Constructing a DistributedLock takes as long as the rest of an acquisition, so this many are kept for each server.
static constexpr size_t MostIdle = 64;

namespace {

void setAddresses(DistributedLock *lock, const QList<LockAddress> &addresses)
{
    DistributedLockPrivate::get(lock)->address = addresses.first();
}

void setAddresses(MultiLock *lock, const QList<LockAddress> &addresses)
{
    QStringList names;
    for (const LockAddress &address : addresses)
        names.append(address.name());
    MultiLockPrivate::get(lock)->keyPrefix = addresses.first().keyPrefix();
    lock->setNames(names);
}

void onDeadlineChange(DistributedLock *lock, QObject *context, const std::function<void()> &function)
{
    QObject::connect(lock, &DistributedLock::renewed, context, function);
}

/// MultiLock::renewed() is emitted only when all have been renewed, and its lost() after the others were given up.
void onDeadlineChange(MultiLock *lock, QObject *, const std::function<void()> &function)
{
    MultiLockPrivate::get(lock)->deadlineChanged = function;
}

qint64 fencingTokenOf(const DistributedLock &lock, const LockAddress &)
{
    return lock.fencingToken();
}

qint64 fencingTokenOf(const MultiLock &lock, const LockAddress &address)
{
    return lock.fencingToken(address.name());
}

} // namespace

/// Lock is DistributedLock, for acquisitions of one lock, or MultiLock, for several together.
template<typename Lock>
class ServedLockOf : public ServedLock
{
public:
    explicit ServedLockOf(ServerLocks *server);

    void begin(const AcquisitionPointer &acquisition) override;
    void release() override;
    void abort() override;

protected:
    void timerEvent(QTimerEvent *event) override;

private:
    void acquired();
    void acquireFailed();
    void holdEnded(bool confirmed);
    void finish();
    void updateDeadline();

    ServerLocks *const m_server;
    AcquisitionPointer m_acquisition;
    Lock m_lock;
    QBasicTimer m_useTimer;       ///< of UseLimit; runs from the grant
    bool m_behindRelease = false; ///< the server may not have executed an earlier release of a key yet
    bool m_releasing = false;
};

template<typename Lock>
ServedLockOf<Lock>::ServedLockOf(ServerLocks *server)
    : m_server(server)
    , m_lock(&server->m_registry, {})
{
    connect(&m_lock, &Lock::acquired, this, &ServedLockOf::acquired);
    connect(&m_lock, &Lock::acquireFailed, this, &ServedLockOf::acquireFailed);
    onDeadlineChange(&m_lock, this, [this] { updateDeadline(); });
    connect(&m_lock, &Lock::released, this, [this] { holdEnded(true); });
    connect(&m_lock, &Lock::lost, this, [this] {
        m_acquisition->loseHold();
        finish();
    });
}

template<typename Lock>
void ServedLockOf<Lock>::begin(const AcquisitionPointer &acquisition)
{
    m_acquisition = acquisition;
    setAddresses(&m_lock, acquisition->addresses);
    m_lock.setOptions(acquisition->options);
    const QHash<QString, int> &releasing = m_server->m_releasing;
    m_behindRelease = std::any_of(
            acquisition->addresses.cbegin(), acquisition->addresses.cend(),
            [&releasing](const LockAddress &address) { return releasing.contains(keyOf(address)); });
    m_lock.acquire();
}

template<typename Lock>
void ServedLockOf<Lock>::acquired()
{
    static const LockService::CloseAtExit closeAtExit;
    updateDeadline();
    if (const UseLimit &limit = m_acquisition->useLimit; limit.passed) {
        // The timer counts milliseconds in an int.
        const auto waits = limit.waitEnds.isForever() ? 0ms : limit.waitEnds.remaining();
        m_useTimer.start(int((m_acquisition->options.lease + std::min<milliseconds>(waits, 24h)).count()), this);
    }
    QList<qint64> fencingTokens;
    for (const LockAddress &address : m_acquisition->addresses)
        fencingTokens.append(fencingTokenOf(m_lock, address));
    const LockEngine *const engine = LockRegistryPrivate::get(&m_server->m_registry)->engine();
    m_acquisition->end({DistributedLock::NoError, QString(), fencingTokens.first()}, fencingTokens,
                       engine ? engine->clientId() : QByteArray());
}

template<typename Lock>
void ServedLockOf<Lock>::timerEvent(QTimerEvent *event)
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

template<typename Lock>
void ServedLockOf<Lock>::updateDeadline()
{
    if (!m_acquisition)
        return; // it has ended, and its locks are being released
    // The clock is read first, so that the sum is never later than the lock's own deadline. TimerSlack: the lock may
    // release its key up to that much before the deadline, and emits its signal later.
    const auto now = LeaseClock::system()->now();
    const auto remaining = m_lock.remainingTime() - LeaseMachine::TimerSlack;
    m_acquisition->deadline.store(remaining > 0ns ? now + remaining : LeaseTime(), std::memory_order_release);
}

template<typename Lock>
void ServedLockOf<Lock>::acquireFailed()
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

template<typename Lock>
void ServedLockOf<Lock>::release()
{
    if (m_lock.state() == DistributedLock::Acquiring)
        m_lock.cancel();
    if (!m_lock.isHeld() || std::exchange(m_releasing, true))
        return; // a signal of m_lock that the hold has ended is on its way
    m_acquisition->deadline.store(LeaseTime(), std::memory_order_release);
    for (const LockAddress &address : m_acquisition->addresses)
        ++m_server->m_releasing[keyOf(address)];
    m_lock.release();
}

template<typename Lock>
void ServedLockOf<Lock>::holdEnded(bool confirmed)
{
    m_acquisition->endHold(confirmed);
    finish();
}

template<typename Lock>
void ServedLockOf<Lock>::finish()
{
    m_useTimer.stop();
    if (std::exchange(m_releasing, false)) {
        for (const LockAddress &address : m_acquisition->addresses) {
            const auto it = m_server->m_releasing.find(keyOf(address));
            if (--it.value() == 0)
                m_server->m_releasing.erase(it);
        }
    }
    m_server->m_active.erase(m_acquisition.get());
    m_acquisition.reset();
    // A signal of m_lock is being emitted, so the lock must not be deleted here.
    if (std::is_same_v<Lock, DistributedLock> && m_lock.state() == DistributedLock::Unlocked
        && m_server->m_idle.size() < MostIdle) {
        m_server->m_idle.emplace_back(this);
    } else {
        m_lock.disconnect(this);
        deleteLater();
    }
}

template<typename Lock>
void ServedLockOf<Lock>::abort()
{
    m_lock.disconnect(this);
    if (!m_acquisition->hasEnded()) {
        m_acquisition->end(acquireFailure(DistributedLock::CancelledError, m_acquisition->addresses.first().name(),
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
        acquisition->end(
                {error.code,
                 u"Lock %1 on %2: %3"_s.arg(Detail::quoted(acquisition->addresses.first().name()), server, error.text),
                 0});
        acquisition->endHold(false);
        return;
    }
    ServedLock *lock = nullptr;
    if (acquisition->addresses.size() > 1) {
        lock = new ServedLockOf<MultiLock>(this);
    } else if (m_idle.empty()) {
        lock = new ServedLockOf<DistributedLock>(this);
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
