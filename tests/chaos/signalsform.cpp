// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "signalsform.h"

#include "company.h"

#include <QDistLock/DistributedLock>
#include <QDistLock/LockRegistry>
#include <QDistLock/MultiLock>
#include <QDistLock/impl/permits.h>

#include <QtCore/qmetaobject.h>
#include <QtCore/qtimer.h>

#include <algorithm>
#include <type_traits>
#include <utility>

using namespace std::chrono_literals;
using QDistLock::DistributedLock;
using QDistLock::MultiLock;
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
    virtual void next(microseconds atLeast) = 0;
    virtual void stop() = 0;
    virtual bool isFinished() const = 0;
};

/// With one lock, or with a MultiLock.
template<typename Lock>
class SignalsForm::ClientOf : public SignalsForm::Client
{
public:
    ClientOf(QDistLock::LockRegistry *registry, Participant *participant, Company company, int permits,
             SignalsForm *form)
        : m_participant(participant)
        , m_company(std::move(company))
        , m_form(form)
        , m_lock(registry, namesOf(participant))
    {
        if constexpr (!IsMultiLock) {
            if (permits > 0)
                QDistLock::Detail::setPermits(&m_lock, permits, 1); // so that it has slots, as a Semaphore
        }
        m_pause.setSingleShot(true);
        m_holdEnd.setSingleShot(true);
        m_cancel.setSingleShot(true);
        for (QTimer *timer : {&m_pause, &m_holdEnd, &m_cancel, &m_observe})
            timer->setTimerType(Qt::PreciseTimer);
        connect(&m_pause, &QTimer::timeout, this, &ClientOf::acquire);
        connect(&m_holdEnd, &QTimer::timeout, this, [this] {
            write();
            release();
        });
        connect(&m_observe, &QTimer::timeout, this, [this] {
            for (Participant *participant : m_company.present())
                participant->observe(m_isHeld);
        });
        connect(&m_cancel, &QTimer::timeout, &m_lock, &Lock::cancel);
        connect(&m_lock, &Lock::acquired, this, &ClientOf::acquired);
        connect(&m_lock, &Lock::acquireFailed, this, [this](DistributedLock::Error error) {
            for (Participant *participant : m_company.present())
                participant->acquireFailed(nameOf(error));
            next(error == DistributedLock::BusyError || error == DistributedLock::CancelledError ? 0us : 20ms);
        });
        connect(&m_lock, &Lock::renewed, this, [this] {
            const qint64 time = bootTime();
            const auto remaining = m_lock.remainingTime();
            for (Participant *participant : m_company.present())
                participant->renewed(time, remaining, m_isHeld);
        });
        connect(&m_lock, &Lock::released, this, [this] {
            for (Participant *participant : m_company.present())
                participant->released();
            next(0us);
        });
        if constexpr (IsMultiLock) {
            connect(&m_lock, &Lock::lost, this,
                    [this](DistributedLock::LossReason reason, const QString &name) { lost(reason, name); });
        } else {
            connect(&m_lock, &Lock::lost, this,
                    [this](DistributedLock::LossReason reason) { lost(reason, m_lock.name()); });
        }
        // Connected last, so that the slots above have finished.
        const auto dialog = [this] { m_participant->runNestedLoop(); };
        connect(&m_lock, &Lock::stateChanged, this, dialog);
        connect(&m_lock, &Lock::acquired, this, dialog);
        connect(&m_lock, &Lock::acquireFailed, this, dialog);
        connect(&m_lock, &Lock::renewed, this, dialog);
        connect(&m_lock, &Lock::released, this, dialog);
        connect(&m_lock, &Lock::lost, this, dialog);
        connect(&m_lock, &Lock::errorOccurred, this, dialog);
    }

    ~ClientOf() override
    {
        for (Participant *participant : m_company.present()) {
            if (m_doing == Acquiring)
                participant->acquireFailed("Destroyed");
            else if (m_doing == Holding)
                participant->releaseInvoked(m_isHeld);
        }
    }

    void next(microseconds atLeast) override
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

