// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "engine/engineerror.h"

#include <QtCore/qbytearray.h>
#include <QtCore/qobject.h>
#include <QtCore/qtimer.h>

namespace QtRedis {
class Subscriber;
}

namespace QDistLock {

/*!
    The channel of the messages of LockEngine::sendMessage() to this client. No message about a lock is believed there,
    so a user may be allowed to publish on such channels, and to change no lock.

    Thread: that of the subscriber.
*/
class MonitorChannel : public QObject
{
    Q_OBJECT
public:
    /// Listens a moment after \a subscriber listens to the other channel of this client: a program that ends before
    /// that, such as the command line, is spared the command. \a subscriber is not owned.
    MonitorChannel(QtRedis::Subscriber *subscriber, const QByteArray &clientId);

    /// That of any client.
    static QByteArray nameOf(const QByteArray &clientId);
    const QByteArray &name() const { return m_name; }
    /// Listens now.
    void listen();
    /// Why no message arrives, although others send them.
    const EngineError &error() const { return m_error; }

Q_SIGNALS:
    void messageReceived(const QByteArray &message);

private:
    QtRedis::Subscriber *const m_subscriber;
    const QByteArray m_name;
    EngineError m_error;
    QTimer m_timer;
};

} // namespace QDistLock
