// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// What lines of the log have for programs that read them: lock=… fence=… client=… at the end.

#include "support/locktest.h"

#include "support/eventually.h"
#include "support/rows.h"

#include <QDistLock/Annotations>
#include <QDistLock/MultiLock>
#include <QDistLock/ScopedLock>

#include <QtCore/qloggingcategory.h>
#include <QtCore/qscopeguard.h>

#include <memory>
#include <stdexcept>
#include <thread>

using namespace Qt::StringLiterals;

using namespace LockTesting;
using QDistLock::LockAddress;
using QDistLock::MultiLock;
using QDistLock::ScopedLock;

class tst_LogLines : public RedisLockTest
{
    Q_OBJECT
private Q_SLOTS:
    void names_data();
    void names();
    void lossIsAWarning();
    void errorIsAWarning();
    void exceptionIsInfo();
    void failedAcquireIsForDebugging();
    void failedCall();
    void lossUnderACall();
    void scope();
    void severalLocks();
    void serverIsNoLock();
    void acquiresAreSilent();
    /// Calls and scopes have their locks in a thread of the library, which would log their loss in the next function.
    void cleanup()
    {
        RedisLockTest::cleanup();
        EVENTUALLY_VERIFY(!m_server.exists("lock:job") || m_server.get("lock:job") == "foreign");
    }

private:
    /// As the server shows it.
    QString clientOf(const QString &name)
    {
        return QString::fromLatin1(m_server.get("lock:" + name.toUtf8())).section(u':', 0, 0);
    }
    LockAddress job() const { return LockAddress(u"job"_s).withServer(m_server.url()); }
    /// Of the lock "job", held by \a lock.
    QString fieldsOf(const DistributedLock &lock)
    {
        return u" lock=job fence=%1 client=%2"_s.arg(QString::number(lock.fencingToken()), clientOf(u"job"_s));
    }
};

void tst_LogLines::names_data()
{
    Support::addColumns<QString, QString>("name", "value");
    const auto row = [](const char *what, const QString &name, const QString &value) {
        QTest::newRow(what) << name << value;
    };
    row("plain", u"order:42/a.b-c_d{e}"_s, u"order:42/a.b-c_d{e}"_s);
    row("letters", u"Größe:日本"_s, u"Größe:日本"_s);
    row("pair", u"\U0001F512"_s, u"\U0001F512"_s);
    row("space", u"a b"_s, u"\"a b\""_s);
    row("quote", u"a\"b"_s, u"\"a\\\"b\""_s);
    row("only quotes", u"\"\""_s, u"\"\\\"\\\"\""_s);
    row("backslash", u"a\\nb"_s, u"\"a\\\\nb\""_s);
    row("equals", u"a fence=1"_s, u"\"a fence=1\""_s);
    row("equals alone", u"a=b"_s, u"\"a=b\""_s);
    row("line break", u"a\nb"_s, u"\"a\\nb\""_s);
    row("tabulator", u"a\tb"_s, u"\"a\\u0009b\""_s);
    row("escape", u"\u001b[31m"_s, u"\"\\u001b[31m\""_s);
    row("another line break", u"a\u2028b"_s, u"\"a\\u2028b\""_s);
    row("space of another kind", u"a\u00a0b"_s, u"\"a\\u00a0b\""_s);
    row("direction", u"a\u202eb"_s, u"\"a\\u202eb\""_s);
    row("arguments", u"%1%2%s"_s, u"%1%2%s"_s);
    row("longest", QString(1024, u'x'), QString(1024, u'x')); // the text shows the first 100 characters
    row("too long for a lock", QString(1025, u'x'), QString());
    row("empty", QString(), QString());
}

void tst_LogLines::names()
{
    QFETCH(QString, name);
    DistributedLock lock(registry(), name);
    const LogCapture log;
    lock.release();
    const QStringList lines = log.messages(QtWarningMsg);
    QCOMPARE(lines.size(), 1);
    QFETCH(QString, value);
    const QString text = u"Lock "_s + QDistLock::Detail::quoted(name) + u": release() of a lock that is not held"_s;
    QCOMPARE(lines.first(), value.isEmpty() ? text : text + u" lock="_s + value);
}

void tst_LogLines::lossIsAWarning()
{
    TestLock lock(registry(), u"job"_s);
    QVERIFY(acquireNow(&lock));
    const QString fields = fieldsOf(lock);
    const QByteArray token = m_server.get("lock:job");
    const LogCapture log;
    LockRegistry other(m_server.url());
    QCOMPARE(awaited(other.forceRelease(u"job"_s)).value, LockRegistry::Done);
    EVENTUALLY_COMPARE(lock.spies.lost.size(), 1);
    const QStringList lines = log.messages(QtWarningMsg);
    QCOMPARE(lines.size(), 1);
    QCOMPARE(lines.first(), lock.errorString() + u" [ForcedRelease]"_s + fields);
    QVERIFY(!lock.errorString().contains(u"client="));
    QVERIFY(!log.text().contains(QString::fromLatin1(token)));
}

/// While it is held.
void tst_LogLines::errorIsAWarning()
{
    QVERIFY(m_server.command({"ACL", "SETUSER", "some", "on", ">pw", "~*", "&*", "+@all"}).toByteArray() == "OK");
    QUrl url = m_server.url();
    url.setUserName(u"some"_s);
    url.setPassword(u"pw"_s);
    LockRegistry mine(url);
    TestLock lock(&mine, u"job"_s);
    QVERIFY(acquireNow(&lock));
    const QString fields = fieldsOf(lock);
    const LogCapture log;
    m_server.command({"ACL", "SETUSER", "some", "-del"});
    lock.release();
    EVENTUALLY_VERIFY(!lock.spies.errors.isEmpty());
    const QStringList lines = log.messages(QtWarningMsg);
    QCOMPARE(lines.size(), 1);
    // It is no longer held, but being released.
    QCOMPARE(lines.first(), lock.errorString() + u" lock=job"_s + fields.sliced(fields.indexOf(u" client=")));
}

