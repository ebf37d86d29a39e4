// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "scopedform.h"

#include <QDistLock/LockRegistry>
#include <QDistLock/ScopedLock>

#include <QtCore/qmetaobject.h>

#include <algorithm>

using namespace std::chrono_literals;
using QDistLock::DistributedLock;
using QDistLock::ScopedLock;
using std::chrono::microseconds;

namespace Chaos {

namespace {

constexpr microseconds ObserveInterval = 10ms;
/// A blocking wait cannot be interrupted, so that it must be short.
constexpr auto LongestWait = 3s;

QByteArray nameOf(DistributedLock::Error error)
{
    return QMetaEnum::fromType<DistributedLock::Error>().valueToKey(error);
}

void hold(Participant *participant, const Participant::IsHeld &isHeld, const std::atomic<bool> &stopping)
{
    participant->write(isHeld);
    microseconds rest = participant->drawHold();
    if (rest == 0us)
        return;
    while (rest > 0us && !stopping) {
        std::this_thread::sleep_for(std::min(rest, ObserveInterval));
        rest -= ObserveInterval;
        participant->observe(isHeld);
    }
    participant->write(isHeld);
}

} // namespace

ScopedForm::ScopedForm(const Settings &settings, History *history, InjectedFaults *faults)
    : Form(settings, history, faults)
{
    QDistLock::LockRegistry::setDefaultServer(settings.locks.first().server);
}

ScopedForm::~ScopedForm()
{
    stop();
    join();
}

void ScopedForm::start()
{
    m_running = int(m_participants.size());
    for (const auto &participant : m_participants)
        m_threads.emplace_back([this, participant = participant.get()] { run(participant); });
}

void ScopedForm::stop()
{
    m_stopping = true;
}

void ScopedForm::abandon()
{
    m_stopping = true;
}

void ScopedForm::join()
{
    for (std::thread &thread : m_threads)
        thread.join();
    m_threads.clear();
}

void ScopedForm::run(Participant *participant)
{
    while (!m_stopping) {
        std::this_thread::sleep_for(participant->drawPause());
        takeTurn(participant);
    }
    if (--m_running == 0)
        Q_EMIT finished();
}

void ScopedForm::takeTurn(Participant *participant)
{
    const QString name = QString::fromLatin1(participant->lock().name);
    const QUrl &server = participant->lock().server;
    QDistLock::LockOptions options = participant->drawOptions();
    options.wait = std::min<std::chrono::milliseconds>(options.wait, LongestWait);
    participant->acquireInvoked();

    if (server == QDistLock::LockRegistry::defaultServer()) {
        try {
            QDL_SCOPED_LOCK(name, options);
            const Participant::IsHeld isHeld = [&] {
                // A holder of permits shares the lock.
                return QDistLock::isLockedHere(name,
                                               options.permits > 0 ? QDistLock::LockOptions::Shared : options.mode);
            };
            participant->acquired(QDistLock::fencingTokenHere(name), bootTime(), 0ns, isHeld);
            hold(participant, isHeld, m_stopping);
            participant->releaseInvoked(isHeld);
            if (participant->hasSeenLoss())
                participant->lost();
        } catch (const QDistLock::LockUnavailable &unavailable) {
            participant->acquireFailed(nameOf(unavailable.result().error));
        }
        return;
    }

    ScopedLock lock(QDistLock::LockAddress(name).withServer(server), options);
    const auto result = lock.result();
    if (result.error != DistributedLock::NoError) {
        participant->acquireFailed(nameOf(result.error));
        return;
    }
    const Participant::IsHeld isHeld = [&lock] { return lock.isHeld(); };
    participant->acquired(lock.fencingToken(), bootTime(), 0ns, isHeld);
    hold(participant, isHeld, m_stopping);
    participant->releaseInvoked(isHeld);
    const bool asked = participant->below(3) == 0;
    if (asked && lock.release())
        participant->released();
    else if (asked || participant->hasSeenLoss())
        participant->lost();
}

} // namespace Chaos
