// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// A service that works under locks, and says at http://127.0.0.1:9464/metrics how long it waits for them: for
// Prometheus, or for curl.

#include <QDistLock/DistributedLock>
#include <QDistLock/LockMetrics>
#include <QDistLock/LockRegistry>
#include <QDistLock/QuitOnSignals>

#include <QtCore/QCoreApplication>
#include <QtCore/QDebug>
#include <QtCore/QTimer>
#include <QtNetwork/QTcpServer>
#include <QtNetwork/QTcpSocket>

#include <memory>

using namespace Qt::StringLiterals;
using namespace std::chrono_literals;

using QDistLock::DistributedLock;
using QDistLock::LockRegistry;

namespace LockMetrics = QDistLock::LockMetrics;

namespace {

/// Answers every request with the metrics. One that serves several paths is QHttpServer of Qt 6.8.
void answer(QTcpSocket *socket)
{
    auto request = std::make_shared<QByteArray>();
    QObject::connect(socket, &QTcpSocket::disconnected, socket, &QObject::deleteLater);
    QObject::connect(socket, &QTcpSocket::readyRead, socket, [=] {
        request->append(socket->readAll());
        if (!request->contains("\r\n\r\n"))
            return; // the rest follows
        const QByteArray text = LockMetrics::openMetricsText();
        socket->write("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: " + LockMetrics::openMetricsContentType()
                      + "\r\nContent-Length: " + QByteArray::number(text.size()) + "\r\n\r\n" + text);
        socket->disconnectFromHost();
    });
}

/// Works under the lock of one order, and of the next one a little later.
void shipNext(DistributedLock *order)
{
    static int number = 0;
    order->setName(u"order:%1"_s.arg(++number % 100)); // all of them are counted in the group "order:*"
    order->acquire();
}

} // namespace

int main(int argc, char **argv)
{
    QCoreApplication application(argc, argv);
    QDistLock::quitOnSignals();
    if (!qEnvironmentVariableIsSet("QDISTLOCK_URL"))
        LockRegistry::setDefaultServer(QUrl(u"memory:"_s)); // locks inside this process; needs no server

    QTcpServer server;
    QObject::connect(&server, &QTcpServer::newConnection, &server, [&server] {
        while (QTcpSocket *const socket = server.nextPendingConnection())
            answer(socket);
    });
    const bool isGiven = argc > 1; // a port; 0 = a free one
    if (!server.listen(QHostAddress::LocalHost, isGiven ? QByteArray(argv[1]).toUShort() : 9464)) {
        qWarning().noquote() << "No metrics:" << server.errorString();
        return 1;
    }
    qInfo().noquote() << u"http://127.0.0.1:%1/metrics"_s.arg(server.serverPort());

    DistributedLock order;
    QObject::connect(&order, &DistributedLock::acquired, &order,
                     [&order] { QTimer::singleShot(20ms, &order, &DistributedLock::release); });
    QObject::connect(&order, &DistributedLock::released, &order, [&order] { shipNext(&order); });
    QObject::connect(&order, &DistributedLock::lost, &order, [&order] { shipNext(&order); });
    QObject::connect(&order, &DistributedLock::acquireFailed, &order, [&order] {
        qWarning().noquote() << order.errorString();
        QTimer::singleShot(1s, &order, [&order] { shipNext(&order); });
    });
    shipNext(&order);
    return application.exec();
}
