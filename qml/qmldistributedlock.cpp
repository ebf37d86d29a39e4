// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "qmldistributedlock.h"

#include <QDistLock/lockregistry.h>

#include <QtCore/qloggingcategory.h>
#include <QtCore/qpromise.h>
#include <QtCore/qrandom.h>
#include <QtQml/qqml.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace QDistLock {

Q_LOGGING_CATEGORY(lcQml, "qdistlock.qml", QtWarningMsg)

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds FirstRetryDelay = 1s;
constexpr std::chrono::milliseconds LongestRetryDelay = 60s;

static LockResult cancelledResult(const QString &name)
{
    LockResult result;
    result.error = DistributedLock::CancelledError;
    result.errorString = QStringLiteral("lock \"%1\": cancelled").arg(name);
    return result;
}

static QFuture<LockResult> finishedFuture(const LockResult &result)
{
    QPromise<LockResult> promise;
    promise.start();
    promise.addResult(result);
    promise.finish();
    return promise.future();
}

QmlDistributedLock::QmlDistributedLock(QObject *parent)
    : DistributedLock(parent)
    , m_retryDelay(FirstRetryDelay)
{
    m_retryTimer.setSingleShot(true);
    connect(&m_retryTimer, &QTimer::timeout, this, &QmlDistributedLock::update);
    connect(&m_attempt, &QFutureWatcherBase::finished, this, &QmlDistributedLock::attemptFinished);
    connect(this, &DistributedLock::stateChanged, this, &QmlDistributedLock::scheduleUpdate);
    connect(this, &DistributedLock::released, this, &QmlDistributedLock::onReleased);
    connect(this, &DistributedLock::lost, this, [this] {
        m_activeLevel = false;
        scheduleUpdate();
    });
    connect(this, &DistributedLock::leaseChanged, this,
            [this] { optionChanged(state() != Unlocked); });
    connect(this, &DistributedLock::fairChanged, this,
            [this] { optionChanged(state() == Acquiring); });
    connect(this, &DistributedLock::retryIntervalChanged, this,
            [this] { optionChanged(state() == Acquiring); });
}

QmlDistributedLock::~QmlDistributedLock()
{
    cancelWaitingCalls();
}

QString QmlDistributedLock::name() const
{
    return m_name;
}

void QmlDistributedLock::setName(const QString &name)
{
    if (m_name == name)
        return;
    m_name = name;
    change();
    Q_EMIT nameChanged();
}

double QmlDistributedLock::fencingNumber() const
{
    return double(fencingToken());
}

QString QmlDistributedLock::server() const
{
    return m_server;
}

void QmlDistributedLock::setServer(const QString &server)
{
    if (m_server == server)
        return;
    m_server = server;
    change();
    Q_EMIT serverChanged();
}

bool QmlDistributedLock::isActive() const
{
    return m_active;
}

void QmlDistributedLock::setActive(bool active)
{
    if (m_active == active)
        return;
    m_active = active;
    m_retryTimer.stop();
    m_retryDelay = FirstRetryDelay;
    m_stuck = false;
    if (active) {
        scheduleUpdate();
    } else if (m_activeLevel) {
        m_activeLevel = false;
        DistributedLock::release();
    } else if (m_attempting && m_pendingCalls == 0) {
        // With other acquires pending it runs on, and attemptFinished() gives its level back.
        m_cancelling = true;
        DistributedLock::cancel();
    }
    Q_EMIT activeChanged();
}

void QmlDistributedLock::classBegin()
{
    m_complete = false;
}

void QmlDistributedLock::componentComplete()
{
    m_complete = true;
    applyChange();
    scheduleUpdate();
}

QJSValue QmlDistributedLock::acquire()
{
    return acquirePromise(false);
}

QJSValue QmlDistributedLock::tryAcquire()
{
    return acquirePromise(true);
}

