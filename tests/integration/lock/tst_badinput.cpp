// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// What an application or a server should not say, and what comes of it: an error with a name and a text, and
// nothing sent that should not be.

#include "support/locktest.h"

#include "support/fakeserver.h"
#include "support/registrytime.h"
#include "support/rows.h"

#include <QtCore/qfile.h>

#include <unistd.h>

using namespace Qt::StringLiterals;

using namespace LockTesting;
using namespace Support;

namespace {

/// Bytes of this process in memory.
qint64 residentSize()
{
    QFile file(u"/proc/self/statm"_s);
    if (!file.open(QIODevice::ReadOnly))
        return 0;
    return file.readAll().split(' ').value(1).toLongLong() * ::sysconf(_SC_PAGESIZE);
}

} // namespace

class tst_BadInput : public RedisLockTest
{
    Q_OBJECT
private Q_SLOTS:
    void url_data();
    void url();
    void name_data();
    void name();
    void keyPrefix();
    void lockOptions_data();
    void lockOptions();
    void reply_data();
    void reply();
    void repliesTriedAgain_data()
    {
        addRows<QByteArray>("bytes",
                            {{"no RESP", QByteArray("HTTP/1.1 400 Bad Request\r\n\r\n")},
                             {"status", QByteArray("+OK\r\n")},
                             {"neither", QByteArray("*1\r\n*2\r\n:7\r\n$1\r\n5\r\n")}});
    }
    void repliesTriedAgain();
    void endlessReply_data();
    void endlessReply();
    void badReplyWhileHeld_data()
    {
        addRows<QByteArray>("bytes",
                            {{"no RESP", QByteArray("HTTP/1.1 400 Bad Request\r\n\r\n")},
                             {"status", QByteArray("+OK\r\n")},
                             {"empty array", QByteArray("*0\r\n")},
                             {"nil inside", QByteArray("*1\r\n$-1\r\n")},
                             {"string inside", QByteArray("*1\r\n$2\r\nOK\r\n")},
                             {"out of range", QByteArray("*1\r\n:7\r\n")}});
    }
    void badReplyWhileHeld();
    void permissionErrorOfAScript_data();
    void permissionErrorOfAScript();
    void passingErrorOfAScript();
    void releaseOfNothing();
};

// One of each kind: tst_serverurl has the others.
void tst_BadInput::url_data()
{
    addColumns<QString, QString>("url", "part");
    const auto row = [](const char *url, const char *part) {
        QTest::newRow(url) << QString::fromLatin1(url) << QString::fromLatin1(part);
    };
    row("", "empty");
    row("http://127.0.0.1", "scheme");
    row("redis://", "host");
    row("redis://canary@127.0.0.1", "password");
    row("redis://canary:canary@127.0.0.1:99999/0", "port");
    row("http://canary:canary@127.0.0.1/0", "scheme");
    row("redis://user:can/ary@127.0.0.1", "percent-encoded");
    row("rediss://127.0.0.1?cert=a", "key");
    row("unix:///", "folder");
    row("redis+sentinel://host", "it has no service");
    row("redis+cluster://canary:canary@host/x", "it has a path");
    row("redlock://host", "it names one server");
    row("memory://canary:canary@host", "memory:name");
}

void tst_BadInput::url()
{
    QFETCH(QString, url);
    QFETCH(QString, part);
    LogCapture log;
    LockRegistry registry{QUrl(url)};
    QCOMPARE(registry.error(), DistributedLock::OptionsError);
    QVERIFY2(registry.errorString().contains(part), qPrintable(registry.errorString()));
    QCOMPARE(registry.state(), LockRegistry::Disconnected);

    TestLock lock(&registry, u"job"_s, {});
    lock.acquire();
    lock.tryAcquire();
    const auto future = lock.acquireAsync();
    QVERIFY(lock.spies.failed.isEmpty());
    QVERIFY(eventually([&] { return lock.spies.failed.size() == 3; }));
    QCOMPARE(lock.spies.failure(), DistributedLock::OptionsError);
    QCOMPARE(lock.spies.total(), 6); // each with errorOccurred()
    QVERIFY2(lock.errorString().contains(part), qPrintable(lock.errorString()));
    QVERIFY(lock.errorString().contains(QLatin1String("\"job\"")));
    qWarning() << registry.server() << &registry << &lock;
    const QString shown = log.text() + registry.server().toString() + registry.errorString() + lock.errorString();
    QVERIFY2(!shown.contains(u"canary"_s), qPrintable(shown));
    QCOMPARE(future.result().error, DistributedLock::OptionsError);
    QCOMPARE(lock.state(), DistributedLock::Unlocked);
    lock.release();
    lock.cancel();
    const auto inspected = registry.inspect(u"job"_s);
    const auto listed = registry.list(u"*"_s);
    const auto forced = registry.forceRelease(u"job"_s);
    QVERIFY(eventually([&] { return inspected.isFinished() && listed.isFinished() && forced.isFinished(); }));
    QCOMPARE(inspected.result().error, DistributedLock::OptionsError);
    QCOMPARE(listed.result().error, DistributedLock::OptionsError);
    QCOMPARE(forced.result().error, DistributedLock::OptionsError);
}

