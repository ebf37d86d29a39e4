// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "annotatedform.h"

#include <QDistLock/LockRegistry>
#include <QDistLock/ScopedLock>

#include <QtCore/qfuturewatcher.h>
#include <QtCore/qmetaobject.h>
#include <QtCore/qpointer.h>
#include <QtCore/qpromise.h>

#include <algorithm>
#include <thread>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using QDistLock::DistributedLock;
using std::chrono::microseconds;
using std::chrono::milliseconds;

namespace Chaos {

namespace {

constexpr microseconds ObserveInterval = 10ms;

QByteArray nameOf(DistributedLock::Error error)
{
    return QMetaEnum::fromType<DistributedLock::Error>().valueToKey(error);
}

} // namespace

AnnotatedClient::AnnotatedClient(Participant *participant, AnnotatedForm *form)
    : m_participant(participant)
    , m_form(form)
    , m_isHeld([this] { return QDistLock::isLockedHere(address()); })
{
    m_pause.setSingleShot(true);
    connect(&m_pause, &QTimer::timeout, this, &AnnotatedClient::ask);
    connect(QDistLock::LockedCalls::instance(), &QDistLock::LockedCalls::failed, this,
            [this](const QDistLock::LockedCallInfo &call) {
                if (call.receiver == this)
                    failed(call.error);
            });
    connect(QDistLock::LockedCalls::instance(), &QDistLock::LockedCalls::lost, this,
            [this](const QDistLock::LockedCallInfo &call) {
                if (call.receiver == this)
                    lost();
            });
    const LockSettings &lock = m_participant->lock();
    if (isDefaultServer()) {
        if (!lock.fair)
            QDistLock::connectLocked(this, &AnnotatedClient::wanted, this, &AnnotatedClient::takeUnfairTurn);
    } else if (!lock.fair) {
        QDistLock::connectLocked(
                this, &AnnotatedClient::wanted, this, [this] { takeTurn(); }, lockName(),
                u"lease=300ms; wait=2s; retryInterval=20ms; fair=false; server=%1"_s.arg(lock.server.toString()));
    }
}

AnnotatedClient::~AnnotatedClient()
{
    if (m_doing == Asking)
        m_participant->acquireFailed("Destroyed");
}

bool AnnotatedClient::isDefaultServer() const
{
    return m_participant->lock().server == QDistLock::LockRegistry::defaultServer();
}

void AnnotatedClient::start()
{
    m_doing = Pausing;
    m_pause.start(std::chrono::duration_cast<milliseconds>(m_participant->drawPause()));
}

void AnnotatedClient::stop()
{
    m_stopping = true;
    if (m_doing == Pausing)
        ended();
}

void AnnotatedClient::ask()
{
    const LockSettings &lock = m_participant->lock();
    m_doing = Asking;
    m_participant->acquireInvoked();
    if (isDefaultServer() && m_participant->below(10) == 0)
        watch(QDistLock::invokeLocked(this, "tryTurn", lockName()));
    else if (isDefaultServer() && lock.fair)
        watch(QDistLock::invokeLocked(this, "takeFairTurn", lockName()));
    else if (!lock.fair)
        Q_EMIT wanted();
    else
        watch(QDistLock::withLock(this, address(), m_participant->drawOptions(), [this] { return takeLongTurn(); }),
              &AnnotatedClient::longTurnEnded);
}

// Not then(): before Qt 6.5 a continuation must not outlive its context.
template<typename T>
void AnnotatedClient::watch(const QFuture<T> &future, void (AnnotatedClient::*then)())
{
    auto *const watcher = new QFutureWatcher<T>(this);
    connect(watcher, &QFutureWatcherBase::finished, this, [this, watcher, then] {
        watcher->deleteLater();
        try {
            watcher->future().waitForFinished(); // throws the stored exception
            if (then)
                (this->*then)();
        } catch (const QDistLock::LockUnavailable &unavailable) {
            failed(unavailable.result().error);
        }
    });
    watcher->setFuture(future);
}

void AnnotatedClient::failed(DistributedLock::Error error)
{
    if (m_doing != Asking)
        return;
    m_participant->acquireFailed(nameOf(error));
    ended();
}

void AnnotatedClient::ended()
{
    m_pause.stop();
    if (!m_stopping) {
        start();
        return;
    }
    m_doing = Nothing;
    m_form->clientFinished();
}

void AnnotatedClient::takeFairTurn(const QString &lock)
{
    Q_UNUSED(lock)
    takeTurn();
}

void AnnotatedClient::takeUnfairTurn()
{
    takeTurn();
}

void AnnotatedClient::tryTurn(const QString &lock)
{
    Q_UNUSED(lock)
    takeTurn();
}

/// A long method: it blocks the event loop, and the lock is kept.
void AnnotatedClient::takeTurn()
{
    m_doing = Running;
    m_participant->acquired(QDistLock::fencingTokenHere(address()), bootTime(), 0ns, m_isHeld);
    m_participant->write(m_isHeld);
    const QPointer<AnnotatedClient> guard(this);
    m_participant->runNestedLoop();
    if (!guard)
        return;
    microseconds rest = m_participant->drawHold();
    if (rest > 0us) {
        for (; rest > 0us && !m_stopping; rest -= ObserveInterval) {
            std::this_thread::sleep_for(std::min(rest, ObserveInterval));
            m_participant->observe(m_isHeld);
        }
        m_participant->write(m_isHeld);
    }
    m_participant->releaseInvoked(m_isHeld);
    ended();
}

/// The lock is kept until the future has finished; after the return no isHeld() can be called. If LockedCalls emits no
/// lost() when the lock is released, the lock was held until then.
QFuture<void> AnnotatedClient::takeLongTurn()
{
    m_doing = Running;
    m_participant->acquired(QDistLock::fencingTokenHere(address()), bootTime(), 0ns, m_isHeld);
    m_participant->write(m_isHeld);
    m_longTurn = true;
    m_lost = false;
    auto promise = std::make_shared<QPromise<void>>();
    promise->start();
    const auto hold = m_stopping ? 0ms : std::chrono::ceil<milliseconds>(m_participant->drawHold());
    QTimer::singleShot(hold, this, [this, promise, hold] {
        if (hold > 0ms)
            m_participant->writeUnseen();
        m_longTurnEnd = bootTime();
        promise->finish();
    });
    return promise->future();
}

void AnnotatedClient::longTurnEnded()
{
    m_longTurn = false;
    if (m_lost)
        m_participant->lost();
    else
        m_participant->releasedAfter(m_longTurnEnd);
    ended();
}

/// Called when the lock was released.
void AnnotatedClient::lost()
{
    m_lost = true;
    if (!m_longTurn)
        m_participant->lost();
}

AnnotatedForm::AnnotatedForm(const Settings &settings, History *history, InjectedFaults *faults)
    : Form(settings, history, faults)
{
    if (settings.lease != 300ms)
        qFatal("the annotations say that the lease is 300 ms");
    QDistLock::LockRegistry::setDefaultServer(settings.locks.first().server);
    const QStringList wrong = QDistLock::validateAnnotations(&AnnotatedClient::staticMetaObject);
    if (!wrong.isEmpty())
        qFatal("%ls", qUtf16Printable(wrong.join(u'\n')));
    for (const auto &participant : m_participants)
        m_clients.push_back(std::make_unique<AnnotatedClient>(participant.get(), this));
}

AnnotatedForm::~AnnotatedForm() = default;

void AnnotatedForm::start()
{
    for (const auto &client : m_clients)
        client->start();
}

void AnnotatedForm::stop()
{
    for (const auto &client : m_clients)
        client->stop();
}

void AnnotatedForm::abandon()
{
    m_clients.clear();
    clientFinished();
}

void AnnotatedForm::clientFinished()
{
    const bool all = std::all_of(m_clients.begin(), m_clients.end(),
                                 [](const auto &client) { return client->isFinished(); });
    if (all)
        QMetaObject::invokeMethod(this, &Form::finished, Qt::QueuedConnection);
}

} // namespace Chaos
