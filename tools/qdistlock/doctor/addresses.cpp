// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "doctor/addresses.h"

#include "doctor/connection.h"
#include "doctor/report.h"
#include "lockview.h"

#include "redis/tls.h"

#include <QtCore/qdatetime.h>
#include <QtCore/qelapsedtimer.h>
#include <QtNetwork/qhostinfo.h>
#include <QtNetwork/qlocalsocket.h>
#include <QtNetwork/qnetworkproxy.h>
#include <QtNetwork/qsslcertificate.h>
#include <QtNetwork/qsslconfiguration.h>
#include <QtNetwork/qsslsocket.h>

#include <algorithm>
#include <memory>
#include <vector>

using namespace Qt::StringLiterals;

using QtRedis::ServerUrl;
using std::chrono::milliseconds;

namespace Cli {

namespace {

constexpr int CertificateDays = 14;

/// One attempt to connect to one address.
struct Attempt
{
    QString address;
    std::unique_ptr<QAbstractSocket> socket;
    bool isEnded = false;
    bool isConnected = false;
    qint64 elapsed = 0; ///< ms
    QString error;
    QDateTime certificateEnd; ///< of the first certificate of the chain that ends
};

void start(Attempt *attempt, DoctorConnection *connection, const QElapsedTimer &timer)
{
    const ServerUrl server = connection->server();
    const auto end = [attempt, connection, &timer](const QString &error) {
        if (std::exchange(attempt->isEnded, true))
            return;
        attempt->isConnected = error.isEmpty();
        attempt->error = error;
        attempt->elapsed = timer.elapsed();
        connection->wake();
    };
    if (server.scheme == ServerUrl::Tls) {
        QString error;
        const auto configuration = QtRedis::tlsConfiguration(server, &error);
        if (!configuration)
            return end(error);
        auto socket = std::make_unique<QSslSocket>();
        QSslSocket *const tls = socket.get();
        tls->setSslConfiguration(*configuration);
        QObject::connect(tls, &QSslSocket::encrypted, tls, [attempt, tls, end] {
            const QList<QSslCertificate> chain = tls->peerCertificateChain();
            for (const QSslCertificate &certificate : chain) {
                const QDateTime expiry = certificate.expiryDate();
                if (attempt->certificateEnd.isNull() || expiry < attempt->certificateEnd)
                    attempt->certificateEnd = expiry;
            }
            end({});
        });
        attempt->socket = std::move(socket);
    } else {
        attempt->socket = std::make_unique<QTcpSocket>();
        QObject::connect(attempt->socket.get(), &QAbstractSocket::connected, attempt->socket.get(), [end] { end({}); });
    }
    QAbstractSocket *const socket = attempt->socket.get();
    socket->setProxy(QNetworkProxy::NoProxy); // as the library does
    QObject::connect(socket, &QAbstractSocket::errorOccurred, socket, [socket, end] { end(socket->errorString()); });
    if (server.scheme == ServerUrl::Tls)
        static_cast<QSslSocket *>(socket)->connectToHostEncrypted(attempt->address, server.port,
                                                                  server.endpoint().name());
    else
        socket->connectToHost(attempt->address, server.port);
}

QString adviceFor(const ServerUrl &server)
{
    const QString advice = server.scheme == ServerUrl::Tls
            ? u"check the certificate of the server, its TLS port, and the files ca=, cert= and key= of the URL"_s
            : u"check that the server runs and listens there, and that no firewall is between"_s;
    return server.service.isEmpty()
            ? advice
            : advice + u"; the Sentinels name this address: if it is one of another network, set replica-announce-ip"_s;
}

bool checkSocketFile(DoctorConnection *connection, DoctorReport *report)
{
    const QString path = connection->server().path;
    QLocalSocket socket;
    bool isEnded = false;
    const auto end = [&isEnded, connection] {
        isEnded = true;
        connection->wake();
    };
    QObject::connect(&socket, &QLocalSocket::connected, &socket, end);
    QObject::connect(&socket, &QLocalSocket::errorOccurred, &socket, end);
    socket.connectToServer(path);
    connection->waitFor([&isEnded] { return isEnded; });
    if (socket.state() == QLocalSocket::ConnectedState) {
        report->add(DoctorReport::Ok, u"connect"_s, path);
        return true;
    }
    report->add(DoctorReport::Failure, u"connect"_s, u"%1: %2"_s.arg(path, socket.errorString()),
                u"check that the server runs, that its unixsocket is this file, and that you may write to it"_s);
    return false;
}

QList<QHostAddress> resolve(DoctorConnection *connection, DoctorReport *report)
{
    const QString host = connection->server().host;
    if (const QHostAddress address(host); !address.isNull())
        return {address};
    QHostInfo info;
    bool isEnded = false;
    QObject context;
    QElapsedTimer timer;
    timer.start();
    const int lookup = QHostInfo::lookupHost(host, &context, [&](const QHostInfo &found) {
        info = found;
        isEnded = true;
        connection->wake();
    });
    connection->waitFor([&isEnded] { return isEnded; });
    QHostInfo::abortHostLookup(lookup);
    const QList<QHostAddress> addresses = info.addresses();
    if (addresses.isEmpty()) {
        const QString reason = isEnded ? info.errorString() : u"no answer"_s;
        report->add(DoctorReport::Failure, u"dns"_s, u"%1: %2"_s.arg(host, reason),
                    u"check the name, and the name servers of this machine"_s);
        return {};
    }
    QStringList texts;
    for (const QHostAddress &address : addresses)
        texts += address.toString();
    report->add(DoctorReport::Ok, u"dns"_s,
                u"%1 is %2, after %3"_s.arg(host, texts.join(u", "_s), roughText(milliseconds(timer.elapsed()))));
    return addresses;
}

} // namespace

bool checkAddresses(DoctorConnection *connection, milliseconds timeout, DoctorReport *report)
{
    const ServerUrl server = connection->server();
    if (server.scheme == ServerUrl::Unix)
        return checkSocketFile(connection, report);
    const QList<QHostAddress> addresses = resolve(connection, report);
    if (addresses.isEmpty())
        return false;

    QElapsedTimer timer;
    timer.start();
    std::vector<std::unique_ptr<Attempt>> attempts;
    for (const QHostAddress &address : addresses) {
        attempts.push_back(std::make_unique<Attempt>());
        attempts.back()->address = address.toString();
        start(attempts.back().get(), connection, timer);
    }
    const auto all = [&attempts] {
        return std::all_of(attempts.cbegin(), attempts.cend(), [](const auto &attempt) { return attempt->isEnded; });
    };
    connection->waitFor(all);
    if (connection->interruption() != 0)
        return false;

    const bool isTls = server.scheme == ServerUrl::Tls;
    const auto isConnected = [](const auto &attempt) { return attempt->isConnected; };
    const bool any = std::any_of(attempts.cbegin(), attempts.cend(), isConnected);
    const bool isRemote = std::any_of(addresses.cbegin(), addresses.cend(),
                                      [](const QHostAddress &address) { return !address.isLoopback(); });
    for (const auto &attempt : attempts) {
        const QString where = u"%1 port %2"_s.arg(attempt->address).arg(server.port);
        if (attempt->isConnected) {
            report->add(DoctorReport::Ok, u"connect"_s,
                        u"%1, after %2"_s.arg(where, roughText(milliseconds(attempt->elapsed))));
        } else {
            const QString reason = attempt->isEnded ? attempt->error : u"no answer within %1"_s.arg(roughText(timeout));
            report->add(any ? DoctorReport::Warning : DoctorReport::Failure, isTls ? u"tls"_s : u"connect"_s,
                        u"%1: %2"_s.arg(where, reason), adviceFor(server));
        }
        if (attempt->isConnected && isTls) {
            const qint64 days = QDateTime::currentDateTime().daysTo(attempt->certificateEnd);
            const QString text = u"%1: the certificate is valid until %2"_s.arg(
                    where, attempt->certificateEnd.toString(Qt::ISODate));
            report->add(days < CertificateDays ? DoctorReport::Warning : DoctorReport::Ok, u"tls"_s, text,
                        u"renew it"_s);
        }
    }
    if (!isTls && isRemote) {
        report->add(DoctorReport::Warning, u"tls"_s,
                    u"the connection is not encrypted: whoever can read it can release and take every lock"_s
                            + (server.password.isEmpty() ? QString() : u", and reads the password"_s),
                    u"use rediss://, unless the network is private"_s);
    }
    return any;
}

} // namespace Cli
