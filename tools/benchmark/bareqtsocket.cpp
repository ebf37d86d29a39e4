// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "bareqtsocket.h"

#include "contender.h"

#include <QtNetwork/qlocalsocket.h>
#include <QtNetwork/qnetworkproxy.h>
#include <QtNetwork/qtcpsocket.h>

using namespace Qt::StringLiterals;

namespace Bench {

BareQtSocket::BareQtSocket(const QUrl &server)
    : m_reader(redisReaderCreate())
{
    bool connected = false;
    if (server.scheme() == QLatin1String("unix")) {
        auto socket = std::make_unique<QLocalSocket>();
        socket->connectToServer(server.path());
        connected = socket->waitForConnected();
        m_socket = std::move(socket);
    } else {
        auto socket = std::make_unique<QTcpSocket>();
        socket->setProxy(QNetworkProxy::NoProxy);
        socket->connectToHost(server.host(), static_cast<quint16>(server.port(6379)));
        connected = socket->waitForConnected();
        socket->setSocketOption(QAbstractSocket::LowDelayOption, 1);
        m_socket = std::move(socket);
    }
    if (!connected)
        fail(u"Qt socket: "_s + m_socket->errorString());
    QObject::connect(m_socket.get(), &QIODevice::readyRead, m_socket.get(), [this] { read(); });
}

void BareQtSocket::send(std::initializer_list<QByteArray> arguments)
{
    const char *data[8];
    size_t sizes[8];
    int count = 0;
    for (const QByteArray &argument : arguments) {
        data[count] = argument.constData();
        sizes[count++] = static_cast<size_t>(argument.size());
    }
    char *command = nullptr;
    const int size = static_cast<int>(redisFormatCommandArgv(&command, count, data, sizes));
    m_socket->write(command, size);
    redisFreeCommand(command);
}

void BareQtSocket::read()
{
    char buffer[16 * 1024];
    for (;;) {
        const qint64 size = m_socket->read(buffer, sizeof buffer);
        if (size <= 0)
            break;
        redisReaderFeed(m_reader.get(), buffer, static_cast<size_t>(size));
    }
    for (;;) {
        void *object = nullptr;
        if (redisReaderGetReply(m_reader.get(), &object) != REDIS_OK)
            fail(u"Qt socket: "_s + QString::fromLocal8Bit(m_reader->errstr));
        if (!object)
            break;
        received(ReplyPointer(static_cast<redisReply *>(object)));
    }
}

} // namespace Bench
