// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "qmldistributedlock.h"

#include <QDistLock/lockregistry.h>

#include <QtCore/qloggingcategory.h>
#include <QtCore/qpointer.h>
#include <QtCore/qpromise.h>
#include <QtCore/qrandom.h>
#include <QtQml/qqml.h>

#include <algorithm>
#include <memory>
#include <utility>

using namespace Qt::StringLiterals;

namespace QDistLock {

Q_LOGGING_CATEGORY(lcQml, "qdistlock.qml", QtWarningMsg)

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds FirstRetryDelay = 1s;
constexpr std::chrono::milliseconds LongestRetryDelay = 60s;

static LockResult cancelledResult(const QString &name)
{
    LockResult result;
    result.error = DistributedLock::CancelledError;
    result.errorString = u"Lock %1: cancelled"_s.arg(Detail::quoted(name));
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
    connect(this, &DistributedLock::lost, this, &QmlDistributedLock::onLost);
    connect(this, &DistributedLock::leaseChanged, this, [this] { optionChanged(isAttemptingOrHeld()); });
    connect(this, &DistributedLock::modeChanged, this, [this] { optionChanged(isAttemptingOrHeld()); });
    connect(this, &DistributedLock::fairChanged, this, [this] { optionChanged(state() == Acquiring); });
    connect(this, &DistributedLock::retryIntervalChanged, this, [this] { optionChanged(state() == Acquiring); });
}

QmlDistributedLock::~QmlDistributedLock()
{
    cancelDeferredCalls();
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
    requestChange();
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
    requestChange();
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
    const QPointer<QmlDistributedLock> alive(this);
    if (active) {
        scheduleUpdate();
    } else if (hasActiveLevel()) {
        m_activeHold = 0;
        DistributedLock::release();
    } else {
        cancelUnwantedAttempt();
    }
    if (alive)
        Q_EMIT activeChanged();
}

void QmlDistributedLock::classBegin()
{
    m_complete = false;
}

void QmlDistributedLock::componentComplete()
{
    m_complete = true;
    const QPointer<QmlDistributedLock> alive(this);
    applyChange();
    if (alive)
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
                value.setProperty(u"acquired"_s, result.isAcquired());
                value.setProperty(u"error"_s, int(result.error));
                value.setProperty(u"errorString"_s, result.errorString);
                value.setProperty(u"fencingToken"_s, double(result.fencingToken));
                JsPromiseFactory::resolve(deferred, value);
            });

    const DeferredCall call{watcher, tryOnly};
    if (m_complete && !m_changed) {
        start(call);
    } else {
        m_deferredCalls.push_back(call);
        scheduleUpdate();
    }
    return promised;
}

void QmlDistributedLock::start(const DeferredCall &call)
{
    if (!call.watcher)
        return;
    ++m_pendingCalls;
    // The watcher is destroyed when its promise is settled, or with its engine.
    connect(call.watcher, &QObject::destroyed, this, [this] {
        --m_pendingCalls;
        scheduleUpdate();
    });
    const QFuture<LockResult> future = call.tryOnly ? tryAcquireAsync() : acquireAsync();
    if (call.watcher)
        call.watcher->setFuture(future);
}

void QmlDistributedLock::cancelDeferredCalls()
{
    const std::vector<DeferredCall> calls = std::exchange(m_deferredCalls, {});
    for (const DeferredCall &call : calls) {
        if (call.watcher)
            call.watcher->setFuture(finishedFuture(cancelledResult(m_name)));
    }
}

QJSValue QmlDistributedLock::release()
{
    QFutureWatcher<bool> *watcher = nullptr;
    const QJSValue promised = m_promises.make(
            this, &watcher, [](QJSEngine *, const QJSValue &deferred, const QFuture<bool> &released) {
                JsPromiseFactory::resolve(deferred, released.resultCount() > 0 && released.result());
            });

    takeLevel();
    cancelDeferredCalls();
    const bool endsActive = m_active && (hasActiveLevel() ? holdCount() <= 1 : !m_changed);
    const QPointer<QmlDistributedLock> alive(this);
    const QPointer<QFutureWatcher<bool>> waiting(watcher);
    const QFuture<bool> released = releaseAsync();
    if (waiting)
        waiting->setFuture(released);
    if (alive && endsActive) {
        m_activeHold = 0;
        m_cancelling = m_attempting;
        setActive(false);
    }
    return promised;
}

