// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "jspromisefactory.h"

#include <QDistLock/lockresult.h>

#include <QtCore/qfuturewatcher.h>
#include <QtCore/qpointer.h>
#include <QtCore/qtimer.h>
#include <QtQml/qjsvalue.h>

#include <chrono>
#include <vector>

namespace QDistLock {

class LockRegistry;

/*!
    What the QML elements of locks have in common: `active`, `server`, methods that return promises, and that nothing
    starts before the component is complete.

    Element is the QML element that owns this object. It names the class it inherits as Element::Lock, and has:
    - activeChanged() and serverChanged(), signals of its properties;
    - applyName(), which gives the lock the requested name;
    - subject(), what the text of an error begins with;
    - presentToken(), the fencing token that a LockResult of the present hold has;
    - yields(): another element goes first, so that `active` holds nothing for now;
    - mustWait(): another element must release its lock before `active` can acquire anything.
    When one of the last two changes, the element calls scheduleUpdate().
*/
template<typename Element>
class LockKeeper
{
public:
    explicit LockKeeper(Element *element);
    ~LockKeeper();

    bool isActive() const { return m_active; }
    void setActive(bool active);
    QString server() const { return m_server; }
    void setServer(const QString &server);
    /// The caller emits serverChanged().
    void requestServer(const QString &server);
    LockRegistry *requestedRegistry() const;

    void classBegin() { m_complete = false; }
    void componentComplete();

    QJSValue acquire() { return acquirePromise(false); }
    QJSValue tryAcquire() { return acquirePromise(true); }
    QJSValue release();
    void cancel();

    /// The requested name, server or options must be applied before the next acquire.
    void requestChange();
    /// An option has a new value. If \a needsChange and `active`, the lock is released and acquired again.
    void optionChanged(bool needsChange);
    bool isAttemptingOrHeld() const;
    /// Calls update() later, so that all properties that are set in one turn of the event loop are applied together.
    void scheduleUpdate();

private:
    using Watcher = QFutureWatcher<LockResult>;
    struct DeferredCall
    {
        QPointer<Watcher> watcher;
        bool tryOnly;
    };

    /// The functions of C++, where the element has others of the same names.
    auto *lock() const
    {
        typename Element::Lock *const lock = m_element;
        return lock;
    }
    QJSValue acquirePromise(bool tryOnly);
    void start(const DeferredCall &call);
    void cancelDeferredCalls();
    LockResult cancelledResult() const;

    void update();
    void applyChange();
    bool hasActiveLevel() const;
    void releaseActiveLevel();
    void releaseAll();
    void cancelUnwantedAttempt();
    void startAttempt();
    void takeLevel();
    void attemptFinished();
    void retryLater(const LockResult &failure);
    void onLost();
    void onReleased();

    Element *const m_element;
    QString m_server;
    JsPromiseFactory m_promises;
    /// acquire() and tryAcquire() before the component is complete, or before a new name or server is in use.
    std::vector<DeferredCall> m_deferredCalls;
    QFutureWatcher<LockResult> m_attempt; ///< the acquire that `active` started
    QTimer m_retryTimer;
    std::chrono::milliseconds m_retryDelay;
    /// holdNumber() of the hold in which `active` has one level, 0 if it has none; see hasActiveLevel().
    quint64 m_activeHold = 0;
    int m_pendingCalls = 0; ///< acquires in progress that QML code started
    bool m_active = false;
    bool m_attempting = false; ///< attemptFinished() has not been called yet for m_attempt
    bool m_levelTaken = false; ///< takeLevel() has given the level of m_attempt to `active` already
    bool m_cancelling = false; ///< this class has cancelled m_attempt
    bool m_stuck = false;      ///< retrying is useless until a property changes
    bool m_changed = true;     ///< the requested name, server or options are not in use yet
    bool m_complete = true;
    bool m_updateScheduled = false;
};

} // namespace QDistLock
