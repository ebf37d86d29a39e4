// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "base/identity.h"
#include "support/rows.h"

#include <QtCore/qcoreapplication.h>
#include <QtCore/qsysinfo.h>
#include <QtTest/qtest.h>

using namespace Qt::StringLiterals;

using QDistLock::Identity;

class tst_Identity : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void cleanup();
    void byDefault();
    void chosen_data();
    void chosen();
    void none();
};

void tst_Identity::cleanup()
{
    Identity::setOfThisProcess(QString());
    QCoreApplication::setApplicationName(u"tst_identity"_s);
    qunsetenv("QDISTLOCK_IDENTITY");
}

void tst_Identity::byDefault()
{
    QCoreApplication::setApplicationName(u"nightly job\n\u00e4\U0001F512"_s);
    const Identity identity = Identity::ofThisProcess();
    QVERIFY(!identity.isEmpty());
    QVERIFY(!identity.host.isEmpty());
    QCOMPARE(identity.host.size(), qMin<qsizetype>(QSysInfo::machineHostName().size(), 64));
    QCOMPARE(identity.pid, QCoreApplication::applicationPid());
    QCOMPARE(identity.application, u"nightly_job____"_s); // the last character takes two code units
}

void tst_Identity::chosen_data()
{
    QTest::addColumn<QString>("text");
    QTest::addColumn<QString>("host"); // empty: the default
    Support::addColumns<qint64, QString>("pid", "application");
    const QString own = u"tst_identity"_s;
    const auto row = [](const char *text, const QString &host, qint64 pid, const QString &application) {
        QTest::newRow(text) << QString::fromUtf8(text) << host << pid << application;
    };
    row("nightly", {}, 0, u"nightly"_s);
    row("db7:812:nightly", u"db7"_s, 812, u"nightly"_s);
    row("db7::nightly", u"db7"_s, 0, u"nightly"_s);
    row(":812:", {}, 812, own);
    row("::", {}, 0, own);
    row("", {}, 0, own);
    row("None", {}, 0, u"None"_s);
    row("two:words", {}, 0, u"two_words"_s);
    row("db7:812:a:b", u"db7"_s, 812, u"a_b"_s);
    row("db7:-5:nightly", u"db7"_s, 0, u"nightly"_s);
    row("db7:x:nightly", u"db7"_s, 0, u"nightly"_s);
    row("db7:99999999999999999999:nightly", u"db7"_s, 0, u"nightly"_s);
    row("db 7@x:812:a\r\nPUBLISH b=c;\"", u"db_7_x"_s, 812, u"a__PUBLISH_b_c__"_s);
    row("Za9._-:1:Za9._-", u"Za9._-"_s, 1, u"Za9._-"_s);
    row("\xe2\x82\xac:1:\xc3\xa4", u"_"_s, 1, u"_"_s);
    QTest::newRow("NUL") << QString(QChar::Null) << QString() << qint64(0) << u"_"_s;
    QTest::newRow("long") << QString(1000, u'h') + u":1:"_s + QString(1000, u'a') << QString(64, u'h') << qint64(1)
                          << QString(64, u'a');
}

void tst_Identity::chosen()
{
    QFETCH(QString, text);
    QFETCH(QString, host);
    QFETCH(qint64, pid);
    QFETCH(QString, application);
    const Identity byDefault = Identity::ofThisProcess();
    Identity::setOfThisProcess(text);
    const Identity identity = Identity::ofThisProcess();
    QCOMPARE(identity.host, host.isEmpty() ? byDefault.host : host);
    QCOMPARE(identity.pid, pid == 0 ? byDefault.pid : pid);
    QCOMPARE(identity.application, application);
}

void tst_Identity::none()
{
    Identity::setOfThisProcess(u"none"_s);
    QVERIFY(Identity::ofThisProcess().isEmpty());
    Identity::setOfThisProcess(u"db7:812:nightly"_s);
    QVERIFY(!Identity::ofThisProcess().isEmpty());
    // Whoever starts the program has the last word.
    qputenv("QDISTLOCK_IDENTITY", "none");
    QVERIFY(Identity::ofThisProcess().isEmpty());
    qputenv("QDISTLOCK_IDENTITY", "");
    QVERIFY(!Identity::ofThisProcess().isEmpty());
}

QTEST_GUILESS_MAIN(tst_Identity)
#include "tst_identity.moc"