void tst_BadInput::name_data()
{
    addColumns<QString, QString>("name", "message");
    QTest::newRow("empty") << QString() << u"empty"_s;
    QTest::newRow("too long") << QString(1025, u'x') << u"1024"_s;
    QTest::newRow("too long in UTF-8") << QString(513, QChar(0xe4)) << u"1024"_s;
    QTest::newRow("NUL") << u"a\0b"_s << u"NUL"_s;
    QTest::newRow("only NUL") << QString(1, QChar::Null) << u"NUL"_s;
    QTest::newRow("half a pair") << u"a"_s + QChar(0xd83d) << u"surrogate"_s;
    QTest::newRow("other half") << QChar(0xde00) + u"a"_s << u"surrogate"_s;
    QTest::newRow("brace") << u"a}b"_s << u"slot"_s;
    QTest::newRow("empty tag") << u"a{}b"_s << u"slot"_s;
}

void tst_BadInput::name()
{
    QFETCH(QString, name);
    QFETCH(QString, message);
    const qint64 before = m_server.commandsProcessed();
    DistributedLock lock(registry(), name);
    QCOMPARE(lock.name(), name);
    Spies spies(&lock);
    lock.acquire();
    lock.tryAcquire();
    QVERIFY(eventually([&] { return spies.failed.size() == 2; }));
    QCOMPARE(spies.failure(), DistributedLock::NameError);
    QVERIFY2(lock.errorString().startsWith(u"Lock "_s + QDistLock::Detail::quoted(name))
                     && lock.errorString().contains(message),
             qPrintable(lock.errorString()));
    const auto inspected = registry()->inspect(name);
    const auto forced = registry()->forceRelease(name);
    QVERIFY(eventually([&] { return inspected.isFinished() && forced.isFinished(); }));
    QCOMPARE(inspected.result().error, DistributedLock::NameError);
    QCOMPARE(forced.result().error, DistributedLock::NameError);
    QCOMPARE(m_server.commandsProcessed(), before);
    QCOMPARE(m_server.connectedClients(), 0);
}

void tst_BadInput::keyPrefix()
{
    registry()->setDefaults(options());
    registry()->setKeyPrefix(u"app[1]*:"_s);
    DistributedLock lock(registry(), u"job"_s);
    QVERIFY(acquireNow(&lock));
    QVERIFY(m_server.exists("app[1]*:job"));
    m_server.command({"SET", "app1x:job", "not under the prefix"});
    const auto listed = awaited(registry()->list(u"*"_s));
    QCOMPARE(listed.value.size(), 1);
    QVERIFY(releaseNow(&lock));

    for (const QString &prefix : {QString(1, QChar::Null), QString(1025, u'x'), QString(QChar(0xd83d)), u"a}"_s}) {
        registry()->setKeyPrefix(prefix);
        Spies spies(&lock);
        lock.acquire();
        QVERIFY(eventually([&] { return spies.failed.size() == 1; }));
        QCOMPARE(spies.failure(), DistributedLock::NameError);
    }
}

// One of each kind: tst_lockoptions has the borders.
void tst_BadInput::lockOptions_data()
{
    addColumns<LockOptions, QString>("options", "field");
    const auto row = [](const char *name, const LockOptions &options, const char *field) {
        QTest::newRow(name) << options << QString::fromLatin1(field);
    };
    const LockOptions good;
    row("lease 0", LockOptions(good).withLease(0ms), "lease");
    row("lease over a day", LockOptions(good).withLease(24h + 1ms), "lease");
    row("wait negative", LockOptions(good).withWait(-1ms), "wait");
    row("retryInterval 0", LockOptions(good).withRetryInterval(0ms), "retryInterval");
    row("maxRetries", LockOptions(good).withMaxRetries(-2), "maxRetries");
    row("minHold over the lease", LockOptions(good).withMinHold(31s), "minHold");
    row("minReplicas negative", LockOptions(good).withMinReplicas(-1), "minReplicas");
    row("replicaTimeout", LockOptions(good).withReplicaTimeout(0ms), "replicaTimeout");
}

