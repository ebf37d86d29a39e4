// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// User name and password must appear in no error string, log line or QDebug, whatever the server says.

#include "support/locktest.h"

#include "support/fakeserver.h"
#include "support/rows.h"

#include <QDistLock/ScopedLock>

#include <QtCore/qloggingcategory.h>

#include <thread>

using namespace Qt::StringLiterals;

using namespace LockTesting;
using namespace Support;
using QDistLock::LockAddress;
using QDistLock::LockInfo;
using QDistLock::ScopedLock;

namespace {

const QString User = u"u5er"_s;
/// Every spelling of it contains the canary.
const QString Password = u"c4n4ry:%41!/é"_s;

QUrl withLogin(QUrl url)
{
    url.setUserName(User, QUrl::DecodedMode);
    url.setPassword(Password, QUrl::DecodedMode);
    return url;
}

/// A server error that repeats what the client sent, in every spelling.
QByteArray errorLine(const QByteArray &code, const QByteArray &command)
{
    const QUrl url = withLogin(QUrl(u"redis://host"_s));
    const QByteArray spellings = "'" + User.toUtf8() + "' '" + Password.toUtf8() + "' '"
            + QUrl::toPercentEncoding(Password) + "' '" + url.password(QUrl::FullyEncoded).toUtf8() + "' '"
            + QUrl::toPercentEncoding(Password).toLower() + "'";
    return code + ' ' + command + ": not for " + spellings + ", with args beginning with: " + spellings;
}

/// Of the first command: "CLIENT ID", "EVALSHA".
QByteArray nameOf(const QList<QByteArray> &arguments)
{
    return arguments.first() == "CLIENT" ? arguments.first() + ' ' + arguments.value(1) : arguments.first();
}

} // namespace

class tst_Secrets : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void init() { m_shown.clear(); }
    void cleanup();

    void errorOfTheServer_data();
    void errorOfTheServer();
    void subscriptionRefused();
    void unaskedError();
    void tls_data()
    {
        addRows<QByteArray>("greeting",
                            {{"alert", QByteArray("\x15\x03\x03\x00\x02\x02\x28", 7)},
                             {"no TLS", '-' + errorLine("ERR", "AUTH") + "\r\n"}});
    }
    void tls();
    void loginCommandRenamed_data() { addRows<bool>("withUser", {{"password", false}, {"user and password", true}}); }
    void loginCommandRenamed();
    void scopedLock();
    void codeIsKept();

private:
    /// Everything an application can see of a lock and its registry.
    void see(const LockRegistry &registry, const DistributedLock &lock);

    QStringList m_shown;
};

void tst_Secrets::see(const LockRegistry &registry, const DistributedLock &lock)
{
    QString debug;
    QDebug(&debug) << &registry << registry.server() << &lock << lock.error();
    m_shown << registry.errorString() << lock.errorString() << debug;
}

void tst_Secrets::cleanup()
{
    QLoggingCategory::setFilterRules(QString());
    qunsetenv("QDISTLOCK_PASSWORD");
    if (QTest::currentTestFailed())
        return;
    QVERIFY(!m_shown.isEmpty());
    for (const QString &text : std::as_const(m_shown)) {
        QVERIFY2(!text.contains(QLatin1String("c4n4ry"), Qt::CaseInsensitive), qPrintable(text));
        QVERIFY2(!text.contains(User), qPrintable(text));
    }
}

void tst_Secrets::errorOfTheServer_data()
{
    addColumns<QByteArray, QByteArray, bool>("command", "code", "fromEnvironment");
    for (const char *command : {"greeting", "AUTH", "SELECT", "CLIENT SETNAME", "CLIENT ID", "EVALSHA", "element"}) {
        for (const char *code :
             {"ERR", "NOPERM", "NOAUTH", "WRONGPASS", "DENIED", "LOADING", "READONLY", "c4n4ry:%41!/é"})
            QTest::addRow("%s answered with %s", command, code) << QByteArray(command) << QByteArray(code) << false;
    }
    QTest::newRow("AUTH, password of the environment") << QByteArray("AUTH") << QByteArray("ERR") << true;
    QTest::newRow("EVALSHA, password of the environment") << QByteArray("EVALSHA") << QByteArray("ERR") << true;
}

void tst_Secrets::errorOfTheServer()
{
    QFETCH(const QByteArray, command);
    QFETCH(const QByteArray, code);
    QFETCH(const bool, fromEnvironment);
    const QByteArray line = errorLine(code, command);
    FakeServer server([=](const QList<QByteArray> &arguments, int) -> FakeServer::Answer {
        if (nameOf(arguments) == command)
            return {'-' + line + "\r\n"};
        if (arguments.first() == "EVALSHA")
            return {"*1\r\n$" + QByteArray::number(line.size()) + "\r\n" + line + "\r\n"};
        return {nameOf(arguments) == "CLIENT ID" ? ":7\r\n" : "+OK\r\n"};
    });
    server.setAnswersLogin(false);
    if (command == "greeting")
        server.setGreeting({'-' + line + "\r\n", {}, true});
    QUrl url = withLogin(server.url());
    url.setPath(u"/1"_s);
    if (fromEnvironment) {
        url.setPassword(QString());
        qputenv("QDISTLOCK_PASSWORD", Password.toUtf8());
    }

    QLoggingCategory::setFilterRules(u"*=true"_s);
    LogCapture log;
    LockRegistry registry(url);
    TestLock lock(&registry, u"job"_s, {});
    lock.tryAcquire();
    QVERIFY(eventually([&] { return lock.spies.acquiresEnded() == 1; }));
    see(registry, lock);
    QVERIFY(!lock.errorString().isEmpty());
    const auto info = awaited(registry.inspect(u"job"_s));
    m_shown << info.errorString << log.messages();
    see(registry, lock);
}