void tst_LogLines::exceptionIsInfo()
{
    const LogCapture log;
    QString fields;
    const auto future = QDistLock::withLock(job(), [&] {
        fields = u" lock=job fence=%1 client=%2"_s.arg(QString::fromLatin1(m_server.get("{lock:job}:fence")),
                                                       clientOf(u"job"_s));
        throw std::runtime_error("no paper");
    });
    EVENTUALLY_VERIFY(future.isFinished());
    const QStringList lines = log.messages(QtInfoMsg);
    QCOMPARE(lines.size(), 1);
    QVERIFY2(lines.first().contains(u"\"no paper\"") && lines.first().endsWith(fields), qPrintable(lines.first()));
}

void tst_LogLines::failedAcquireIsForDebugging()
{
    QLoggingCategory::setFilterRules(u"qdistlock.lock.debug=true"_s);
    const auto end = qScopeGuard([] { QLoggingCategory::setFilterRules(QString()); });
    m_server.command({"SET", "lock:job", "foreign"});
    TestLock taken(registry(), u"job"_s);
    TestLock own(registry(), u"own"_s);
    QVERIFY(acquireNow(&own)); // its key shows the client
    const LogCapture log;
    const LockResult result = awaited(taken.tryAcquireAsync());
    QCOMPARE(result.error, DistributedLock::BusyError);
    QCOMPARE(log.messages(QtDebugMsg), QStringList{result.errorString + u" lock=job client="_s + clientOf(u"own"_s)});
}

/// A call that did not get its lock: there is no fencing token, and nobody knows a client.
void tst_LogLines::failedCall()
{
    m_server.command({"SET", "lock:job", "foreign"});
    const LogCapture log;
    const auto future = QDistLock::withLock(job(), options().withWait(0ms), [] {});
    EVENTUALLY_VERIFY(future.isFinished());
    const QStringList lines = log.messages(QtInfoMsg) + log.messages(QtWarningMsg);
    QCOMPARE(lines.size(), 1);
    QVERIFY2(lines.first().endsWith(u" lock=job"), qPrintable(lines.first()));
}

void tst_LogLines::lossUnderACall()
{
    const LogCapture log;
    QString fields;
    const auto future = QDistLock::withLock(job(), [&] {
        fields = u" lock=job fence=%1 client=%2"_s.arg(QString::fromLatin1(m_server.get("{lock:job}:fence")),
                                                       clientOf(u"job"_s));
        const auto forced = registry()->forceRelease(u"job"_s);
        eventually([&] { return forced.isFinished() && log.count({u"[ForcedRelease]"_s}) > 0; });
    });
    EVENTUALLY_VERIFY(future.isFinished() && log.messages(QtWarningMsg).size() == 2); // of the lock, and of the call
    for (const QString &line : log.messages(QtWarningMsg))
        QVERIFY2(line.endsWith(fields), qPrintable(line));
}

void tst_LogLines::scope()
{
    auto scope = std::make_unique<ScopedLock>(job());
    QVERIFY(scope->isHeld());
    const QString fields = u" lock=job fence=%1 client=%2"_s.arg(QString::number(scope->fencingToken()),
                                                                 clientOf(u"job"_s));
    const LogCapture log;
    std::thread([&] { scope.reset(); }).join();
    const QStringList lines = log.messages(QtWarningMsg);
    QCOMPARE(lines.size(), 1);
    QVERIFY2(lines.first().endsWith(fields), qPrintable(lines.first()));
}

/// The names are in the text.
void tst_LogLines::severalLocks()
{
    MultiLock locks(registry(), {u"a"_s, u"b"_s});
    const LogCapture log;
    locks.release();
    const QStringList lines = log.messages(QtWarningMsg);
    QCOMPARE(lines.size(), 1);
    QVERIFY2(lines.first().endsWith(u"release() of locks that are not held"), qPrintable(lines.first()));
}

void tst_LogLines::serverIsNoLock()
{
    LockRegistry nowhere(QUrl(u"unix:///no/such/socket"_s));
    TestLock lock(&nowhere, u"job"_s, options(30s, LockOptions::Forever));
    const LogCapture log;
    lock.acquire();
    EVENTUALLY_VERIFY(!lock.spies.errors.isEmpty());
    QVERIFY(!log.messages(QtWarningMsg).isEmpty());
    QVERIFY2(!log.text().contains(u" lock="), qPrintable(log.text()));
}

void tst_LogLines::acquiresAreSilent()
{
    const LogCapture log;
    TestLock lock(registry(), u"job"_s);
    TestLock waiter(registry(), u"job"_s, options(30s, LockOptions::Forever));
    QVERIFY(acquireNow(&lock));
    QCOMPARE(awaited(waiter.tryAcquireAsync()).error, DistributedLock::BusyError);
    QVERIFY(joinQueue(&waiter));
    QVERIFY(releaseNow(&lock));
    EVENTUALLY_VERIFY(waiter.isHeld());
    QVERIFY(releaseNow(&waiter));
    QVERIFY(ScopedLock(job()).isHeld());
    const auto future = QDistLock::withLock(job(), [] {});
    EVENTUALLY_VERIFY(future.isFinished());
    QCOMPARE(log.messages(), QStringList());
}

QTEST_GUILESS_MAIN(tst_LogLines)

#include "tst_loglines.moc"