void tst_BadInput::lockOptions()
{
    QFETCH(LockOptions, options);
    QFETCH(QString, field);
    const qint64 before = m_server.commandsProcessed();
    TestLock lock(registry(), u"job"_s, options);
    lock.acquire();
    const auto future = lock.tryAcquireAsync();
    QVERIFY(eventually([&] { return lock.spies.failed.size() == 2; }));
    QCOMPARE(lock.spies.failure(), DistributedLock::OptionsError);
    QCOMPARE(future.result().error, DistributedLock::OptionsError);
    QCOMPARE(future.result().errorString, lock.errorString());
    QCOMPARE(lock.spies.errors.size(), 2);
    QVERIFY2(lock.errorString().startsWith(u"Lock \"job\""_s) && lock.errorString().contains(field),
             qPrintable(lock.errorString()));
    QCOMPARE(m_server.commandsProcessed(), before);
    QCOMPARE(m_server.connectedClients(), 0);
    QCOMPARE(lock.state(), DistributedLock::Unlocked);
}

void tst_BadInput::reply_data()
{
    QTest::addColumn<QByteArray>("bytes");
    const auto row = [](const char *name, const QByteArray &bytes) { QTest::newRow(name) << bytes; };
    row("no RESP", "HTTP/1.1 400 Bad Request\r\n\r\n");
    row("zero bytes", QByteArray(100, '\0'));
    row("unknown type", "?1\r\n");
    row("no number", "*x\r\n");
    row("negative length", "$-5\r\n");
    row("overflow", "*99999999999999999999\r\n");
    row("huge array", "*200000000\r\n");
    row("huge string", "$2000000000\r\n");
    row("deep", QByteArray("*1\r\n").repeated(100));
    row("unterminated string", "*1\r\n$3\r\nabcde\r\n");
    row("status", "+OK\r\n");
    row("integer", ":1\r\n");
    row("nil", "$-1\r\n");
    row("empty array", "*0\r\n");
    row("nil array", "*-1\r\n");
    row("too many", "*2\r\n*2\r\n:1\r\n$1\r\n5\r\n*2\r\n:1\r\n$1\r\n6\r\n");
    row("integer inside", "*1\r\n:1\r\n");
    row("wrong length", "*1\r\n*1\r\n:1\r\n");
    row("longer", "*1\r\n*4\r\n:1\r\n:2\r\n:3\r\n:4\r\n");
    row("neither", "*1\r\n*2\r\n:7\r\n$1\r\n5\r\n");
    row("no fence", "*1\r\n*2\r\n:1\r\n$-1\r\n");
    row("fence of 0", "*1\r\n*2\r\n:1\r\n$1\r\n0\r\n");
    row("fence below 0", "*1\r\n*2\r\n:1\r\n$2\r\n-5\r\n");
    row("fence no number", "*1\r\n*2\r\n:1\r\n$3\r\nabc\r\n");
    row("strings", "*1\r\n*2\r\n$1\r\n1\r\n$1\r\n1\r\n");
    row("array in array", "*1\r\n*2\r\n*0\r\n*0\r\n");
    row("nil inside", "*1\r\n$-1\r\n");
    row("two fences", "*2\r\n$1\r\n5\r\n$1\r\n6\r\n");
    row("zero as a fence", "*1\r\n$1\r\n0\r\n");
    row("negative fence", "*1\r\n$2\r\n-5\r\n");
    row("fence in an array", "*1\r\n*1\r\n$1\r\n5\r\n");
    row("neither taken nor granted", "*1\r\n*5\r\n:7\r\n:1000\r\n:1\r\n:0\r\n$1\r\n5\r\n");
    row("taken, cut short", "*1\r\n*4\r\n:0\r\n:1000\r\n:1\r\n:0\r\n");
}

