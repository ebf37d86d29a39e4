// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// `qdistlock acquire`, `renew` and `release`.

#include "clitest.h"

#include "support/faultproxy.h"
#include "support/locktesting.h"
#include "support/rows.h"
#include "support/testkinds.h"

#include <QtCore/qdir.h>
#include <QtCore/qfile.h>
#include <QtCore/qfileinfo.h>
#include <QtCore/qjsonarray.h>
#include <QtCore/qjsondocument.h>
#include <QtCore/qjsonobject.h>

#include <algorithm>
#include <cmath>

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace Qt::StringLiterals;

using namespace CliTesting;
using QDistLock::DistributedLock;
using QDistLock::LockOptions;
using QDistLock::LockRegistry;
using Support::leavesRoomFor;

class tst_TokenCommands : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase();
    void init();

    void leavesTheLockHeld();
    void aTokenFileProvesOneHold();
    void namesTheLockOfAnExistingFile_data();
    void namesTheLockOfAnExistingFile();
    void tokenFileIsMadeBeforeTheWait();
    void tokenFileGoesAway_data();
    void tokenFileGoesAway();
    void tokenFileIsRefused_data();
    void tokenFileIsRefused();
    void tokenFileCannotBeWritten();
    void cannotBeGivenBack_data()
    {
        Support::addRows<bool>("isRefused", {{"the connection is cut", false}, {"the server refuses", true}});
    }
    void cannotBeGivenBack();
    void outputCannotBeWritten_data() { addBadOutputs(); }
    void outputCannotBeWritten();
    void busy();
    TIMING void busyAfterTheWait();
    void replyIsLost();
    void signalInTheQueue();
    void renewal();
    void renewalOfALostLock();
    void releaseServesTheNext();
    void releaseOfALostLock();
    void releaseByToken();
    void tokenFileIsAPipe_data()
    {
        Support::addRows<QString>("command", {{"renew", u"renew"_s}, {"release", u"release"_s}});
    }
    void tokenFileIsAPipe();
    void wrongTokenFile_data();
    void wrongTokenFile();
    void readers();
    void permits();
    void takenAwayFromSharers_data();
    void takenAwayFromSharers();
    void takenAway();
    void takenAwayFromOneHolder();
    void question_data();
    void question();
    void successorIsLeftAlone();
    void usageErrors_data();
    void usageErrors();
    void badServers_data();
    void badServers();
    TIMING void waitWithoutServer();
    void secretsStayInside();
    void scriptOfThePage();

private:
    Result run(const QStringList &arguments) { return CliTesting::run({m_server.url().toEncoded()}, arguments); }
    Result acquire(const QStringList &more = {})
    {
        return run(QStringList{u"acquire"_s, u"job"_s, u"--lease"_s, u"1m"_s, u"--token-file"_s, m_file} + more);
    }
    QJsonObject content() const
    {
        QFile file(m_file);
        return file.open(QIODevice::ReadOnly) ? QJsonDocument::fromJson(file.readAll()).object() : QJsonObject();
    }

    Support::RedisServer m_server;
    QTemporaryDir m_folder;
    QString m_file;
};

void tst_TokenCommands::initTestCase()
{
    QVERIFY2(m_server.start(), qPrintable(m_server.errorString()));
    m_file = m_folder.filePath(u"token"_s);
}

void tst_TokenCommands::init()
{
    m_server.command({"FLUSHALL"});
    QFile::remove(m_file);
}

void tst_TokenCommands::leavesTheLockHeld()
{
    const Result result = acquire();
    QCOMPARE(result.status, 0);
    QCOMPARE(result.errors, QByteArray());
    const QJsonObject file = content();
    QCOMPARE(result.output, QByteArray::number(file.value(u"fence"_s).toInteger()) + '\n');
    QCOMPARE(m_server.get("{lock:job}:fence"), result.output.trimmed());
    QCOMPARE(m_server.get("lock:job"), file.value(u"token"_s).toString().toLatin1());
    QVERIFY(m_server.pttl("lock:job") > 50'000 && m_server.pttl("lock:job") <= 60'000);
    constexpr auto Others = QFile::ReadGroup | QFile::WriteGroup | QFile::ReadOther | QFile::WriteOther;
    QCOMPARE(QFileInfo(m_file).permissions() & QFile::Permissions(Others), QFile::Permissions());
    QCOMPARE(file.value(u"name"_s).toString(), u"job"_s);
    QVERIFY(eventually([this] { return m_server.connectedClients() == 0; }));

    // Everybody is excluded.
    const Result again = run({u"acquire"_s, u"job"_s, u"-n"_s, u"--lease=1m"_s, u"--token-file"_s, m_file + u'2'});
    QCOMPARE(again.status, 75);
    QVERIFY2(again.errors.contains("job"), again.errors.constData());
    QVERIFY(!QFile::exists(m_file + u'2'));
}

