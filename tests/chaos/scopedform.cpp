// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "scopedform.h"

#include <QDistLock/LockRegistry>
#include <QDistLock/ScopedMultiLock>

#include <QtCore/qmetaobject.h>

#include <algorithm>

using namespace std::chrono_literals;
using QDistLock::DistributedLock;
using QDistLock::LockAddress;
using QDistLock::ScopedLock;
using QDistLock::ScopedMultiLock;
using std::chrono::microseconds;

namespace Chaos {

namespace {

constexpr microseconds ObserveInterval = 10ms;
/// A blocking wait cannot be interrupted, so that it must be short.
constexpr auto LongestWait = 3s;

QDistLock::LockOptions drawOptions(Participant *participant)
{
    QDistLock::LockOptions options = participant->drawOptions();
    options.wait = std::min<std::chrono::milliseconds>(options.wait, LongestWait);
    return options;
}

QByteArray nameOf(DistributedLock::Error error)
{
    return QMetaEnum::fromType<DistributedLock::Error>().valueToKey(error);
}

void hold(const std::vector<Participant *> &participants, const Participant::IsHeld &isHeld,
          const std::atomic<bool> &stopping)
{
    for (Participant *participant : participants)
        participant->write(isHeld);
    microseconds rest = participants.front()->drawHold();
    if (rest == 0us)
        return;
    while (rest > 0us && !stopping) {
        std::this_thread::sleep_for(std::min(rest, ObserveInterval));
        rest -= ObserveInterval;
        for (Participant *participant : participants)
            participant->observe(isHeld);
    }
    for (Participant *participant : participants)
        participant->write(isHeld);
}

} // namespace

ScopedForm::ScopedForm(const Settings &settings, History *history, InjectedFaults *faults, bool areTogether)
    : Form(settings, history, faults)
{
    QDistLock::LockRegistry::setDefaultServer(settings.locks.first().server);
    if (!areTogether)
        return;
    for (const auto &participant : m_participants)
        m_companies.push_back(std::make_unique<Company>(participant.get(), settings, history, faults));
}

ScopedForm::~ScopedForm()
{
    stop();
    join();
}

void ScopedForm::start()
{
    m_running = int(m_participants.size());
    for (size_t i = 0; i < m_participants.size(); ++i) {
        Company *const company = m_companies.empty() ? nullptr : m_companies.at(i).get();
        m_threads.emplace_back(
                [this, participant = m_participants.at(i).get(), company] { run(participant, company); });
    }
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

void ScopedForm::run(Participant *participant, Company *company)
{
    while (!m_stopping) {
        std::this_thread::sleep_for(participant->drawPause());
        if (company)
            takeTurn(company);
        else
            takeTurn(participant);
    }
    if (--m_running == 0)
        Q_EMIT finished();
}

void ScopedForm::takeTurn(Participant *participant)
{
    const QString name = QString::fromLatin1(participant->lock().name);
    const QUrl &server = participant->lock().server;
    const QDistLock::LockOptions options = drawOptions(participant);
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
            hold({participant}, isHeld, m_stopping);
            participant->releaseInvoked(isHeld);
            if (participant->hasSeenLoss())
                participant->lost();
        } catch (const QDistLock::LockUnavailable &unavailable) {
            participant->acquireFailed(nameOf(unavailable.result().error));
        }
        return;
    }

    ScopedLock lock(LockAddress(name).withServer(server), options);
    const auto result = lock.result();
    if (result.error != DistributedLock::NoError) {
        participant->acquireFailed(nameOf(result.error));
        return;
    }
    const Participant::IsHeld isHeld = [&lock] { return lock.isHeld(); };
    participant->acquired(lock.fencingToken(), bootTime(), 0ns, isHeld);
    hold({participant}, isHeld, m_stopping);
    participant->releaseInvoked(isHeld);
    const bool asked = participant->below(3) == 0;
    if (asked && lock.release())
        participant->released();
    else if (asked || participant->hasSeenLoss())
        participant->lost();
}

void ScopedForm::takeTurn(Company *company)
{
    company->draw();
    const std::vector<Participant *> &present = company->present();
    const auto addressOf = [](const Participant *participant) {
        return LockAddress(QString::fromLatin1(participant->lock().name)).withServer(participant->lock().server);
    };
    QList<LockAddress> addresses;
    for (Participant *participant : present) {
        addresses.append(addressOf(participant));
        participant->acquireInvoked();
    }
    ScopedMultiLock locks(addresses, drawOptions(present.front()));
    const auto result = locks.result();
    if (result.error != DistributedLock::NoError) {
        for (Participant *participant : present)
            participant->acquireFailed(nameOf(result.error));
        return;
    }
    const Participant::IsHeld isHeld = [&locks] { return locks.isHeld(); };
    const qint64 time = bootTime();
    for (Participant *participant : present)
        participant->acquired(locks.fencingToken(addressOf(participant)), time, 0ns, isHeld);
    hold(present, isHeld, m_stopping);
    for (Participant *participant : present)
        participant->releaseInvoked(isHeld);
    const bool asked = present.front()->below(3) == 0;
    if (asked && locks.release()) {
        for (Participant *participant : present)
            participant->released();
    } else if (asked || std::any_of(present.begin(), present.end(), [](auto *one) { return one->hasSeenLoss(); })) {
        for (Participant *participant : present)
            participant->lost("OfAnother"); // a scope does not report which one
    }
}

} // namespace Chaos