void tst_BadInput::reply()
{
    QFETCH(QByteArray, bytes);
    FakeServer server([bytes](const QList<QByteArray> &, int) { return FakeServer::Answer{bytes}; });
    QVERIFY(server.isListening());
    StillRegistry registry(server.url()); // an attempt takes 5 s at most
    DistributedLock lock(&registry, u"job"_s);
    lock.setOptions(options());
    Spies spies(&lock);
    lock.tryAcquire();
    QVERIFY(eventually([&] { return spies.acquiresEnded() == 1; }));
    QVERIFY(spies.acquired.isEmpty());
    QCOMPARE(spies.failure(), DistributedLock::ProtocolError);
    QVERIFY2(lock.errorString().contains(QLatin1String("127.0.0.1")), qPrintable(lock.errorString()));
    const auto inspected = registry.inspect(u"job"_s);
    const auto listed = registry.list(u"*"_s);
    const auto forced = registry.forceRelease(u"job"_s);
    QVERIFY(eventually([&] { return inspected.isFinished() && listed.isFinished() && forced.isFinished(); }));
    QVERIFY(!inspected.result().held);
    QVERIFY(listed.result().value.isEmpty());
}

// With back-off, not in a storm, for as long as there is time.
void tst_BadInput::repliesTriedAgain()
{
    QFETCH(QByteArray, bytes);
    FakeServer server([bytes](const QList<QByteArray> &, int) { return FakeServer::Answer{bytes}; });
    QVERIFY(server.isListening());
    StillRegistry registry(server.url());
    DistributedLock lock(&registry, u"job"_s);
    lock.setOptions(options(30s, 1h));
    Spies spies(&lock);
    lock.acquire();
    QVERIFY(eventually([&] {
        registry.pass(1ms);
        return server.commands().size() >= 2;
    }));
    // As the clock of the lock advances, and with each turn of the loop.
    QVERIFY(eventually([&, turns = 0]() mutable {
        registry.pass(2ms);
        return ++turns == 250;
    }));
    const qsizetype commands = server.commands().size();
    QVERIFY2(commands < 30, qPrintable(QString::number(commands)));
    QCOMPARE(spies.acquiresEnded(), 0);
    registry.pass(1h);
    QVERIFY(eventually([&] { return spies.acquiresEnded() == 1; }));
    QVERIFY(spies.acquired.isEmpty());
    QCOMPARE(spies.failure(), DistributedLock::ProtocolError);
}

void tst_BadInput::endlessReply_data()
{
    addColumns<QByteArray, QByteArray>("begin", "endless");
    QTest::newRow("line") << QByteArray("+") << QByteArray(4096, 'x');
    QTest::newRow("string") << QByteArray("$1000000000\r\n") << QByteArray(4096, 'x');
    QTest::newRow("array") << QByteArray("*1000000000\r\n") << QByteArray(":1\r\n").repeated(1000);
    QTest::newRow("depth") << QByteArray() << QByteArray("*1\r\n").repeated(1000);
    QTest::newRow("replies") << QByteArray() << QByteArray("+OK\r\n").repeated(1000);
    QTest::newRow("messages") << QByteArray()
                              << QByteArray("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n").repeated(100);
}

void tst_BadInput::endlessReply()
{
    QFETCH(QByteArray, begin);
    QFETCH(QByteArray, endless);
    FakeServer server([begin, endless](const QList<QByteArray> &, int) {
        FakeServer::Answer answer{begin};
        answer.endless = endless;
        return answer;
    });
    QVERIFY(server.isListening());
    StillRegistry registry(server.url());
    DistributedLock lock(&registry, u"job"_s);
    lock.setOptions(options(30s, 300ms));
    Spies spies(&lock);
    const qint64 before = residentSize();
    lock.acquire();
    // Given up each time, and tried again.
    QVERIFY(eventually([&] { return server.connectionsAccepted() >= 4; }));
    QCOMPARE(spies.acquiresEnded(), 0);
    registry.pass(300ms);
    QVERIFY(eventually([&] { return spies.acquiresEnded() == 1; }));
    QVERIFY(spies.acquired.isEmpty());
    QCOMPARE(spies.failure(), DistributedLock::ProtocolError);
    const qint64 grown = residentSize() - before;
    QVERIFY2(grown < 64 * 1024 * 1024, qPrintable(QString::number(grown)));
}

