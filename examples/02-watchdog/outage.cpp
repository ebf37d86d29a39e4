// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "outage.h"

#include <QtCore/QCoreApplication>
#include <QtNetwork/QLocalSocket>
#include <QtNetwork/QTcpSocket>

using namespace Qt::StringLiterals;

/// In the Redis protocol, a command is an array of strings.
static QByteArray encode(const QList<QByteArray> &arguments)
{
    QByteArray command = '*' + QByteArray::number(arguments.size()) + "\r\n";
    for (const QByteArray &argument : arguments)
        command += '$' + QByteArray::number(argument.size()) + "\r\n" + argument + "\r\n";
    return command;
}

void pauseServer(const QUrl &server, std::chrono::milliseconds duration)
{
    QByteArray commands;
    if (!server.password().isEmpty()) {
        const QString user = server.userName().isEmpty() ? u"default"_s : server.userName(QUrl::FullyDecoded);
        commands += encode({"AUTH", user.toUtf8(), server.password(QUrl::FullyDecoded).toUtf8()});
    }
    commands += encode({"CLIENT", "PAUSE", QByteArray::number(qint64(duration.count()))});

    if (server.scheme() == "unix"_L1) {
        auto *const socket = new QLocalSocket(QCoreApplication::instance());
        socket->connectToServer(server.path());
        socket->write(commands);
    } else {
        auto *const socket = new QTcpSocket(QCoreApplication::instance());
        socket->connectToHost(server.host(), quint16(server.port(6379)));
        socket->write(commands); // buffered until the connection is up
    }
}
