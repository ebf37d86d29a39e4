// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "doctor/connection.h"

#include "lockview.h"

#include <QtCore/qrandom.h>
#include <QtCore/qtimer.h>

#include <memory>

using namespace Qt::StringLiterals;

using QtRedis::CommandResult;
using QtRedis::Connection;
using QtRedis::Reply;

namespace Cli {

DoctorConnection::DoctorConnection(const QtRedis::ServerUrl &server, std::chrono::milliseconds timeout)
    : m_timeout(timeout)
    , m_connection(server)
{
    m_connection.setConnectTimeout(timeout);
    m_connection.setClientName("doctor-" + QByteArray::number(QRandomGenerator::system()->generate64(), 16));
}

bool DoctorConnection::waitFor(const std::function<bool()> &isDone)
{
    QTimer timer;
    timer.setSingleShot(true);
    connect(&timer, &QTimer::timeout, this, &DoctorConnection::wake);
    timer.start(m_timeout);
    while (m_interruption == 0 && !isDone() && timer.isActive())
        m_interruption = m_loop.exec();
    return m_interruption == 0 && isDone();
}

bool DoctorConnection::connectToServer()
{
    bool hasFailed = false;
    const QObject attempt;
    connect(&m_connection, &Connection::stateChanged, &attempt, [this] { wake(); });
    connect(&m_connection, &Connection::failed, &attempt, [this, &hasFailed] {
        hasFailed = true;
        wake();
    });
    m_connection.open();
    waitFor([&] { return hasFailed || m_connection.state() == Connection::Ready; });
    return m_connection.state() == Connection::Ready;
}

QString DoctorConnection::errorString() const
{
    const QString text = m_connection.errorString();
    return text.isEmpty() ? u"%1: no answer within %2"_s.arg(server().toDisplayString(), roughText(m_timeout)) : text;
}

std::optional<Reply> DoctorConnection::ask(const QList<QByteArray> &command)
{
    const auto result = std::make_shared<std::optional<CommandResult>>();
    m_connection.send(command, m_timeout, [this, result](const CommandResult &end) {
        *result = end;
        wake();
    });
    waitFor([&result] { return result->has_value(); });
    if (!result->has_value() || (*result)->outcome != CommandResult::Replied)
        return std::nullopt;
    return (*result)->reply;
}

std::optional<Reply> DoctorConnection::askIfAllowed(const QList<QByteArray> &command)
{
    auto reply = ask(command);
    return reply && !reply->isError() ? reply : std::nullopt;
}

QByteArray DoctorConnection::setting(const QByteArray &name)
{
    const auto reply = askIfAllowed({"CONFIG", "GET", name});
    return reply && reply->elements.size() == 2 ? reply->elements.at(1).text : QByteArray();
}

} // namespace Cli