// It says nothing of the hold: neither renewed nor stolen, and over at the deadline.
void tst_BadInput::badReplyWhileHeld()
{
    QFETCH(QByteArray, bytes);
    FakeServer server([bytes, granted = false](const QList<QByteArray> &arguments, int) mutable {
        if (arguments.value(0) == "SUBSCRIBE")
            return FakeServer::Answer{"*3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n"};
        const bool first = !std::exchange(granted, true);
        return FakeServer::Answer{first ? QByteArray("*1\r\n$1\r\n5\r\n") : bytes};
    });
    StillRegistry registry(server.url());
    DistributedLock lock(&registry, u"job"_s);
    lock.setOptions(options(30s));
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));
    QCOMPARE(lock.fencingToken(), 5);
    registry.pass(10s); // a third of the lease
    QVERIFY(eventually([&] { return !spies.errors.isEmpty(); }));
    QVERIFY(eventually([&] {
        registry.pass(100ms);
        return spies.lost.size() == 1;
    }));
    QCOMPARE(spies.reason(), DistributedLock::LeaseExpired);
    QVERIFY(spies.renewed.isEmpty());
    // The error is reported only once.
    QVERIFY2(spies.errors.size() <= 2, qPrintable(QString::number(spies.errors.size())));
}

void tst_BadInput::permissionErrorOfAScript_data()
{
    addColumns<QByteArray, QString>("text", "reported");
    const auto row = [](const char *name, const char *text, const char *reported) {
        QTest::newRow(name) << QByteArray(text) << QString::fromLatin1(reported);
    };
    row("7.0, command", "ERR The user executing the script can't run this command or subcommand",
        "can't run this command");
    row("7.0, channel", "ERR The user executing the script can't publish to the channel mentioned in the command",
        "can't publish to the channel");
    row("7.2", "ERR ACL failure in script: User canary has no permissions to run the 'set' command",
        "User *** has no permissions to run the 'set' command");
}

void tst_BadInput::permissionErrorOfAScript()
{
    QFETCH(QByteArray, text);
    QFETCH(QString, reported);
    FakeServer server("*1\r\n$" + QByteArray::number(text.size()) + "\r\n" + text + "\r\n");
    QUrl url = server.url();
    url.setUserName(u"canary"_s);
    url.setPassword(u"secret"_s);
    LockRegistry registry(url);
    TestLock lock(&registry, u"job"_s, options(30s, LockOptions::Forever));
    lock.acquire();
    QVERIFY(eventually([&] { return lock.spies.acquiresEnded() == 1; }));
    QVERIFY(lock.spies.acquired.isEmpty());
    QCOMPARE(lock.spies.failure(), DistributedLock::PermissionError);
    QVERIFY2(lock.errorString().contains(reported), qPrintable(lock.errorString()));
    QVERIFY2(lock.errorString().contains(QLatin1String("grant")), qPrintable(lock.errorString()));
    QVERIFY2(!lock.errorString().contains(QLatin1String("canary")), qPrintable(lock.errorString()));
}

// Redis 6.2 wraps the error that the script met. A master that is being demoted is no reason to
// give up a release.
void tst_BadInput::passingErrorOfAScript()
{
    FakeServer server([scripts = 0](const QList<QByteArray> &arguments, int) mutable {
        if (arguments.value(0) == "SUBSCRIBE")
            return FakeServer::Answer{"*3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n"};
        ++scripts;
        if (scripts == 1)
            return FakeServer::Answer{"*1\r\n$1\r\n5\r\n"};
        if (scripts == 2)
            return FakeServer::Answer{"-ERR Error running script (call to f_0123): @user_script:14: @user_script: 14: "
                                      "-READONLY You can't write against a read only replica. \r\n"};
        return FakeServer::Answer{"*1\r\n:1\r\n"};
    });
    LockRegistry registry(server.url());
    TestLock lock(&registry, u"job"_s);
    QVERIFY(acquireNow(&lock));
    lock.release();
    QVERIFY(eventually([&] { return lock.spies.holdsEnded() == 1; }));
    QCOMPARE(lock.spies.released.size(), 1);
}

void tst_BadInput::releaseOfNothing()
{
    TestLock lock(registry(), u"job"_s, {});
    LogCapture log;
    lock.release();
    lock.cancel();
    const auto result = awaited(lock.releaseAsync());
    QVERIFY(!result);
    QCOMPARE(log.count({u"\"job\""_s, u"not held"_s}), 2);
    QCOMPARE(lock.spies.total(), 0);
    QVERIFY(eventually([&] { return m_server.connectedClients() == 0; })); // nor are those of the test before
}

QTEST_GUILESS_MAIN(tst_BadInput)

#include "tst_badinput.moc"
