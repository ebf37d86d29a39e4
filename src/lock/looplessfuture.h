// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qobject.h>
#include <QtCore/qstring.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>

namespace QDistLock {

/// Who ends a future: the event loop of its thread, or another thread because that loop does not run. Thread-safe.
class FutureEnd
{
public:
    /// True for the first caller, who must then end the future.
    bool take() { return !m_isTaken.exchange(true); }
    bool isTaken() const { return m_isTaken.load(); }

private:
    std::atomic<bool> m_isTaken{false};
};

/*!
    Call this if nothing but the event loop of the calling thread can end a future. It does nothing while a loop runs in
    this thread. Otherwise the application may start one later, which nobody can know yet. If none has processed the
    events of \a object a second later, that is logged, and if none has when also \a wait has passed, \a end is called
    with the reason, after FutureEnd::take(). \a subject is who was called, for these texts, and
    \a lock the name of the lock if it is one, for the log.

    \a end is called in a thread of this file's own, which exists only while there is something to do: the calling
    thread may be blocked, and so may the main thread, which may wait for it.
*/
void endWithoutEventLoop(QObject *object, const QString &subject, const QString &lock, std::chrono::milliseconds wait,
                         const std::shared_ptr<FutureEnd> &state, std::function<void(const QString &reason)> end);

} // namespace QDistLock
