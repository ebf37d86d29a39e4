// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/redis/clientname.h"
#include "support/rows.h"

#include <QtTest/qtest.h>

#include <limits>

using namespace Qt::StringLiterals;

using namespace QDistLock;

namespace {

const QByteArray Client = "1a2b3c4d5e6f7081";

} // namespace

class tst_ClientName : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void names_data();
    void names();
    void parse_data();
    void parse();
    void notAClient_data()
    {
        Support::addNamedRows<QByteArray>(
                "name",
                {"", "qdistlock", "qdistlock-", "qdistlock-@db7:812:nightly", "jedis", "QDISTLOCK-1a2b3c4d5e6f7081",
                 "qdistlock-1A2B", "qdistlock-1a2b3c4d5e6f7081-sub", "qdistlock-1a2b3c4d5e6f7081-sub@db7:812:nightly",
                 " qdistlock-1a2b3c4d5e6f7081"});
    }
    void notAClient();
};

void tst_ClientName::names_data()
{
    Support::addColumns<QString, qint64, QString>("host", "pid", "application");
    QTest::addColumn<QByteArray>("name"); // behind the client's id
    const QString h(64, u'h');
    const QString a(64, u'a');
    QTest::newRow("usual") << u"db7"_s << qint64(812) << u"nightly"_s << QByteArray("@db7:812:nightly");
    QTest::newRow("none") << QString() << qint64(0) << QString() << QByteArray();
    QTest::newRow("no application") << u"db7"_s << qint64(812) << QString() << QByteArray("@db7:812:");
    QTest::newRow("no host") << QString() << qint64(812) << u"nightly"_s << QByteArray("@:812:nightly");
    QTest::newRow("both long") << h << qint64(812) << a << "@" + QByteArray(16, 'h') + ":812:" + QByteArray(16, 'a');
    QTest::newRow("long host") << h << qint64(812) << u"nightly"_s << "@" + QByteArray(25, 'h') + ":812:nightly";
    QTest::newRow("long application") << u"db7"_s << qint64(812) << a << "@db7:812:" + QByteArray(29, 'a');
    QTest::newRow("long number") << h << std::numeric_limits<qint64>::max() << a
                                 << "@" + QByteArray(8, 'h') + ":9223372036854775807:" + QByteArray(8, 'a');
}

void tst_ClientName::names()
{
    QFETCH(QString, host);
    QFETCH(qint64, pid);
    QFETCH(QString, application);
    QFETCH(QByteArray, name);
    const QByteArray text = ClientName{Client, {host, pid, application}}.toByteArray();
    QCOMPARE(text, "qdistlock-" + Client + name);
    QVERIFY(text.size() <= 64);
    const auto parsed = ClientName::parse(text);
    QVERIFY(parsed);
    QCOMPARE(parsed->client, Client);
    QCOMPARE(parsed->identity.pid, pid);
    QCOMPARE(parsed->identity.host, host.left(parsed->identity.host.size()));
    QCOMPARE(parsed->identity.application, application.left(parsed->identity.application.size()));
}

void tst_ClientName::parse_data()
{
    Support::addColumns<QByteArray, bool>("identity", "isValid");
    const auto row = [](const QByteArray &identity, bool isValid) {
        QTest::newRow(identity.left(40).constData()) << identity << isValid;
    };
    row("@db7:812:nightly", true);
    row("@db7:812:nightly:more", true); // of a later version
    row("@::", false);
    row("@", false);
    row("@db7", false);
    row("@db7:812", false);
    row("@db7:0:nightly", false);
    row("@db7:-812:nightly", false);
    row("@db7:+812:nightly", false);
    row("@db7:0x32c:nightly", false);
    row("@db7:99999999999999999999:nightly", false);
    row("@db7:812:night/ly", false);
    row("@db7:812:<b>", false);
    row("@db 7:812:nightly", false);
    row("@db7@x:812:nightly", false);
    row("@db7:812:n\xc3\xa4htly", false);
    row("@db7:812:night\nly", false);
    row("@db7:812:" + QByteArray(65, 'a'), false);
}

void tst_ClientName::parse()
{
    QFETCH(QByteArray, identity);
    QFETCH(bool, isValid);
    const auto name = ClientName::parse("qdistlock-" + Client + identity);
    QVERIFY(name); // it is connected
    QCOMPARE(name->client, Client);
    QCOMPARE(name->identity.isEmpty(), !isValid);
    if (!isValid)
        return;
    QCOMPARE(name->identity.host, u"db7"_s);
    QCOMPARE(name->identity.pid, 812);
    QCOMPARE(name->identity.application, u"nightly"_s);
}

void tst_ClientName::notAClient()
{
    QFETCH(QByteArray, name);
    QVERIFY(!ClientName::parse(name));
}

QTEST_APPLESS_MAIN(tst_ClientName)
#include "tst_clientname.moc"
