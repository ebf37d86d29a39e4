// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "annotations/threadpost.h"

#include <QtCore/qthread.h>

#include <utility>

namespace QDistLock {

void postTo(QObject *object, const std::function<void()> &function, const std::function<void()> &ended,
            QObject *movesFrom)
{
    const auto tally = std::make_shared<PostTally>(object, ended);
    if (movesFrom)
        tally->watchAfterMove(movesFrom);
    else
        tally->watch();
    if (!tally->made())
        return;
    QMetaObject::invokeMethod(
            object,
            [tally, function] {
                if (tally->arrived())
                    function();
            },
            Qt::QueuedConnection); // such an event moves with the object
}

PostTally::PostTally(QObject *object, const std::function<void()> &lost)
    : m_object(object)
    , m_lost(lost)
{
}

PostTally::~PostTally()
{
    QObject::disconnect(m_threadEnd);
    QObject::disconnect(m_destroyed);
}

void PostTally::watch()
{
    QMutexLocker locker(&m_mutex);
    if (m_object)
        setThread(m_object->thread());
    qint64 lost = m_ended ? std::exchange(m_underWay, 0) : 0;
    m_reported += lost;
    locker.unlock();
    for (; lost > 0; --lost)
        m_lost(); // at once, since the thread has no event loop that could do it later
}

void PostTally::watchAfterMove(QObject *here)
{
    // ~QObject() waits here until watch() no longer uses the object.
    m_destroyed = QObject::connect(m_object, &QObject::destroyed, [weak = weak_from_this()] {
        if (const auto tally = weak.lock())
            const QMutexLocker locker(&tally->m_mutex);
    });
    QMetaObject::invokeMethod(
            here, [tally = shared_from_this()] { tally->watch(); }, Qt::QueuedConnection);
}

void PostTally::setThread(QThread *thread)
{
    if (thread != m_thread) {
        QObject::disconnect(m_threadEnd);
        m_thread = thread;
        // Called directly if the object lives in the thread that ends; in the object's thread if it was moved.
        if (thread && m_object) {
            m_threadEnd = QObject::connect(thread, &QThread::finished, m_object, [weak = weak_from_this()] {
                if (const auto tally = weak.lock())
                    tally->watch();
            });
        }
    }
    m_ended = thread && thread->isFinished(); // after the connection, so that no end is missed
}

bool PostTally::made()
{
    {
        const QMutexLocker locker(&m_mutex);
        if (!m_ended || m_thread == QThread::currentThread()) {
            ++m_underWay;
            return true;
        }
        ++m_reported;
    }
    m_lost();
    return false;
}

bool PostTally::arrived()
{
    const QMutexLocker locker(&m_mutex);
    setThread(QThread::currentThread()); // the object may have been moved, or its thread restarted
    qint64 &count = m_reported > 0 ? m_reported : m_underWay;
    --count;
    return &count == &m_underWay;
}

} // namespace QDistLock
