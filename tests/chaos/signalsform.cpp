// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "signalsform.h"

#include <QDistLock/DistributedLock>
#include <QDistLock/LockRegistry>

#include <QtCore/qmetaobject.h>
#include <QtCore/qtimer.h>

#include <algorithm>

using namespace std::chrono_literals;
using QDistLock::DistributedLock;
using std::chrono::microseconds;

namespace Chaos {

namespace {

constexpr auto ObserveInterval = 10ms;

template<typename Enum>
QByteArray nameOf(Enum value)
{
    return QMetaEnum::fromType<Enum>().valueToKey(value);
}

} // namespace

class SignalsForm::Client : public QObject
{
public:
    Client(QDistLock::LockRegistry *registry, Participant *participant, SignalsForm *form)
        : m_participant(participant)
        , m_form(form)
        , m_lock(registry, QString::fromLatin1(participant->lock().name))
    {
        m_pause.setSingleShot(true);
        m_holdEnd.setSingleShot(true);
        m_cancel.setSingleShot(true);
        for (QTimer *timer : {&m_pause, &m_holdEnd, &m_cancel, &m_observe})
            timer->setTimerType(Qt::PreciseTimer);
        connect(&m_pause, &QTimer::timeout, this, &Client::acquire);
        connect(&m_holdEnd, &QTimer::timeout, this, [this] {
            m_participant->write(m_isHeld);
            release();
        });
        connect(&m_observe, &QTimer::timeout, this, [this] { m_participant->observe(m_isHeld); });
        connect(&m_cancel, &QTimer::timeout, &m_lock, &DistributedLock::cancel);
        connect(&m_lock, &DistributedLock::acquired, this, &Client::acquired);
        connect(&m_lock, &DistributedLock::acquireFailed, this, [this](DistributedLock::Error error) {
            m_participant->acquireFailed(nameOf(error));
            next(error == DistributedLock::BusyError || error == DistributedLock::CancelledError ? 0us : 20ms);
        });
        connect(&m_lock, &DistributedLock::renewed, this, [this] {
            const qint64 time = bootTime();
            m_participant->renewed(time, m_lock.remainingTime(), m_isHeld);
        });
        connect(&m_lock, &DistributedLock::released, this, [this] {
            m_participant->released();
            next(0us);
        });
        connect(&m_lock, &DistributedLock::lost, this, [this](DistributedLock::LossReason reason) {
            m_participant->lost(nameOf(reason));
            next(0us);
        });
        // Connected last, so that the slots above have finished.
        const auto dialog = [this] { m_participant->runNestedLoop(); };
        connect(&m_lock, &DistributedLock::stateChanged, this, dialog);
        connect(&m_lock, &DistributedLock::acquired, this, dialog);
        connect(&m_lock, &DistributedLock::acquireFailed, this, dialog);
        connect(&m_lock, &DistributedLock::renewed, this, dialog);
        connect(&m_lock, &DistributedLock::released, this, dialog);
        connect(&m_lock, &DistributedLock::lost, this, dialog);
        connect(&m_lock, &DistributedLock::errorOccurred, this, dialog);
    }

    ~Client() override
    {
        if (m_doing == Acquiring)
            m_participant->acquireFailed("Destroyed");
        else if (m_doing == Holding)
            m_participant->releaseInvoked(m_isHeld);
    }

    void next(microseconds atLeast)
    {
        m_holdEnd.stop();
        m_observe.stop();
        m_cancel.stop();
        if (m_stopping) {
            m_doing = Nothing;
            m_form->clientFinished();
            return;
        }
        m_doing = Pausing;
        const auto pause = std::max(atLeast, m_participant->drawPause());
        m_pause.start(std::chrono::duration_cast<std::chrono::milliseconds>(pause));
    }

    void stop()
    {
        m_stopping = true;
        if (m_doing == Pausing) {
            m_pause.stop();
            next(0us);
        } else if (m_doing == Acquiring) {
            m_lock.cancel();
        } else if (m_doing == Holding) {
            release();
        }
    }

    bool isFinished() const { return m_doing == Nothing; }

private:
    void acquire()
    {
        m_doing = Acquiring;
        m_lock.setOptions(m_participant->drawOptions());
        m_participant->acquireInvoked();
        if (m_participant->below(12) == 0)
            m_cancel.start(int(m_participant->below(30)));
        m_lock.acquire();
    }

    void acquired()
    {
        const qint64 time = bootTime();
        m_participant->acquired(m_lock.fencingToken(), time, m_lock.remainingTime(), m_isHeld);
        m_cancel.stop();
        m_doing = Holding;
        m_participant->write(m_isHeld);
        const microseconds hold = m_participant->drawHold();
        if (hold == 0us || m_stopping) {
            release();
            return;
        }
        m_holdEnd.start(std::chrono::ceil<std::chrono::milliseconds>(hold));
        m_observe.start(ObserveInterval);
    }

    void release()
    {
        m_doing = Releasing;
        m_holdEnd.stop();
        m_observe.stop();
        m_participant->releaseInvoked(m_isHeld);
        m_lock.release();
    }

    Participant *const m_participant;
    SignalsForm *const m_form;
    DistributedLock m_lock;
    const Participant::IsHeld m_isHeld = [this] { return m_lock.isHeld(); };
    QTimer m_pause;
    QTimer m_holdEnd;
    QTimer m_observe;
    QTimer m_cancel;
    enum { Nothing, Pausing, Acquiring, Holding, Releasing } m_doing = Pausing;
    bool m_stopping = false;
};

SignalsForm::SignalsForm(const Settings &settings, History *history, InjectedFaults *faults)
    : Form(settings, history, faults)
{
    for (const auto &participant : m_participants) {
        auto &registry = m_registries[participant->lock().server];
        if (!registry)
            registry = std::make_unique<QDistLock::LockRegistry>(participant->lock().server);
        m_clients.push_back(std::make_unique<Client>(registry.get(), participant.get(), this));
    }
}

SignalsForm::~SignalsForm() = default;

void SignalsForm::start()
{
    for (const auto &client : m_clients)
        client->next(0us);
}

void SignalsForm::stop()
{
    for (const auto &client : m_clients)
        client->stop();
}

void SignalsForm::abandon()
{
    m_clients.clear();
    clientFinished();
}

void SignalsForm::disconnectFromServers()
{
    m_registries.clear();
}

void SignalsForm::clientFinished()
{
    const bool all = std::all_of(m_clients.begin(), m_clients.end(),
                                 [](const auto &client) { return client->isFinished(); });
    if (all)
        QMetaObject::invokeMethod(this, &Form::finished, Qt::QueuedConnection);
}

} // namespace Chaos
