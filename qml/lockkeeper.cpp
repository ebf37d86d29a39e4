// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "lockkeeper.h"

#include "qmldistributedlock.h"
#include "qmlmultilock.h"
#include "serverurl.h"

#include <QDistLock/lockregistry.h>

#include <QtCore/qloggingcategory.h>
#include <QtCore/qpromise.h>
#include <QtCore/qrandom.h>
#include <QtCore/qurl.h>

#include <algorithm>
#include <utility>

using namespace Qt::StringLiterals;

namespace QDistLock {

Q_LOGGING_CATEGORY(lcQml, "qdistlock.qml", QtWarningMsg)

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds FirstRetryDelay = 1s;
constexpr std::chrono::milliseconds LongestRetryDelay = 60s;

static QFuture<LockResult> finishedFuture(const LockResult &result)
{
    QPromise<LockResult> promise;
    promise.start();
    promise.addResult(result);
    promise.finish();
    return promise.future();
}

template<typename Element>
LockKeeper<Element>::LockKeeper(Element *element)
    : m_element(element)
    , m_retryDelay(FirstRetryDelay)
{
    m_retryTimer.setSingleShot(true);
    const auto whileAcquiring = [this] { optionChanged(m_element->state() == DistributedLock::Acquiring); };
    const auto whileUsed = [this] { optionChanged(isAttemptingOrHeld()); };
    QObject::connect(&m_retryTimer, &QTimer::timeout, element, [this] { update(); });
    QObject::connect(&m_attempt, &QFutureWatcherBase::finished, element, [this] { attemptFinished(); });
    QObject::connect(element, &Element::stateChanged, element, [this] { scheduleUpdate(); });
    QObject::connect(element, &Element::released, element, [this] { onReleased(); });
    QObject::connect(element, &Element::lost, element, [this] { onLost(); });
    QObject::connect(element, &Element::leaseChanged, element, whileUsed);
    QObject::connect(element, &Element::modeChanged, element, whileUsed);
    QObject::connect(element, &Element::fairChanged, element, whileAcquiring);
    QObject::connect(element, &Element::retryIntervalChanged, element, whileAcquiring);
}

template<typename Element>
LockKeeper<Element>::~LockKeeper()
{
    cancelDeferredCalls();
}

template<typename Element>
void LockKeeper<Element>::setServer(const QString &server)
{
    if (m_server == server)
        return;
    requestServer(server);
    Q_EMIT m_element->serverChanged();
}

template<typename Element>
void LockKeeper<Element>::requestServer(const QString &server)
{
    m_server = server;
    requestChange();
}

template<typename Element>
void LockKeeper<Element>::setActive(bool active)
{
    if (m_active == active)
        return;
    m_active = active;
    m_retryTimer.stop();
    m_retryDelay = FirstRetryDelay;
    m_stuck = false;
    const QPointer<Element> alive(m_element);
    if (active)
        scheduleUpdate();
    else if (hasActiveLevel())
        releaseActiveLevel();
    else
        cancelUnwantedAttempt();
    if (alive)
        Q_EMIT m_element->activeChanged();
}

template<typename Element>
void LockKeeper<Element>::componentComplete()
{
    m_complete = true;
    const QPointer<Element> alive(m_element);
    applyChange();
    if (alive)
        scheduleUpdate();
}

template<typename Element>
LockResult LockKeeper<Element>::cancelledResult() const
{
    LockResult result;
    result.error = DistributedLock::CancelledError;
    result.errorString = u"%1: cancelled"_s.arg(m_element->subject());
    return result;
}

template<typename Element>
QJSValue LockKeeper<Element>::acquirePromise(bool tryOnly)
{
    Watcher *watcher = nullptr;
    const QJSValue promised = m_promises.make(
            m_element, &watcher,
            [cancelled = cancelledResult()](QJSEngine *engine, const QJSValue &deferred,
                                            const QFuture<LockResult> &future) {
                const LockResult result = future.resultCount() > 0 ? future.result() : cancelled;
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

template<typename Element>
void LockKeeper<Element>::start(const DeferredCall &call)
{
    if (!call.watcher)
        return;
    ++m_pendingCalls;
    // The watcher is destroyed when its promise is settled, or with its engine.
    QObject::connect(call.watcher, &QObject::destroyed, m_element, [this] {
        --m_pendingCalls;
        scheduleUpdate();
    });
    const QFuture<LockResult> future = call.tryOnly ? lock()->tryAcquireAsync() : lock()->acquireAsync();
    if (call.watcher)
        call.watcher->setFuture(future);
}

template<typename Element>
void LockKeeper<Element>::cancelDeferredCalls()
{
    const std::vector<DeferredCall> calls = std::exchange(m_deferredCalls, {});
    for (const DeferredCall &call : calls) {
        if (call.watcher)
            call.watcher->setFuture(finishedFuture(cancelledResult()));
    }
}

template<typename Element>
QJSValue LockKeeper<Element>::release()
{
    QFutureWatcher<bool> *watcher = nullptr;
    const QJSValue promised = m_promises.make(
            m_element, &watcher, [](QJSEngine *, const QJSValue &deferred, const QFuture<bool> &released) {
                JsPromiseFactory::resolve(deferred, released.resultCount() > 0 && released.result());
            });

    takeLevel();
    cancelDeferredCalls();
    const bool endsActive = m_active && (hasActiveLevel() ? m_element->holdCount() <= 1 : !m_changed);
    const QPointer<Element> alive(m_element);
    const QPointer<QFutureWatcher<bool>> waiting(watcher);
    const QFuture<bool> released = lock()->releaseAsync();
    if (waiting)
        waiting->setFuture(released);
    if (alive && endsActive) {
        m_activeHold = 0;
        m_cancelling = m_attempting;
        setActive(false);
    }
    return promised;
}

template<typename Element>
void LockKeeper<Element>::cancel()
{
    takeLevel();
    cancelDeferredCalls();
    const QPointer<Element> alive(m_element);
    m_cancelling = m_attempting;
    lock()->cancel();
    if (alive && m_active && !hasActiveLevel())
        setActive(false);
}

template<typename Element>
LockRegistry *LockKeeper<Element>::requestedRegistry() const
{
    return LockRegistry::instance(serverUrl(m_server));
}

template<typename Element>
void LockKeeper<Element>::requestChange()
{
    m_changed = true;
    m_stuck = false;
    m_retryTimer.stop();
    m_retryDelay = FirstRetryDelay;
    scheduleUpdate();
}

template<typename Element>
void LockKeeper<Element>::optionChanged(bool needsChange)
{
    if (m_active && needsChange) {
        requestChange();
    } else if (m_stuck) {
        m_stuck = false;
        scheduleUpdate();
    }
}

template<typename Element>
bool LockKeeper<Element>::isAttemptingOrHeld() const
{
    return m_attempting || m_element->state() != DistributedLock::Unlocked;
}

template<typename Element>
void LockKeeper<Element>::scheduleUpdate()
{
    if (m_updateScheduled || !m_complete)
        return;
    m_updateScheduled = true;
    QMetaObject::invokeMethod(
            m_element, [this] { update(); }, Qt::QueuedConnection);
}

/// Takes the next step from the current state towards the requested one. Called after every change of either.
template<typename Element>
void LockKeeper<Element>::update()
{
    const QPointer<Element> alive(m_element);
    m_updateScheduled = false;
    if (m_changed) {
        if (m_element->state() != DistributedLock::Unlocked) {
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
    if (!m_active || m_element->yields()) {
        cancelUnwantedAttempt();
        if (alive && hasActiveLevel())
            releaseActiveLevel();
    } else if (m_activeHold == 0 && !m_attempting && !m_stuck && !m_retryTimer.isActive() && !m_element->mustWait()
               && m_element->state() != DistributedLock::Releasing) {
        startAttempt();
    }
}

template<typename Element>
void LockKeeper<Element>::applyChange()
{
    m_changed = false;
    const QPointer<Element> alive(m_element);
    m_element->applyName();
    if (alive)
        m_element->setRegistry(requestedRegistry());
}

/// Compares with the current hold, because QML handlers run before the slots of this class: they may see
/// the end of the hold, and even acquire the next one, before onLost() or onReleased() is called.
template<typename Element>
bool LockKeeper<Element>::hasActiveLevel() const
{
    return m_activeHold != 0 && m_element->holdNumber() == m_activeHold;
}

template<typename Element>
void LockKeeper<Element>::releaseActiveLevel()
{
    m_activeHold = 0;
    lock()->release();
}

/// Releases every level and cancels every acquire under the old name; stateChanged() then schedules update().
template<typename Element>
void LockKeeper<Element>::releaseAll()
{
    m_activeHold = 0;
    m_cancelling = m_attempting;
    const QPointer<Element> alive(m_element);
    lock()->cancel();
    for (int level = alive ? m_element->holdCount() : 0; alive && level > 0; --level)
        lock()->release();
}

/// Does nothing while other acquires are pending, because cancel() would end them, too; update() calls this again when
/// they have ended.
template<typename Element>
void LockKeeper<Element>::cancelUnwantedAttempt()
{
    if (!m_attempting || m_cancelling || m_pendingCalls > 0)
        return;
    m_cancelling = true;
    lock()->cancel();
}

template<typename Element>
void LockKeeper<Element>::startAttempt()
{
    m_attempting = true;
    m_levelTaken = false;
    m_cancelling = false;
    // If an acquire is in progress, this one joins it, and `maxRetries` of the other may end both: update() then starts
    // a new one.
    const LockOptions unlimited =
            m_element->options().withWait(LockOptions::Forever).withMaxRetries(LockOptions::UnlimitedRetries);
    const QPointer<Element> alive(m_element);
    const QFuture<LockResult> future = m_element->acquireAsync(unlimited);
    if (alive)
        m_attempt.setFuture(future);
}

/// Called by methods that a handler of onAcquired may use: the attempt has succeeded, but attemptFinished() has not
/// been called yet.
template<typename Element>
void LockKeeper<Element>::takeLevel()
{
    if (m_attempting && !m_cancelling && m_active && !hasActiveLevel() && !m_changed && m_element->isHeld()) {
        m_activeHold = m_element->holdNumber();
        m_levelTaken = true;
    }
}

template<typename Element>
void LockKeeper<Element>::attemptFinished()
{
    m_attempting = false;
    const bool cancelledHere = std::exchange(m_cancelling, false);
    const QFuture<LockResult> future = m_attempt.future();
    const LockResult result = future.resultCount() > 0 ? future.result() : cancelledResult();

    const QPointer<Element> alive(m_element);
    if (result.isAcquired()) {
        m_retryDelay = FirstRetryDelay;
        // The lock may have been lost or released since it was acquired.
        const bool stillHeld = !m_levelTaken && m_element->holdCount() > 0
                && m_element->presentToken() == result.fencingToken;
        if (stillHeld && m_active && !m_changed)
            m_activeHold = m_element->holdNumber();
        else if (stillHeld && !m_active)
            lock()->release();
    } else if (result.error == DistributedLock::CancelledError) {
        if (m_active && !cancelledHere)
            setActive(false);
    } else if (m_active && !m_changed && result.error != DistributedLock::TimeoutError) {
        retryLater(result); // but not for a name or server that was replaced meanwhile
    }
    if (alive)
        scheduleUpdate();
}

template<typename Element>
void LockKeeper<Element>::retryLater(const LockResult &failure)
{
    if (failure.error == DistributedLock::NameError || failure.error == DistributedLock::OptionsError) {
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

template<typename Element>
void LockKeeper<Element>::onLost()
{
    if (!hasActiveLevel())
        m_activeHold = 0;
    scheduleUpdate();
}

template<typename Element>
void LockKeeper<Element>::onReleased()
{
    const QPointer<Element> alive(m_element);
    const bool ended = m_activeHold != 0 && !hasActiveLevel();
    if (ended)
        m_activeHold = 0;
    // Neither `active: false` nor a change ended this hold: the application called release() of the base class.
    if (ended && m_active)
        setActive(false);
    if (alive)
        scheduleUpdate();
}

template class LockKeeper<QmlDistributedLock>;
template class LockKeeper<QmlMultiLock>;

} // namespace QDistLock