// A script whose lease ended, and the same script, started again: with one file, the first would release the lock of
// the second.
void tst_TokenCommands::aTokenFileProvesOneHold()
{
    QCOMPARE(acquire().status, 0);
    const QJsonObject former = content();
    m_server.command({"DEL", "lock:job"});
    QCOMPARE(acquire().status, 64);
    QVERIFY(!m_server.exists("lock:job"));
    QCOMPARE(content(), former);
    m_server.command({"SET", "lock:job", "1a:1:b", "PX", "60000"});
    QCOMPARE(run({u"release"_s, u"job"_s, u"--token-file"_s, m_file}).status, 75);
    QCOMPARE(m_server.get("lock:job"), "1a:1:b");
    m_server.command({"DEL", "lock:job"});
    QCOMPARE(acquire().status, 0); // the file was of no use, so release has removed it
    QVERIFY(content() != former);
}

void tst_TokenCommands::namesTheLockOfAnExistingFile_data()
{
    Support::addColumns<QString, bool, QByteArray>("name", "isHeld", "says");
    QTest::newRow("held") << u"two"_s << true << QByteArray("belongs to lock \"job\", which is still held with it");
    QTest::newRow("lost") << u"two"_s << false << QByteArray("belongs to lock \"job\", which it holds no longer");
    QTest::newRow("held, the same lock") << u"job"_s << true << QByteArray("which is still held with it");
}

void tst_TokenCommands::namesTheLockOfAnExistingFile()
{
    QFETCH(QString, name);
    QFETCH(bool, isHeld);
    QFETCH(QByteArray, says);
    QCOMPARE(acquire({u"--prefix"_s, u"app:"_s}).status, 0);
    const QJsonObject before = content();
    if (!isHeld)
        m_server.command({"DEL", "app:job"});
    const Result result = run({u"acquire"_s, name, u"--lease=1m"_s, u"--token-file"_s, m_file});
    QCOMPARE(result.status, 64);
    QVERIFY2(result.errors.contains(says) && result.errors.count('\n') == 1, result.errors.constData());
    QVERIFY(!m_server.exists("lock:" + name.toUtf8()));
    QCOMPARE(content(), before);
}

void tst_TokenCommands::tokenFileIsMadeBeforeTheWait()
{
    m_server.command({"SET", "lock:job", "1a:1:b", "PX", "60000"});
    Program waiting({m_server.url().toEncoded()}, {u"acquire"_s, u"job"_s, u"--lease=1m"_s, u"--token-file"_s, m_file});
    QVERIFY(eventually([this] { return m_server.exists("{lock:job}:queue"); }));
    const Result second = run({u"acquire"_s, u"two"_s, u"--lease=1m"_s, u"--token-file"_s, m_file});
    QCOMPARE(second.status, 64);
    QVERIFY2(second.errors.contains("waits, or was killed"), second.errors.constData());
    QVERIFY(!m_server.exists("lock:two"));
    m_server.command({"DEL", "lock:job"});
    waiting.sendSignal(SIGTERM);
    const int status = waiting.waitForStatus();
    QVERIFY(status == 143 || status == 0);
    QCOMPARE(QFile::exists(m_file), status == 0);
}

void tst_TokenCommands::tokenFileGoesAway_data()
{
    Support::addColumns<QByteArray, bool>("other", "isHeld");
    QTest::newRow("removed") << QByteArray() << true;
    QTest::newRow("that of another acquire") << QByteArray("other") << true;
    QTest::newRow("that of another acquire, at the end of the wait") << QByteArray("other") << false;
}

// Without its file, nobody could release the lock.
void tst_TokenCommands::tokenFileGoesAway()
{
    QFETCH(QByteArray, other);
    QFETCH(bool, isHeld);
    m_server.command({"SET", "lock:job", "1a:1:b", "PX", "60000"});
    Program program({m_server.url().toEncoded()}, {u"acquire"_s, u"job"_s, u"--lease=1m"_s, u"--token-file"_s, m_file});
    QVERIFY(eventually([this] { return m_server.exists("{lock:job}:queue"); }));
    QVERIFY(QFile::remove(m_file));
    QFile file(m_file);
    if (!other.isEmpty())
        QVERIFY(file.open(QIODevice::WriteOnly) && file.write(other) == other.size() && file.flush());
    if (isHeld)
        m_server.command({"DEL", "lock:job"});
    else
        program.sendSignal(SIGTERM);
    QCOMPARE(program.waitForStatus(), isHeld ? 70 : 143);
    if (isHeld) {
        QVERIFY2(program.errors().contains("released again"), program.errors().constData());
        QVERIFY(!m_server.exists("lock:job"));
    }
    QCOMPARE(QFileInfo(m_file).size(), other.size()); // 0 if there is none
    QCOMPARE(QFile::exists(m_file), !other.isEmpty());
}

void tst_TokenCommands::tokenFileIsRefused_data()
{
    QTest::addColumn<QString>("path");
    QTest::newRow("a folder") << m_folder.path();
    QTest::newRow("in a folder that does not exist") << m_folder.filePath(u"no/token"_s);
    QTest::newRow("another file") << QStringLiteral(QDISTLOCK);
    QTest::newRow("a device") << u"/dev/null"_s;
    const QString link = m_folder.filePath(u"link"_s);
    QVERIFY(QFile::exists(link) || QFile::link(m_folder.filePath(u"nowhere"_s), link));
    QTest::newRow("a link") << link;
}