QJSValue QmlDistributedLock::acquirePromise(bool tryOnly)
{
    Watcher *watcher = nullptr;
    const QJSValue promised = m_promises.make(
            this, &watcher,
            [name = m_name](QJSEngine *engine, const QJSValue &deferred, const QFuture<LockResult> &future) {
                const LockResult result = future.resultCount() > 0 ? future.result() : cancelledResult(name);
                QJSValue value = engine->newObject();
                value.setProperty(QStringLiteral("acquired"), result.isAcquired());
                value.setProperty(QStringLiteral("error"), int(result.error));
                value.setProperty(QStringLiteral("errorString"), result.errorString);
                value.setProperty(QStringLiteral("fencingToken"), double(result.fencingToken));
                JsPromises::resolve(deferred, value);
            });

    const WaitingCall call{watcher, tryOnly};
    if (m_complete && !m_changed) {
        start(call);
    } else {
        m_waitingCalls.push_back(call);
        scheduleUpdate();
    }
    return promised;
}

void QmlDistributedLock::start(const WaitingCall &call)
{
    if (!call.watcher)
        return;
    ++m_pendingCalls;
    // Settled, or gone with its engine.
    connect(call.watcher, &QObject::destroyed, this, [this] {
        --m_pendingCalls;
        scheduleUpdate();
    });
    call.watcher->setFuture(call.tryOnly ? tryAcquireAsync() : acquireAsync());
}

void QmlDistributedLock::cancelWaitingCalls()
{
    const std::vector<WaitingCall> calls = std::exchange(m_waitingCalls, {});
    for (const WaitingCall &call : calls) {
        if (call.watcher)
            call.watcher->setFuture(finishedFuture(cancelledResult(m_name)));
    }
}

QJSValue QmlDistributedLock::release()
{
    QFutureWatcher<bool> *watcher = nullptr;
    const QJSValue promised = m_promises.make(
            this, &watcher, [](QJSEngine *, const QJSValue &deferred, const QFuture<bool> &released) {
                JsPromises::resolve(deferred, released.resultCount() > 0 && released.result());
            });

    cancelWaitingCalls();
    const bool endsActive = m_active && (m_activeLevel ? holdCount() <= 1 : !m_changed);
    watcher->setFuture(releaseAsync());
    if (endsActive) {
        m_activeLevel = false;
        m_cancelling = m_attempting;
        setActive(false);
    }
    return promised;
}

QJSValue QmlDistributedLock::forceRelease()
{
    LockRegistry *const registry = wantedRegistry();
    const auto failure = std::make_shared<QString>();
    QFutureWatcher<bool> *watcher = nullptr;
    const QJSValue promised = m_promises.make(
            this, &watcher, [failure](QJSEngine *engine, const QJSValue &deferred, const QFuture<bool> &existed) {
                if (failure->isNull())
                    JsPromises::resolve(deferred, existed.resultCount() > 0 && existed.result());
                else
                    JsPromises::reject(engine, deferred, *failure);
            });
    connect(registry, &LockRegistry::errorOccurred, watcher,
            [failure, registry] { *failure = registry->errorString(); });
    watcher->setFuture(registry->forceRelease(m_name));
    return promised;
}

void QmlDistributedLock::cancel()
{
    cancelWaitingCalls();
    DistributedLock::cancel();
    if (m_active && !m_activeLevel)
        setActive(false);
}

LockRegistry *QmlDistributedLock::wantedRegistry() const
{
    return m_server.isEmpty() ? LockRegistry::instance()
                              : LockRegistry::instance(QUrl(m_server, QUrl::StrictMode));
}

/// Name, server or lease are to be replaced before anything else is acquired.
void QmlDistributedLock::change()
{
    m_changed = true;
    m_stuck = false;
    m_retryTimer.stop();
    m_retryDelay = FirstRetryDelay;
    scheduleUpdate();
}

void QmlDistributedLock::optionChanged(bool matters)
{
    if (m_active && matters) {
        change();
    } else if (m_stuck) {
        m_stuck = false;
        scheduleUpdate();
    }
}

/// Later, so that all properties set in one turn of the event loop count as one change.
void QmlDistributedLock::scheduleUpdate()
{
    if (m_updateScheduled || !m_complete)
        return;
    m_updateScheduled = true;
    QMetaObject::invokeMethod(this, &QmlDistributedLock::update, Qt::QueuedConnection);
}

