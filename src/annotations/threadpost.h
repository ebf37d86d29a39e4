// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qmutex.h>
#include <QtCore/qobject.h>
#include <QtCore/qpointer.h>

#include <functional>
#include <memory>

namespace QDistLock {

/// Calls \a function in the thread of \a object. If that thread ends first, calls \a ended in it; if it has ended
/// already, calls \a ended at once. Calls neither after \a object was destroyed. Thread: any.
/// \a movesFrom: an object of the calling thread, from which \a object is being moved to another one
/// (QEvent::ThreadChange). That one is known only after the move, hence watched from the event loop of \a movesFrom.
void postTo(QObject *object, const std::function<void()> &function, const std::function<void()> &ended,
            QObject *movesFrom = nullptr);

/// Counts the posts on their way to an object, and reports those that do not arrive because its thread ends.
class PostTally : public std::enable_shared_from_this<PostTally>
{
public:
    /// \a lost is called for each post that does not arrive.
    PostTally(QObject *object, const std::function<void()> &lost);
    ~PostTally();

    /// Watches the thread in which the object lives now, and reports what was lost if that has ended. The object must
    /// not be destroyed meanwhile.
    void watch();
    /// The same once the object has been moved, from the event loop of \a here.
    void watchAfterMove(QObject *here);
    /// Called before a post, in any thread; false if that is lost.
    bool made();
    /// Called in the thread of the object; false if this post was reported as lost.
    bool arrived();

private:
    Q_DISABLE_COPY_MOVE(PostTally)
    void setThread(QThread *thread);

    const QPointer<QObject> m_object;
    const std::function<void()> m_lost;
    QMutex m_mutex;              ///< guards the following members
    QThread *m_thread = nullptr; ///< where the object was last seen
    QMetaObject::Connection m_threadEnd;
    QMetaObject::Connection m_destroyed;
    bool m_ended = false;
    qint64 m_underWay = 0; ///< posts that have not arrived
    qint64 m_reported = 0; ///< posts that were reported as lost; their events may still be delivered
};

} // namespace QDistLock