void tst_TokenCommands::tokenFileIsRefused()
{
    QFETCH(QString, path);
    const QFileInfo before(path);
    const qint64 size = before.size();
    const Result result = run({u"acquire"_s, u"job"_s, u"--lease=1m"_s, u"--token-file"_s, path});
    QCOMPARE(result.status, 64);
    QVERIFY2(result.errors.contains("token file") && result.errors.count('\n') == 1, result.errors.constData());
    QVERIFY(!m_server.exists("lock:job"));
    QCOMPARE(QFileInfo(path).size(), size);
}

void tst_TokenCommands::tokenFileCannotBeWritten()
{
    const auto setUp = [] {
        ::signal(SIGXFSZ, SIG_IGN);
        const rlimit none{0, 0};
        ::setrlimit(RLIMIT_FSIZE, &none);
    };
    Program program({m_server.url().toEncoded(), {}, setUp},
                    {u"acquire"_s, u"job"_s, u"--lease"_s, u"1m"_s, u"--token-file"_s, m_file});
    QCOMPARE(program.waitForStatus(), 70);
    QVERIFY2(program.errors().contains("released again"), program.errors().constData());
    QVERIFY(!m_server.exists("lock:job"));
    QVERIFY(!QFile::exists(m_file));
}

void tst_TokenCommands::cannotBeGivenBack()
{
    QFETCH(bool, isRefused);
    QCOMPARE(acquire().status, 0); // now the server knows the scripts
    QCOMPARE(run({u"release"_s, u"job"_s, u"--token-file"_s, m_file}).status, 0);
    Support::FaultProxy proxy(m_server);
    if (isRefused)
        proxy.answer("-ERR no\r\n", "EVALSHA", 2, 1000); // the first one is the acquire
    else
        proxy.cutBefore("EVALSHA", 2);
    const auto setUp = [] {
        const rlimit none{0, 0};
        ::setrlimit(RLIMIT_FSIZE, &none);
    };
    Program program({proxy.url().toEncoded(), {}, setUp},
                    {u"acquire"_s, u"job"_s, u"--lease=1h"_s, u"--token-file"_s, m_file});
    QCOMPARE(program.waitForStatus(), 70);
    QVERIFY(proxy.faultsDone() > 0);
    QCOMPARE(m_server.exists("lock:job"), isRefused);
    QVERIFY2(program.errors().contains("was released again") != isRefused, program.errors().constData());
    QVERIFY2(program.errors().contains("until its lease ends") == isRefused, program.errors().constData());
}

// A script that does not get the fencing token does not know that it holds the lock.
void tst_TokenCommands::outputCannotBeWritten()
{
    QFETCH(BadOutput, output);
    for (const QStringList &options : {QStringList(), QStringList{u"--json"_s}}) {
        Program program({m_server.url().toEncoded(), {}, output},
                        QStringList{u"acquire"_s, u"job"_s, u"--lease"_s, u"1m"_s, u"--token-file"_s, m_file}
                                + options);
        QCOMPARE(program.waitForStatus(), 70);
        QVERIFY2(program.errors().contains("lock \"job\" was released again"), program.errors().constData());
        QVERIFY(!m_server.exists("lock:job"));
        QVERIFY(!QFile::exists(m_file));
    }
    // With --quiet there is nothing to write, so this is no failure.
    Program quiet({m_server.url().toEncoded(), {}, output},
                  {u"acquire"_s, u"-q"_s, u"job"_s, u"--lease"_s, u"1m"_s, u"--token-file"_s, m_file});
    QCOMPARE(quiet.waitForStatus(), 0);
    Program renewal({m_server.url().toEncoded(), {}, output},
                    {u"renew"_s, u"--json"_s, u"job"_s, u"--token-file"_s, m_file});
    QVERIFY(renewal.waitForStatus() > 0);
    Program release({m_server.url().toEncoded(), {}, output},
                    {u"release"_s, u"--json"_s, u"job"_s, u"--token-file"_s, m_file});
    QVERIFY(release.waitForStatus() > 0);
}

void tst_TokenCommands::busy()
{
    m_server.command({"SET", "lock:job", "foreign", "PX", "60000"});
    QCOMPARE(acquire({u"--nonblock"_s}).status, 75);
    QCOMPARE(acquire({u"-w"_s, u"0"_s, u"-E"_s, u"9"_s}).status, 9);
    QVERIFY(!QFile::exists(m_file));
    QCOMPARE(lockKeys(m_server), QList<QByteArray>{"lock:job"});
}

void tst_TokenCommands::busyAfterTheWait()
{
    leavesRoomFor(50ms); // the server must have answered by then
    m_server.command({"SET", "lock:job", "foreign", "PX", "60000"});
    const Result late = acquire({u"-w"_s, u"100ms"_s});
    QCOMPARE(late.status, 75);
    QVERIFY2(late.errors.contains("another library"), late.errors.constData());
    QVERIFY(!QFile::exists(m_file));
    QCOMPARE(lockKeys(m_server), QList<QByteArray>{"lock:job"});
}

