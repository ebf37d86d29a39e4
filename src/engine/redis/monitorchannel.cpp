// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/redis/monitorchannel.h"

#include "engine/protocolconstants.h"

#include "redis/subscriber.h"

#include <chrono>

namespace QDistLock {

MonitorChannel::MonitorChannel(QtRedis::Subscriber *subscriber, const QByteArray &clientId)
    : m_subscriber(subscriber)
    , m_name(nameOf(clientId))
{
    m_timer.setSingleShot(true);
    m_timer.setInterval(std::chrono::seconds(1));
    connect(&m_timer, &QTimer::timeout, this, &MonitorChannel::listen);
    connect(subscriber, &QtRedis::Subscriber::subscribed, this,
            [this, client = Protocol::Channels + clientId](const QByteArray &channel) {
                if (channel == m_name)
                    m_error = {};
                else if (channel == client)
                    m_timer.start();
            });
    // Otherwise the timer would make a connection again that nobody needs.
    connect(subscriber, &QtRedis::Subscriber::interrupted, &m_timer, &QTimer::stop);
    connect(subscriber, &QtRedis::Subscriber::refused, this,
            [this](const QByteArray &channel, const QString &errorString) {
                if (channel == m_name)
                    m_error = EngineError::permanent(DistributedLock::PermissionError, errorString);
            });
    connect(subscriber, &QtRedis::Subscriber::messageReceived, this,
            [this](const QByteArray &channel, const QByteArray &message) {
                if (channel == m_name)
                    Q_EMIT messageReceived(message);
            });
}

QByteArray MonitorChannel::nameOf(const QByteArray &clientId)
{
    return Protocol::Channels + clientId + ":monitor";
}

void MonitorChannel::listen()
{
    m_subscriber->subscribe(m_name);
}

} // namespace QDistLock
