// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "doctor/zookeeper.h"

#include "doctor/report.h"
#include "lockview.h"
#include "session.h"

#include <QtCore/qeventloop.h>
#include <QtCore/qjsonobject.h>
#include <QtCore/qtimer.h>
#include <QtCore/qurlquery.h>
#include <QtNetwork/qtcpsocket.h>

using namespace Qt::StringLiterals;

using std::chrono::milliseconds;

namespace Cli {

namespace {

constexpr quint16 DefaultPort = 2181;

struct Answer
{
    QByteArray text;
    QString error; ///< why there is none
    int interruption = 0;
};

/// A server of ZooKeeper answers some words of four letters without a session, and closes the connection.
Answer ask(const QUrl &server, const QByteArray &word, milliseconds timeout)
{
    Answer answer;
    QTcpSocket socket;
    QEventLoop loop;
    QObject::connect(&socket, &QTcpSocket::connected, &socket, [&] { socket.write(word); });
    QObject::connect(&socket, &QTcpSocket::disconnected, &loop, &QEventLoop::quit);
    QObject::connect(&socket, &QTcpSocket::errorOccurred, &loop, &QEventLoop::quit);
    QTimer::singleShot(timeout, &loop, &QEventLoop::quit);
    socket.connectToHost(server.host(), quint16(server.port(DefaultPort)));
    answer.interruption = loop.exec();
    answer.text = socket.readAll();
    if (answer.text.isEmpty())
        answer.error = socket.error() == QTcpSocket::UnknownSocketError ? u"no answer"_s : socket.errorString();
    return answer;
}

/// What follows \a key in a line of \a text, such as "Mode: "; empty if there is none.
QByteArray valueOf(const QByteArray &text, const QByteArray &key)
{
    for (const QByteArray &line : text.split('\n')) {
        if (line.startsWith(key))
            return line.sliced(key.size()).trimmed();
    }
    return {};
}

/// Of the leases and of the URL's session, by what a server grants.
void checkSession(const Session &session, const QUrl &ensemble, const QByteArray &settings, DoctorReport *report)
{
    const qint64 shortest = valueOf(settings, "minSessionTimeout=").toLongLong();
    const qint64 longest = valueOf(settings, "maxSessionTimeout=").toLongLong();
    if (longest == 0) {
        report->add(DoctorReport::Info, u"session"_s, u"the servers do not tell which sessions they grant"_s,
                    u"allow it, if you want to know: 4lw.commands.whitelist=srvr, conf in zoo.cfg"_s);
        return;
    }
    const qint64 lease = session.lockOptions().lease.count();
    const QString wanted = QUrlQuery(ensemble).queryItemValue(u"session"_s);
    const qint64 granted = qBound(shortest, wanted.isEmpty() ? 30'000 : wanted.toLongLong(), longest);
    const QString text = u"the servers grant sessions of %1 to %2 ms: locks here have one of %3 ms"_s.arg(shortest)
                                 .arg(longest)
                                 .arg(granted);
    if (lease > granted) {
        report->add(
                DoctorReport::Failure, u"session"_s, text + u", and a lease of %1 ms, which is longer"_s.arg(lease),
                u"use a shorter lease (--lease), or a longer session: session= in the URL, and maxSessionTimeout in zoo.cfg"_s);
    } else {
        report->add(DoctorReport::Ok, u"session"_s, text);
    }
}

} // namespace

int checkZooKeeper(Session *session, const QUrl &ensemble, milliseconds timeout, DoctorReport *report)
{
    report->add(DoctorReport::Ok, u"url"_s, session->serverText());
    QList<QUrl> servers{ensemble};
    const QStringList nodes = QUrlQuery(ensemble).allQueryItemValues(u"node"_s, QUrl::FullyDecoded);
    for (const QString &node : nodes)
        servers.append(QUrl(u"zookeeper://"_s + node));
    int serving = 0;
    QByteArray settings;
    for (const QUrl &server : std::as_const(servers)) {
        const QString name = server.host() + u':' + QString::number(server.port(DefaultPort));
        const QJsonObject details{{u"node"_s, name}};
        const Answer answer = ask(server, "srvr", timeout);
        if (answer.interruption != 0)
            return answer.interruption;
        const QString mode = QString::fromLatin1(valueOf(answer.text, "Mode: "));
        if (!mode.isEmpty() || answer.text.contains("whitelist")) {
            ++serving;
            report->add(DoctorReport::Ok, u"node"_s,
                        mode.isEmpty() ? u"%1 listens; it does not say as what"_s.arg(name)
                                       : u"%1 is %2; ZooKeeper %3"_s.arg(
                                               name, mode == u"standalone" ? u"alone"_s : u"a "_s + mode,
                                               QString::fromLatin1(
                                                       valueOf(answer.text, "Zookeeper version: ").split('-').first())),
                        {}, details);
            if (settings.isEmpty()) {
                const Answer asked = ask(server, "conf", timeout);
                if (asked.interruption != 0)
                    return asked.interruption;
                settings = valueOf(asked.text, "maxSessionTimeout=").isEmpty() ? QByteArray() : asked.text;
            }
        } else {
            report->add(
                    DoctorReport::Warning, u"node"_s,
                    u"%1 does not serve (%2)"_s.arg(name,
                                                    answer.error.isEmpty() ? u"it has no leader"_s : answer.error),
                    u"check that the server runs and listens there, that it reaches the others, and that no firewall is between"_s,
                    details);
        }
    }
    const qsizetype needed = servers.size() / 2 + 1;
    const QString majority = u"%1 of the %2 that the URL names serve"_s.arg(serving).arg(
            counted(servers.size(), u"servers"_s));
    if (serving == 0) {
        report->add(DoctorReport::Failure, u"majority"_s, majority);
        return 0;
    }
    report->add(serving < needed ? DoctorReport::Warning : DoctorReport::Ok, u"majority"_s, majority);
    checkSession(*session, ensemble, settings, report);
    const auto locks = session->await(session->registry()->list(u"*"_s));
    if (!locks)
        return 0;
    if (*locks)
        report->add(DoctorReport::Ok, u"locks"_s,
                    u"%1 held, with the key prefix %2"_s.arg(locks->value.size()).arg(session->keyPrefix()));
    else
        report->add(DoctorReport::Failure, u"locks"_s, locks->errorString);
    return 0;
}

} // namespace Cli
