// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qcoreapplication.h>
#include <QtCore/qcoreevent.h>
#include <QtCore/qmutex.h>
#include <QtCore/qobject.h>

#include <utility>
#include <vector>

namespace QDistLock {

/*!
    Carries messages from any thread to the thread of one object. It is open while that object can take messages, and
    may outlive it. Thread-safe.
*/
template<typename Message>
class Mailbox
{
public:
    Mailbox() = default;

    /// A QEvent::User is posted to \a owner, once for all messages that takeAll() then returns.
    void open(QObject *owner)
    {
        const QMutexLocker locker(&m_mutex);
        m_owner = owner;
    }
    /// Called in the owner's thread, before the owner is destroyed. Returns the messages that were not taken.
    std::vector<Message> close()
    {
        const QMutexLocker locker(&m_mutex);
        m_owner = nullptr;
        return std::exchange(m_messages, {});
    }
    bool isOpen() const
    {
        const QMutexLocker locker(&m_mutex);
        return m_owner != nullptr;
    }
    /// Drops \a message if the mailbox is closed.
    void post(Message message)
    {
        const QMutexLocker locker(&m_mutex);
        if (!m_owner)
            return;
        m_messages.push_back(std::move(message));
        if (m_messages.size() == 1)
            QCoreApplication::postEvent(m_owner, new QEvent(QEvent::User));
    }
    std::vector<Message> takeAll()
    {
        const QMutexLocker locker(&m_mutex);
        return std::exchange(m_messages, {});
    }

private:
    Q_DISABLE_COPY_MOVE(Mailbox)

    mutable QMutex m_mutex; ///< guards the following members
    QObject *m_owner = nullptr;
    std::vector<Message> m_messages;
};

} // namespace QDistLock