QJSValue QmlDistributedLock::forceRelease()
{
    using Reply = LockReply<LockRegistry::Outcome>;
    const QFuture<Reply> requested = requestedRegistry()->forceRelease(m_name);
    QFutureWatcher<Reply> *watcher = nullptr;
    const QJSValue promised = m_promises.make(
            this, &watcher, [](QJSEngine *engine, const QJSValue &deferred, const QFuture<Reply> &future) {
                const Reply reply = future.result();
                if (reply)
                    JsPromiseFactory::resolve(deferred, reply.value == LockRegistry::Done);
                else
                    JsPromiseFactory::reject(engine, deferred, reply.errorString, reply.error);
            });
    watcher->setFuture(requested);
    return promised;
}

void QmlDistributedLock::cancel()
{
    takeLevel();
    cancelDeferredCalls();
    const QPointer<QmlDistributedLock> alive(this);
    m_cancelling = m_attempting;
    DistributedLock::cancel();
    if (alive && m_active && !hasActiveLevel())
        setActive(false);
}

LockRegistry *QmlDistributedLock::requestedRegistry() const
{
    return m_server.isEmpty() ? LockRegistry::instance() : LockRegistry::instance(QUrl(m_server, QUrl::StrictMode));
}

/// The requested name, server or options must be applied before the next acquire.
void QmlDistributedLock::requestChange()
{
    m_changed = true;
    m_stuck = false;
    m_retryTimer.stop();
    m_retryDelay = FirstRetryDelay;
    scheduleUpdate();
}

void QmlDistributedLock::optionChanged(bool needsChange)
{
    if (m_active && needsChange) {
        requestChange();
    } else if (m_stuck) {
        m_stuck = false;
        scheduleUpdate();
    }
}

/// Calls update() later, so that all properties that are set in one turn of the event loop are applied together.
void QmlDistributedLock::scheduleUpdate()
{
    if (m_updateScheduled || !m_complete)
        return;
    m_updateScheduled = true;
    QMetaObject::invokeMethod(this, &QmlDistributedLock::update, Qt::QueuedConnection);
}

/// Takes the next step from the current state towards the requested one. Called after every change of either.
void QmlDistributedLock::update()
{
    const QPointer<QmlDistributedLock> alive(this);
    m_updateScheduled = false;
    if (m_changed) {
        if (state() != Unlocked) {
            releaseAll();
            return;
        }
        // Cancelled acquires must be reported under the old name.
        if (m_attempting || m_pendingCalls > 0)
            return;
        applyChange();
        if (!alive)
            return;
    }
    while (!m_deferredCalls.empty() && !m_changed) {
        const DeferredCall call = m_deferredCalls.front();
        m_deferredCalls.erase(m_deferredCalls.begin());
        start(call);
        if (!alive)
            return;
    }
    if (!m_active)
        cancelUnwantedAttempt();
    else if (m_activeHold == 0 && !m_attempting && !m_stuck && !m_retryTimer.isActive() && state() != Releasing)
        startAttempt();
}

void QmlDistributedLock::applyChange()
{
    m_changed = false;
    const QPointer<QmlDistributedLock> alive(this);
    if (DistributedLock::name() != m_name)
        DistributedLock::setName(m_name);
    if (alive)
        setRegistry(requestedRegistry());
}

/// Compares with the current hold, because QML handlers run before the slots of this class: they may see
/// the end of the hold, and even acquire the next one, before onLost() or onReleased() is called.
bool QmlDistributedLock::hasActiveLevel() const
{
    return m_activeHold != 0 && holdNumber() == m_activeHold;
}