void tst_Secrets::subscriptionRefused()
{
    QByteArray code = "NOPERM";
    FakeServer server([&code](const QList<QByteArray> &arguments, int) -> FakeServer::Answer {
        if (arguments.first() == "SUBSCRIBE")
            return {'-' + errorLine(code, "SUBSCRIBE") + "\r\n"};
        return {"*1\r\n$2\r\n17\r\n"};
    });
    for (const char *each : {"NOPERM", "ERR"}) {
        code = each;
        QLoggingCategory::setFilterRules(u"*=true"_s);
        LogCapture log;
        LockRegistry registry(withLogin(server.url()));
        DistributedLock lock(&registry, u"job"_s);
        QVERIFY(acquireNow(&lock));
        QVERIFY(eventually([&] { return log.count({u"SUBSCRIBE: not for"_s}) > 0; }));
        see(registry, lock);
        m_shown << log.messages();
    }
}

void tst_Secrets::unaskedError()
{
    FakeServer server("*1\r\n$2\r\n17\r\n");
    QLoggingCategory::setFilterRules(u"*=true"_s);
    LogCapture log;
    LockRegistry registry(withLogin(server.url()));
    TestLock lock(&registry, u"job"_s, {});
    QVERIFY(acquireNow(&lock));
    server.push('-' + errorLine("ERR", "AUTH") + "\r\n");
    QVERIFY(eventually([&] { return !lock.spies.errors.isEmpty(); }));
    see(registry, lock);
    m_shown << log.messages();
}

void tst_Secrets::tls()
{
    QFETCH(const QByteArray, greeting);
    FakeServer server;
    server.setGreeting({greeting});
    QUrl url = withLogin(server.url());
    url.setScheme(u"rediss"_s);
    QLoggingCategory::setFilterRules(u"*=true"_s);
    LogCapture log;
    LockRegistry registry(url);
    TestLock lock(&registry, u"job"_s, {});
    QCOMPARE(failureNow(&lock), DistributedLock::AuthenticationError);
    see(registry, lock);
    m_shown << log.messages();
}

/// A real server repeats the arguments of a command it does not know.
void tst_Secrets::loginCommandRenamed()
{
    QFETCH(const bool, withUser);
    RedisServer::Options serverOptions;
    serverOptions.config = {"rename-command AUTH LOGIN"};
    serverOptions.loginCommand = "LOGIN";
    Started<RedisServer> server(serverOptions);
    QUrl url = withLogin(server.url());
    if (!withUser)
        url.setUserName(QString());
    QLoggingCategory::setFilterRules(u"*=true"_s);
    LogCapture log;
    LockRegistry registry(url);
    TestLock lock(&registry, u"job"_s, options(30s, LockOptions::Forever));
    QCOMPARE(failureNow(&lock), DistributedLock::AuthenticationError);
    QVERIFY2(lock.errorString().contains(QLatin1String("AUTH")), qPrintable(lock.errorString()));
    QVERIFY2(lock.errorString().contains(QLatin1String("ERR")), qPrintable(lock.errorString()));
    see(registry, lock);
    m_shown << log.messages();
}

void tst_Secrets::scopedLock()
{
    RedisServer::Options serverOptions;
    serverOptions.config = {"rename-command AUTH LOGIN"};
    serverOptions.loginCommand = "LOGIN";
    Started<RedisServer> server(serverOptions);
    QLoggingCategory::setFilterRules(u"*=true"_s);
    LogCapture log;
    QString error;
    std::thread worker([&] {
        const ScopedLock guard(LockAddress(u"job"_s).withServer(withLogin(server.url())), LockOptions().withWait(60s));
        error = guard.result().errorString;
    });
    worker.join();
    QVERIFY2(error.contains(QLatin1String("AUTH")), qPrintable(error));
    m_shown << error << log.messages();
}

/// A user or password that is a common word must not hide what kind of error it is.
void tst_Secrets::codeIsKept()
{
    const QByteArray line = "ERR The user executing the script can't access the user's keys";
    FakeServer server("*1\r\n$" + QByteArray::number(line.size()) + "\r\n" + line + "\r\n");
    QUrl url = server.url();
    url.setUserName(u"user"_s);
    url.setPassword(u"ERR"_s);
    LockRegistry registry(url);
    TestLock lock(&registry, u"job"_s, {});
    QCOMPARE(failureNow(&lock), DistributedLock::PermissionError);
    QVERIFY2(lock.errorString().contains(QLatin1String("The *** executing")), qPrintable(lock.errorString()));
    see(registry, lock);
}

QTEST_GUILESS_MAIN(tst_Secrets)
#include "tst_secrets.moc"