// The server has given the lock to somebody who does not know it.
void tst_TokenCommands::replyIsLost()
{
    QCOMPARE(acquire().status, 0); // now the server knows the script
    QCOMPARE(run({u"release"_s, u"job"_s, u"--token-file"_s, m_file}).status, 0);
    Support::FaultProxy proxy(m_server);
    proxy.cutAfter("EVALSHA");
    const Result result = CliTesting::run(
            {proxy.url().toEncoded()},
            {u"acquire"_s, u"-n"_s, u"job"_s, u"--lease"_s, u"1h"_s, u"--token-file"_s, m_file});
    QCOMPARE(proxy.faultsDone(), 1);
    QCOMPARE(result.status, 69);
    QVERIFY2(result.errors.contains("may or may not have run"), result.errors.constData());
    QVERIFY(eventually([this] { return m_server.connectedClients() == 0; }));
    QVERIFY(!m_server.exists("lock:job"));
}

void tst_TokenCommands::signalInTheQueue()
{
    m_server.command({"SET", "lock:job", "1a:1:b", "PX", "60000"});
    Program program({m_server.url().toEncoded()}, {u"acquire"_s, u"job"_s, u"--lease=1m"_s, u"--token-file"_s, m_file});
    QVERIFY(eventually([this] { return m_server.exists("{lock:job}:queue"); }));
    program.sendSignal(SIGTERM);
    QCOMPARE(program.waitForStatus(), 143);
    QVERIFY(!m_server.exists("{lock:job}:queue"));
    QVERIFY(!QFile::exists(m_file));
}