    void stop() override
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

    bool isFinished() const override { return m_doing == Nothing; }

private:
    static constexpr bool IsMultiLock = std::is_same_v<Lock, MultiLock>;

    static QString nameIn(const Participant *participant) { return QString::fromLatin1(participant->lock().name); }

    /// For the constructor of the lock.
    static auto namesOf(const Participant *participant)
    {
        if constexpr (IsMultiLock)
            return QStringList{nameIn(participant)};
        else
            return nameIn(participant);
    }

    qint64 fencingToken(const Participant *participant) const
    {
        if constexpr (IsMultiLock)
            return m_lock.fencingToken(nameIn(participant));
        else
            return m_lock.fencingToken();
    }

    QList<int> heldSlots() const
    {
        if constexpr (IsMultiLock)
            return {};
        else
            return QDistLock::Detail::heldSlots(&m_lock);
    }

    void lost(DistributedLock::LossReason reason, const QString &name)
    {
        for (Participant *participant : m_company.present())
            participant->lost(nameIn(participant) == name ? nameOf(reason) : "OfAnother");
        next(0us);
    }

    void drawLocks()
    {
        if (!m_company.draw())
            return;
        QStringList names;
        for (const Participant *participant : m_company.present())
            names.append(nameIn(participant));
        m_lock.setNames(names);
        names.sort();
        if (m_lock.names() != names)
            qFatal("the names of an unlocked MultiLock cannot be set: %ls", qUtf16Printable(m_lock.errorString()));
    }

    void acquire()
    {
        m_doing = Acquiring;
        if constexpr (IsMultiLock)
            drawLocks();
        m_lock.setOptions(m_participant->drawOptions());
        for (Participant *participant : m_company.present())
            participant->acquireInvoked();
        if (m_participant->below(12) == 0)
            m_cancel.start(int(m_participant->below(30)));
        m_lock.acquire();
    }

    void acquired()
    {
        const qint64 time = bootTime();
        const auto remaining = m_lock.remainingTime();
        for (Participant *participant : m_company.present())
            participant->acquired(fencingToken(participant), time, remaining, m_isHeld, heldSlots());
        m_cancel.stop();
        m_doing = Holding;
        write();
        const microseconds hold = m_participant->drawHold();
        if (hold == 0us || m_stopping) {
            release();
            return;
        }
        m_holdEnd.start(std::chrono::ceil<std::chrono::milliseconds>(hold));
        m_observe.start(ObserveInterval);
    }

    void write()
    {
        for (Participant *participant : m_company.present())
            participant->write(m_isHeld);
    }

    void release()
    {
        m_doing = Releasing;
        m_holdEnd.stop();
        m_observe.stop();
        for (Participant *participant : m_company.present())
            participant->releaseInvoked(m_isHeld);
        m_lock.release();
    }

    Participant *const m_participant;
    Company m_company;
    SignalsForm *const m_form;
    Lock m_lock;
    const Participant::IsHeld m_isHeld = [this] { return m_lock.isHeld(); };
    QTimer m_pause;
    QTimer m_holdEnd;
    QTimer m_observe;
    QTimer m_cancel;
    enum { Nothing, Pausing, Acquiring, Holding, Releasing } m_doing = Pausing;
    bool m_stopping = false;
};

SignalsForm::SignalsForm(const Settings &settings, History *history, InjectedFaults *faults, bool areTogether)
    : Form(settings, history, faults)
{
    for (const auto &participant : m_participants) {
        const LockSettings &contended = participant->lock();
        auto &registry = m_registries[contended.server];
        if (!registry)
            registry = std::make_unique<QDistLock::LockRegistry>(contended.server);
        if (areTogether) {
            m_clients.push_back(std::make_unique<ClientOf<MultiLock>>(
                    registry.get(), participant.get(), Company(participant.get(), settings, history, faults), 0, this));
        } else {
            m_clients.push_back(std::make_unique<ClientOf<DistributedLock>>(
                    registry.get(), participant.get(), Company(participant.get()), settings.permits, this));
        }
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