/// Releases every level and cancels every acquire under the old name; stateChanged() then schedules update().
void QmlDistributedLock::releaseAll()
{
    m_activeHold = 0;
    m_cancelling = m_attempting;
    const QPointer<QmlDistributedLock> alive(this);
    DistributedLock::cancel();
    for (int level = alive ? holdCount() : 0; alive && level > 0; --level)
        DistributedLock::release();
}

/// Does nothing while other acquires are pending, because cancel() would end them, too; update() calls this again when
/// they have ended.
void QmlDistributedLock::cancelUnwantedAttempt()
{
    if (!m_attempting || m_cancelling || m_pendingCalls > 0)
        return;
    m_cancelling = true;
    DistributedLock::cancel();
}

void QmlDistributedLock::startAttempt()
{
    m_attempting = true;
    m_levelTaken = false;
    m_cancelling = false;
    // If an acquire is in progress, this one joins it, and `maxRetries` of the other may end both: update() then starts
    // a new one.
    const LockOptions unlimited =
            options().withWait(LockOptions::Forever).withMaxRetries(LockOptions::UnlimitedRetries);
    const QPointer<QmlDistributedLock> alive(this);
    const QFuture<LockResult> future = acquireAsync(unlimited);
    if (alive)
        m_attempt.setFuture(future);
}

/// Called by methods that a handler of onAcquired may use: the attempt has succeeded, but attemptFinished() has not
/// been called yet.
void QmlDistributedLock::takeLevel()
{
    if (m_attempting && !m_cancelling && m_active && !hasActiveLevel() && !m_changed && isHeld()) {
        m_activeHold = holdNumber();
        m_levelTaken = true;
    }
}

void QmlDistributedLock::attemptFinished()
{
    m_attempting = false;
    const bool cancelledHere = std::exchange(m_cancelling, false);
    const QFuture<LockResult> future = m_attempt.future();
    const LockResult result = future.resultCount() > 0 ? future.result() : cancelledResult(m_name);

    const QPointer<QmlDistributedLock> alive(this);
    if (result.isAcquired()) {
        m_retryDelay = FirstRetryDelay;
        // The lock may have been lost or released since it was acquired.
        const bool stillHeld = !m_levelTaken && holdCount() > 0 && fencingToken() == result.fencingToken;
        if (stillHeld && m_active && !m_changed)
            m_activeHold = holdNumber();
        else if (stillHeld && !m_active)
            DistributedLock::release();
    } else if (result.error == CancelledError) {
        if (m_active && !cancelledHere)
            setActive(false);
    } else if (m_active && !m_changed && result.error != TimeoutError) {
        retryLater(result); // but not for a name or server that was replaced meanwhile
    }
    if (alive)
        scheduleUpdate();
}

void QmlDistributedLock::retryLater(const LockResult &failure)
{
    if (failure.error == NameError || failure.error == OptionsError) {
        m_stuck = true;
        qCWarning(lcQml, "%ls; \"active\" does not retry until a property changes",
                  qUtf16Printable(failure.errorString));
        return;
    }
    // Random, between half and all of the delay, so that many clients do not reconnect at the same time.
    const auto delay = m_retryDelay / 2
            + std::chrono::milliseconds(QRandomGenerator::global()->bounded(qint64(m_retryDelay.count() / 2 + 1)));
    m_retryTimer.start(delay);
    m_retryDelay = (std::min)(m_retryDelay * 2, LongestRetryDelay);
    qCInfo(lcQml, "%ls; next attempt in %lld ms", qUtf16Printable(failure.errorString), qlonglong(delay.count()));
}

void QmlDistributedLock::onLost()
{
    if (!hasActiveLevel())
        m_activeHold = 0;
    scheduleUpdate();
}

void QmlDistributedLock::onReleased()
{
    const QPointer<QmlDistributedLock> alive(this);
    const bool ended = m_activeHold != 0 && !hasActiveLevel();
    if (ended)
        m_activeHold = 0;
    // Neither `active: false` nor a change ended this hold: the application called release() of the base class.
    if (ended && m_active)
        setActive(false);
    if (alive)
        scheduleUpdate();
}

} // namespace QDistLock