void tst_TokenCommands::renewal()
{
    QCOMPARE(acquire().status, 0);
    m_server.command({"PEXPIRE", "lock:job", "5000"});
    QCOMPARE(run({u"renew"_s, u"job"_s, u"--token-file"_s, m_file}).status, 0);
    QVERIFY(m_server.pttl("lock:job") > 50'000); // --lease of acquire
    const Result longer = run({u"renew"_s, u"job"_s, u"--token-file"_s, m_file, u"--lease"_s, u"1h"_s, u"--json"_s});
    QCOMPARE(longer.status, 0);
    QCOMPARE(QJsonDocument::fromJson(longer.output).object().value(u"outcome"_s).toString(), u"renewed"_s);
    QVERIFY(m_server.pttl("lock:job") > 3'500'000);
}

void tst_TokenCommands::renewalOfALostLock()
{
    QCOMPARE(acquire().status, 0);
    m_server.command({"DEL", "lock:job"});
    const Result gone = run({u"renew"_s, u"job"_s, u"--token-file"_s, m_file});
    QCOMPARE(gone.status, 79);
    QVERIFY2(gone.errors.contains("lost"), gone.errors.constData());
    m_server.command({"SET", "lock:job", "other", "PX", "9000"});
    QCOMPARE(run({u"renew"_s, u"job"_s, u"--token-file"_s, m_file}).status, 79);
    QVERIFY(m_server.pttl("lock:job") <= 9000);
}

void tst_TokenCommands::releaseServesTheNext()
{
    QCOMPARE(acquire().status, 0);
    const QString token = content().value(u"token"_s).toString();
    LockRegistry registry(m_server.url());
    DistributedLock next(&registry, u"job"_s);
    next.setOptions(LockOptions().withWait(LockOptions::Forever).withRetryInterval(1h));
    next.acquire();
    QVERIFY(eventually([&] { return next.queuePosition() == 0; }));
    QCOMPARE(run({u"release"_s, u"job"_s, u"--token-file"_s, m_file}).status, 0);
    QVERIFY(eventually([&] { return next.isHeld(); }));
    QVERIFY(!QFile::exists(m_file));
    const Result again = run({u"release"_s, u"job"_s, u"--token"_s, token});
    QCOMPARE(again.status, 75);
    QVERIFY2(again.errors.contains("somebody else"), again.errors.constData());
    QVERIFY(next.isHeld());
}

void tst_TokenCommands::releaseOfALostLock()
{
    QCOMPARE(acquire().status, 0);
    const QString token = content().value(u"token"_s).toString();
    m_server.command({"DEL", "lock:job"});
    const Result result = run({u"release"_s, u"job"_s, u"--token-file"_s, m_file});
    QCOMPARE(result.status, 1);
    QVERIFY2(result.errors.contains("it was not held any more"), result.errors.constData());
    QVERIFY(!QFile::exists(m_file));
    QCOMPARE(run({u"release"_s, u"job"_s, u"-q"_s, u"--token"_s, token}).errors, QByteArray());
}

void tst_TokenCommands::releaseByToken()
{
    QCOMPARE(acquire().status, 0);
    const QString token = content().value(u"token"_s).toString();
    QCOMPARE(run({u"release"_s, u"other"_s, u"--token"_s, token}).status, 1);
    QCOMPARE(run({u"release"_s, u"job"_s, u"--token"_s, u"nonsense"_s}).status, 64);
    QVERIFY(m_server.exists("lock:job"));
    QCOMPARE(run({u"release"_s, u"job"_s, u"--token="_s + token}).status, 0);
    QVERIFY(!m_server.exists("lock:job"));
}

void tst_TokenCommands::tokenFileIsAPipe()
{
    QFETCH(QString, command);
    const QByteArray path = QFile::encodeName(m_file);
    QCOMPARE(::mkfifo(path.constData(), 0600), 0);
    Program program({m_server.url().toEncoded()}, {command, u"job"_s, u"--token-file"_s, m_file});
    int writer = -1;
    QVERIFY(eventually([&] {
        writer = ::open(path.constData(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
        return writer >= 0; // it reads, and nobody writes
    }));
    program.sendSignal(SIGTERM);
    QCOMPARE(program.waitForStatus(), 128 + SIGTERM);
    ::close(writer);
}

void tst_TokenCommands::wrongTokenFile_data()
{
    Support::addColumns<QByteArray, QByteArray>("text", "error");
    QTest::newRow("none") << QByteArray() << QByteArray("cannot be read");
    QTest::newRow("text") << QByteArray("1a:1:b\n") << QByteArray("not a token file");
    QTest::newRow("an object") << QByteArray("{\"name\":\"job\"}") << QByteArray("not a token file");
    QTest::newRow("huge") << QByteArray(1'000'000, '{') << QByteArray("not a token file");
    QTest::newRow("of another lock") << QByteArray(
            R"({"name":"other","prefix":"lock:","token":"1a:1:b","leaseMs":1000})")
                                     << QByteArray("belongs to lock \"other\"");
    QTest::newRow("of another prefix") << QByteArray(
            R"({"name":"job","prefix":"app:","token":"1a:1:b","leaseMs":1000})")
                                       << QByteArray("\"app:\"");
    QTest::newRow("no token") << QByteArray(R"({"name":"job","prefix":"lock:","token":"\u00e9","leaseMs":1000})")
                              << QByteArray("not a token");
}

void tst_TokenCommands::wrongTokenFile()
{
    QFETCH(QByteArray, text);
    QFETCH(QByteArray, error);
    if (!text.isEmpty()) {
        QFile file(m_file);
        QVERIFY(file.open(QIODevice::WriteOnly) && file.write(text) == text.size());
    }
    m_server.command({"SET", "lock:job", "1a:1:b", "PX", "60000"});
    for (const QString &command : {u"renew"_s, u"release"_s}) {
        const Result result = run({command, u"job"_s, u"--token-file"_s, m_file});
        QCOMPARE(result.status, 64);
        QVERIFY2(result.errors.contains(error) && result.errors.count('\n') == 1, result.errors.constData());
    }
    QVERIFY(m_server.exists("lock:job"));
}

// Each has its token, and their fencing token is the same.
void tst_TokenCommands::readers()
{
    const QString second = m_folder.filePath(u"second"_s);
    const QStringList renewal{u"renew"_s, u"job"_s, u"--token-file"_s, m_file};
    QCOMPARE(acquire({u"--shared"_s}).status, 0);
    const QJsonObject file = content();
    const QStringList other{u"acquire"_s, u"-s"_s, u"job"_s, u"--lease=1m"_s, u"--token-file"_s, second};
    QCOMPARE(run(other).output, QByteArray::number(file.value(u"fence"_s).toInteger()) + '\n');
    QCOMPARE(m_server.command({"ZCARD", "lock:job"}).toInt(), 2);
    QCOMPARE(run({u"acquire"_s, u"job"_s, u"-n"_s, u"--lease=1m"_s, u"--token-file"_s, m_file + u'2'}).status, 75);
    const Result again = run(other);
    QCOMPARE(again.status, 64);
    QVERIFY2(again.errors.contains("lock \"job\", which readers hold, perhaps still with it"),
             again.errors.constData());

    const QByteArray member = file.value(u"token"_s).toString().toLatin1();
    m_server.command({"ZADD", "lock:job", "XX", "INCR", "-30000", member}); // half a minute later
    const auto lease = [&] { return m_server.command({"ZSCORE", "lock:job", member}).toDouble(); };
    const double before = lease();
    QCOMPARE(run(renewal).status, 0);
    QVERIFY(lease() >= before + 30000);

    // The end of one is not that of the other.
    m_server.command({"ZREM", "lock:job", member});
    const Result late = run(renewal);
    QCOMPARE(late.status, 79);
    QVERIFY2(late.errors.contains("it was lost; ") && !late.errors.contains("somebody"), late.errors.constData());
    QCOMPARE(run({u"release"_s, u"job"_s, u"--token-file"_s, m_file}).status, 1);
    QVERIFY(m_server.exists("lock:job"));
    QCOMPARE(run({u"release"_s, u"job"_s, u"--token-file"_s, second}).status, 0);
    QCOMPARE(lockKeys(m_server), QList<QByteArray>());
    QVERIFY(!QFile::exists(second));
}

// Each has its token, and its fencing token.
void tst_TokenCommands::permits()
{
    const QString second = m_folder.filePath(u"second"_s);
    const QStringList renewal{u"renew"_s, u"job"_s, u"--token-file"_s, m_file};
    QCOMPARE(acquire({u"--limit=3"_s, u"--take=2"_s}).status, 0);
    const QJsonObject file = content();
    const QStringList other{u"acquire"_s, u"--limit"_s, u"3"_s, u"job"_s, u"--lease=1m"_s, u"--token-file"_s, second};
    const Result acquired = run(QStringList{u"--json"_s} + other);
    const QJsonObject outcome = QJsonDocument::fromJson(acquired.output).object();
    QVERIFY2(outcome.value(u"fence"_s).toInteger() > file.value(u"fence"_s).toInteger(), acquired.errors.constData());
    QCOMPARE(outcome.value(u"slots"_s).toArray(), QJsonArray{2}); // the first one has 0 and 1
    QCOMPARE(m_server.command({"ZCARD", "lock:job"}).toInt(), 3);
    QCOMPARE(run({u"acquire"_s, u"job"_s, u"-n"_s, u"--limit=3"_s, u"--lease=1m"_s, u"--token-file"_s, m_file + u'2'})
                     .status,
             75);
    const Result again = acquire({u"--limit=3"_s});
    QCOMPARE(again.status, 64);
    QVERIFY2(again.errors.contains("lock \"job\", which holders of permits hold, perhaps still with it"),
             again.errors.constData());

    const QByteArray member = file.value(u"token"_s).toString().toLatin1();
    for (const QByteArray &permit : {member, member + "#2"})
        m_server.command({"ZADD", "lock:job", "XX", "INCR", "-30000", permit}); // half a minute later
    const auto lease = [&](const QByteArray &permit) { // the fraction is the number of the permit
        return std::floor(m_server.command({"ZSCORE", "lock:job", permit}).toDouble());
    };
    const double before = lease(member);
    QVERIFY(before > 0);
    QCOMPARE(run(renewal).status, 0);
    QVERIFY(lease(member) >= before + 30000);
    QCOMPARE(lease(member + "#2"), lease(member));

    // The end of one is not that of the other.
    QCOMPARE(run({u"release"_s, u"job"_s, u"--token-file"_s, m_file}).status, 0);
    QCOMPARE(m_server.command({"ZCARD", "lock:job"}).toInt(), 1);
    const QString token = QString::fromLatin1(member);
    QCOMPARE(run({u"release"_s, u"job"_s, u"--token"_s, token}).status, 1);
    QCOMPARE(run({u"release"_s, u"job"_s, u"--token-file"_s, second}).status, 0);
    QCOMPARE(lockKeys(m_server), QList<QByteArray>());
    QVERIFY(!QFile::exists(second));
}

void tst_TokenCommands::takenAwayFromSharers_data()
{
    Support::addColumns<QString, QByteArrayList>("mode", "question");
    QTest::newRow("readers") << u"--shared"_s
                             << QByteArrayList{"is held by 2 readers, among them client ", "until all readers have"};
    QTest::newRow("holders of permits") << u"--limit=3"_s
                                        << QByteArrayList{
                                                   "is held by the holders of 2 of 3 permits, among them client ",
                                                   "until all holders have"};
}

void tst_TokenCommands::takenAwayFromSharers()
{
    QFETCH(QString, mode);
    QFETCH(QByteArrayList, question);
    const QString second = m_folder.filePath(u"second"_s);
    QCOMPARE(acquire({mode}).status, 0);
    QCOMPARE(run({u"acquire"_s, mode, u"job"_s, u"--lease=1m"_s, u"--token-file"_s, second}).status, 0);
    Terminal terminal;
    Program program({m_server.url().toEncoded(), {}, [&terminal] { terminal.attach(); }},
                    {u"release"_s, u"-v"_s, u"job"_s, u"--force"_s});
    QVERIFY(terminal.waitForOutput("[y/N]"));
    for (const QByteArray &part : question)
        QVERIFY2(terminal.output().contains(part), terminal.output().constData());
    terminal.write("y\n");
    QCOMPARE(program.waitForStatus(), 0);
    QCOMPARE(lockKeys(m_server), QList<QByteArray>());
    for (const QString &file : {m_file, second})
        QCOMPARE(run({u"renew"_s, u"job"_s, u"--token-file"_s, file}).status, 79);
    QVERIFY(QFile::remove(second));
}

void tst_TokenCommands::takenAway()
{
    const QStringList force{u"release"_s, u"job"_s, u"--force"_s, u"--yes"_s};
    QCOMPARE(run(force).status, 1);
    QCOMPARE(acquire().status, 0);
    QCOMPARE(run(force).status, 0);
    QVERIFY(!m_server.exists("lock:job"));
    QCOMPARE(run({u"renew"_s, u"job"_s, u"--token-file"_s, m_file}).status, 79);
    m_server.command({"SET", "lock:job", "foreign"});
    const Result result = run(force + QStringList{u"--json"_s});
    QCOMPARE(result.status, 0);
    QCOMPARE(QJsonDocument::fromJson(result.output).object().value(u"outcome"_s).toString(), u"takenAway"_s);
    QVERIFY(!m_server.exists("lock:job"));
}

void tst_TokenCommands::takenAwayFromOneHolder()
{
    QCOMPARE(acquire().status, 0);
    const qint64 fence = content().value(u"fence"_s).toInteger();
    const auto force = [this](qint64 expected) {
        return run({u"release"_s, u"job"_s, u"--force"_s, u"--yes"_s, u"--expect"_s, QString::number(expected)});
    };
    QCOMPARE(force(fence - 1).status, 75);
    QCOMPARE(force(fence + 1).status, 75);
    QCOMPARE(force(0).status, 75);
    QVERIFY(m_server.exists("lock:job"));
    // Another library's holder has no fencing token; that of the one before is not its.
    const QByteArray token = m_server.get("lock:job");
    m_server.command({"SET", "lock:job", "foreign", "PX", "60000"});
    QCOMPARE(force(fence).status, 75);
    QVERIFY(m_server.exists("lock:job"));
    m_server.command({"SET", "lock:job", token, "PX", "60000"});
    QCOMPARE(force(fence).status, 0);
    QVERIFY(!m_server.exists("lock:job"));
    QCOMPARE(force(fence).status, 1);
}

void tst_TokenCommands::question_data()
{
    Support::addColumns<QByteArray, int>("answer", "status");
    QTest::newRow("y") << QByteArray("y\n") << 0;
    QTest::newRow("yes") << QByteArray("Yes\n") << 0;
    QTest::newRow("n") << QByteArray("n\n") << 75;
    QTest::newRow("nothing") << QByteArray("\n") << 75;
    QTest::newRow("end of input") << QByteArray("\x04") << 75;
}

void tst_TokenCommands::question()
{
    QFETCH(QByteArray, answer);
    QFETCH(int, status);
    QCOMPARE(acquire().status, 0);
    Terminal terminal;
    Program program({m_server.url().toEncoded(), {}, [&terminal] { terminal.attach(); }},
                    {u"release"_s, u"job"_s, u"--force"_s});
    QVERIFY(terminal.waitForOutput("[y/N]"));
    QVERIFY(m_server.exists("lock:job"));
    terminal.write(answer);
    QCOMPARE(program.waitForStatus(), status);
    QCOMPARE(m_server.exists("lock:job"), status != 0);
}

// The lock passes on while the question is asked: the answer was about the former holder.
void tst_TokenCommands::successorIsLeftAlone()
{
    QCOMPARE(acquire().status, 0);
    Terminal terminal;
    Program program({m_server.url().toEncoded(), {}, [&terminal] { terminal.attach(); }},
                    {u"release"_s, u"job"_s, u"--force"_s});
    QVERIFY(terminal.waitForOutput("[y/N]"));
    QCOMPARE(run({u"release"_s, u"job"_s, u"--token-file"_s, m_file}).status, 0);
    QCOMPARE(acquire().status, 0);
    const QByteArray successor = m_server.get("lock:job");
    terminal.write("y\n");
    QCOMPARE(program.waitForStatus(), 75);
    QCOMPARE(m_server.get("lock:job"), successor);
}

void tst_TokenCommands::usageErrors_data()
{
    QTest::addColumn<QStringList>("arguments");
    const auto row = [](const char *line) { QTest::newRow(line) << QString::fromLatin1(line).split(u' '); };
    row("acquire");
    row("acquire job --lease 1m");
    row("acquire job --token-file t");
    row("acquire job --lease 1 --token-file");
    row("acquire job --lease 1ms --token-file t");
    row("acquire job --lease 2d --token-file t");
    row("acquire job -n -w 1s --lease 1m --token-file t");
    row("renew job");
    row("renew job --shared --token-file t");
    row("release job --shared --force --yes");
    row("acquire job --shared");
    row("acquire job --limit 5");
    row("acquire job --limit 5 --take 6 --lease 1m --token-file t");
    row("acquire job --limit 5 -s --lease 1m --token-file t");
    row("renew job --limit 5 --token-file t");
    row("release job --limit 5 --force --yes");
    row("renew job --token-file t --lease 1ms");
    row("release job");
    row("release job --token x --force");
    row("release job --token x --yes");
    row("release job --token-file x --expect 1");
    row("release job --force");
    row("release job --force --yes --expect x");
    row("release --force --yes");
    row("release a b --force --yes");
}

void tst_TokenCommands::usageErrors()
{
    QFETCH(QStringList, arguments);
    const Result result = run(arguments);
    QCOMPARE(result.status, 64);
    QCOMPARE(result.output, QByteArray());
    QVERIFY2(result.errors.startsWith("qdistlock " + arguments.first().toUtf8() + ": "), result.errors.constData());
    QVERIFY2(result.errors.count('\n') == 1 && result.errors.count("qdistlock: ") == 0, result.errors.constData());
    QVERIFY(m_server.keys().isEmpty());
}

void tst_TokenCommands::badServers_data()
{
    Support::addColumns<QByteArray, int>("server", "status");
    QTest::newRow("nobody listens") << QByteArray("redis://:c4n4ry@127.0.0.1:1") << 69;
    QTest::newRow("no socket") << QByteArray("unix:///no/such/socket") << 69;
    QTest::newRow("wrong password") << QByteArray() << 77;
    QTest::newRow("no URL") << QByteArray("redis://:c4n4ry@host:port") << 78;
}

void tst_TokenCommands::badServers()
{
    QFETCH(QByteArray, server);
    QFETCH(int, status);
    if (server.isEmpty()) {
        QUrl url = m_server.url();
        url.setUserInfo(u"somebody:c4n4ry"_s);
        server = url.toEncoded();
    }
    QCOMPARE(acquire().status, 0);
    const QString file = m_folder.filePath(u"other"_s);
    const QList<QStringList> all{
            {u"acquire"_s, u"job"_s, u"--lease"_s, u"1m"_s, u"--token-file"_s, file},
            {u"renew"_s, u"job"_s, u"--token-file"_s, m_file},
            {u"release"_s, u"job"_s, u"--token-file"_s, m_file},
            {u"release"_s, u"job"_s, u"--force"_s, u"--yes"_s},
            {u"release"_s, u"job"_s, u"--force"_s, u"--yes"_s, u"--expect"_s, u"1"_s},
    };
    for (const QStringList &arguments : all) {
        const QString timeout = status == 69 ? u"300ms"_s : u"1m"_s;
        const Result result = CliTesting::run({server}, arguments + QStringList{u"--connect-timeout="_s + timeout});
        QCOMPARE(result.status, status);
        QVERIFY2(result.errors.startsWith("qdistlock " + arguments.first().toUtf8() + ": "), result.errors.constData());
        QVERIFY2(result.errors.count('\n') == 1 && result.errors.count("qdistlock: ") == 0, result.errors.constData());
        QVERIFY2(!result.errors.contains("c4n4ry") && result.output.isEmpty(), result.errors.constData());
        QVERIFY(!QFile::exists(file));
    }
}

// The wait ends before --connect-timeout does.
void tst_TokenCommands::waitWithoutServer()
{
    leavesRoomFor(50ms); // a connection must have been refused by then
    for (const QByteArray server : {"redis://127.0.0.1:1", "unix:///no/such/socket"}) {
        const Result result = CliTesting::run(
                {server},
                {u"acquire"_s, u"job"_s, u"--lease"_s, u"1m"_s, u"-w"_s, u"100ms"_s, u"--token-file"_s, m_file});
        QCOMPARE(result.status, 69);
        QVERIFY2(result.errors.startsWith("qdistlock acquire: ") && result.errors.count('\n') == 1,
                 result.errors.constData());
        QVERIFY(!QFile::exists(m_file));
    }
}

// Neither the password nor the token of a hold, whatever is asked for.
void tst_TokenCommands::secretsStayInside()
{
    m_server.command({"ACL", "SETUSER", "u5er", "on", ">c4n4ry", "~*", "&*", "+@all"});
    QUrl url = m_server.url();
    url.setUserInfo(u"u5er:c4n4ry"_s);
    QCOMPARE(acquire().status, 0);
    const QByteArray token = content().value(u"token"_s).toString().toLatin1();
    const QString other = m_folder.filePath(u"other"_s);
    const QList<QStringList> all{
            {u"show"_s, u"job"_s, u"free"_s},
            {u"ls"_s},
            {u"ls"_s, u"--wide"_s, u"--stale"_s},
            {u"acquire"_s, u"job"_s, u"-n"_s, u"--lease"_s, u"1m"_s, u"--token-file"_s, other},
            {u"acquire"_s, u"another"_s, u"-n"_s, u"--lease"_s, u"1m"_s, u"--token-file"_s, other},
            {u"run"_s, u"-n"_s, u"job"_s, u"true"_s},
            {u"run"_s, u"-n"_s, u"free"_s, u"env"_s},
            {u"doctor"_s},
            {u"renew"_s, u"job"_s, u"--token-file"_s, m_file},
            {u"release"_s, u"job"_s, u"--token-file"_s, m_file},
            {u"release"_s, u"job"_s, u"--token-file"_s, m_file},
    };
    for (const QStringList &arguments : all) {
        for (const QStringList &options : {QStringList(), QStringList{u"-v"_s}, QStringList{u"--json"_s, u"-v"_s}}) {
            const Result result = CliTesting::run({url.toEncoded()}, options + arguments);
            const QByteArray text = result.output + result.errors;
            QVERIFY2(!text.contains("c4n4ry") && !text.contains("u5er") && !text.contains(token), text.constData());
        }
    }
    m_server.command({"ACL", "DELUSER", "u5er"});
}

void tst_TokenCommands::scriptOfThePage()
{
    QFile page(QStringLiteral(COMMAND_LINE_PAGE));
    QVERIFY(page.open(QIODevice::ReadOnly));
    QByteArray script = page.readAll();
    script = script.sliced(std::max<qsizetype>(0, script.indexOf("token=$XDG_RUNTIME_DIR")));
    script.truncate(script.indexOf("```"));
    QVERIFY2(script.contains("\n./count-stock\n"), script.constData());
    script.replace("\n./count-stock\n", "\nqdistlock show inventory && kill -TERM $$\n");
    const QTemporaryDir folder;
    const QString path = QFileInfo(QStringLiteral(QDISTLOCK)).path() + u':' + qEnvironmentVariable("PATH");
    Program program(
            {m_server.url().toEncoded(), {{u"PATH"_s, path}, {u"XDG_RUNTIME_DIR"_s, folder.path()}}, {}, u"sh"_s},
            {u"-c"_s, QString::fromUtf8(script)});
    QVERIFY(program.waitForStatus() > 0);
    QVERIFY2(program.output().contains("holder:"), program.output().constData());
    QVERIFY(!m_server.exists("lock:inventory"));
    QVERIFY(folder.isValid() && QDir(folder.path()).isEmpty());
}

QDISTLOCK_TEST_MAIN(QCoreApplication, tst_TokenCommands)

#include "tst_tokencommands.moc"