/// Takes the next step from what is towards what is wanted. Called after every change of either.
void QmlDistributedLock::update()
{
    m_updateScheduled = false;
    if (m_changed) {
        if (state() != Unlocked) {
            letGo();
            return;
        }
        // What was cancelled is told under the old name.
        if (m_attempting || m_pendingCalls > 0)
            return;
        applyChange();
    }
    const std::vector<WaitingCall> calls = std::exchange(m_waitingCalls, {});
    for (const WaitingCall &call : calls)
        start(call);
    if (m_active && !m_activeLevel && !m_attempting && !m_stuck && !m_retryTimer.isActive()
        && state() != Releasing)
        startAttempt();
}

void QmlDistributedLock::applyChange()
{
    m_changed = false;
    if (DistributedLock::name() != m_name)
        DistributedLock::setName(m_name);
    setRegistry(wantedRegistry());
}

/// Ends every level and every acquire under the old name; stateChanged() leads back to update().
void QmlDistributedLock::letGo()
{
    m_activeLevel = false;
    m_cancelling = m_attempting;
    DistributedLock::cancel();
    for (int level = holdCount(); level > 0; --level)
        DistributedLock::release();
}

void QmlDistributedLock::startAttempt()
{
    m_attempting = true;
    m_cancelling = false;
    if (state() != Unlocked) {
        // Re-enters a hold, or joins an acquire whose `wait` may end it.
        m_attempt.setFuture(acquireAsync());
        return;
    }
    // Nothing but these options changes meanwhile, and to the outside not even they.
    const LockOptions own = options();
    LockOptions patient = own;
    patient.wait = LockOptions::Forever;
    patient.maxRetries = LockOptions::UnlimitedRetries;
    setOptionsQuietly(patient);
    m_attempt.setFuture(acquireAsync());
    setOptionsQuietly(own);
}

void QmlDistributedLock::setOptionsQuietly(const LockOptions &options)
{
    const QSignalBlocker blocker(this);
    setOptions(options);
}

void QmlDistributedLock::attemptFinished()
{
    m_attempting = false;
    const bool cancelledHere = std::exchange(m_cancelling, false);
    const QFuture<LockResult> future = m_attempt.future();
    const LockResult result = future.resultCount() > 0 ? future.result() : cancelledResult(m_name);

    if (result.isAcquired()) {
        m_retryDelay = FirstRetryDelay;
        // Between the acquisition and this call it may have been lost, or released.
        const bool stillHeld = holdCount() > 0 && fencingToken() == result.fencingToken;
        if (stillHeld && m_active && !m_changed)
            m_activeLevel = true;
        else if (stillHeld && !m_active)
            DistributedLock::release();
    } else if (result.error == CancelledError) {
        if (m_active && !cancelledHere)
            setActive(false);
    } else if (m_active && result.error != TimeoutError) {
        retryLater(result);
    }
    scheduleUpdate();
}

void QmlDistributedLock::retryLater(const LockResult &failure)
{
    if (failure.error == NameError || failure.error == OptionsError) {
        m_stuck = true;
        return;
    }
    // Between half and the whole of the delay, so that many clients do not come back together.
    const auto delay = m_retryDelay / 2
            + std::chrono::milliseconds(QRandomGenerator::global()->bounded(
                    qint64(m_retryDelay.count() / 2 + 1)));
    m_retryTimer.start(delay);
    m_retryDelay = (std::min)(m_retryDelay * 2, LongestRetryDelay);
    qCInfo(lcQml, "%ls; next attempt in %lld ms", qUtf16Printable(failure.errorString),
           qlonglong(delay.count()));
}

void QmlDistributedLock::onReleased()
{
    // Not by `active: false`, nor for a change: somebody called release() of the base class.
    if (std::exchange(m_activeLevel, false) && m_active)
        setActive(false);
    scheduleUpdate();
}

} // namespace QDistLock
