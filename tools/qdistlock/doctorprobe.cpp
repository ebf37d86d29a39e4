// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "doctorprobe.h"

#include "lockview.h"

#include <QtCore/qrandom.h>
#include <QtCore/qtimer.h>

#include <memory>

using namespace Qt::StringLiterals;

using QtRedis::CommandResult;
using QtRedis::Connection;
using QtRedis::Reply;

namespace Cli {

DoctorProbe::DoctorProbe(const QtRedis::ServerUrl &server, std::chrono::milliseconds timeout)
    : m_timeout(timeout)
    , m_connection(server)
{
    m_connection.setConnectTimeout(timeout);
    m_connection.setClientName("doctor-" + QByteArray::number(QRandomGenerator::system()->generate64(), 16));
}

bool DoctorProbe::waitFor(const std::function<bool()> &isDone, const std::function<void(QEventLoop *)> &connectDone)
{
    QEventLoop loop;
    connectDone(&loop);
    QTimer timer;
    timer.setSingleShot(true);
    connect(&timer, &QTimer::timeout, &loop, &QEventLoop::quit);
    timer.start(m_timeout);
    while (m_interruption == 0 && !isDone() && timer.isActive())
        m_interruption = loop.exec();
    return m_interruption == 0 && isDone();
}

bool DoctorProbe::connectToServer()
{
    bool hasFailed = false;
    const auto failed = connect(&m_connection, &Connection::failed, this, [&hasFailed] { hasFailed = true; });
    m_connection.open();
    waitFor([&] { return hasFailed || m_connection.state() == Connection::Ready; },
            [this](QEventLoop *loop) {
                connect(&m_connection, &Connection::stateChanged, loop, &QEventLoop::quit);
                connect(&m_connection, &Connection::failed, loop, &QEventLoop::quit);
            });
    disconnect(failed);
    return m_connection.state() == Connection::Ready;
}

QString DoctorProbe::errorString() const
{
    const QString text = m_connection.errorString();
    return text.isEmpty() ? u"%1: no answer within %2"_s.arg(server().toDisplayString(), roughText(m_timeout)) : text;
}

std::optional<Reply> DoctorProbe::ask(const QList<QByteArray> &command)
{
    const auto result = std::make_shared<std::optional<CommandResult>>();
    QEventLoop *waiting = nullptr;
    const auto alive = std::make_shared<bool>(true);
    m_connection.send(command, m_timeout, [result, alive, &waiting](const CommandResult &end) {
        *result = end;
        if (*alive && waiting)
            waiting->quit();
    });
    waitFor([&result] { return result->has_value(); }, [&waiting](QEventLoop *loop) { waiting = loop; });
    *alive = false;
    if (!result->has_value() || (*result)->outcome != CommandResult::Replied)
        return std::nullopt;
    return (*result)->reply;
}

std::optional<Reply> DoctorProbe::askIfAllowed(const QList<QByteArray> &command)
{
    auto reply = ask(command);
    return reply && !reply->isError() ? reply : std::nullopt;
}

} // namespace Cli
