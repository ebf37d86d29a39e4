// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// `qdistlock ls`, `show` and `watch`, and the schema of --json.

#include "clitest.h"

#include "support/aclrules.h"
#include "support/faultproxy.h"
#include "support/locktesting.h"
#include "support/respclient.h"
#include "support/rows.h"
#include "support/testkinds.h"

#include <QtCore/qjsonarray.h>
#include <QtCore/qjsondocument.h>
#include <QtCore/qjsonobject.h>

#include <signal.h>

using namespace Qt::StringLiterals;

using namespace CliTesting;
using QDistLock::DistributedLock;
using QDistLock::LockOptions;
using QDistLock::LockRegistry;
using Support::leavesRoomFor;

class tst_Listing : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase();
    void init() { m_server.command({"FLUSHALL"}); }
    void cleanupTestCase();

    void nothing();
    void columns();
    void columnsOnTerminal();
    void orders();
    void filters();
    void names();
    void bytesThatAreNotUtf8();
    void deadHolder();
    void details();
    void readers();
    void manyReaders();
    void permits();
    void manyPermits();
    void numberOfPermits();
    void numberOfPermitsIsRefused();
    void freeAndForeignLocks();
    void keysOfOtherTypes();
    TIMING void changes();
    TIMING void changesOfReaders();
    TIMING void changesOfPermits();
    void holdsBetweenReadings();
    void holdOfAProgram();
    void holdsBeforeTheClock();
    void mayNotHearOfHolds();
    void silentHolder();
    void outage();
    void nobodyReads();
    void outputCannotBeWritten_data();
    void outputCannotBeWritten();
    void badInput_data();
    void badInput();
    void outcomes();
    void userWhoOnlyReads();

private:
    Result run(const QStringList &arguments);
    QJsonObject json(const QStringList &arguments);
    /// Holds \a name until the end of the test.
    void hold(const QString &name, const LockOptions &options = LockTesting::options());

    Support::RedisServer m_server;
    std::unique_ptr<LockRegistry> m_registry;
    QByteArray m_json; ///< everything printed with --json
};

/// `watch`, as people read it and with --json.
struct Watch
{
    explicit Watch(const QUrl &server, const QString &interval = u"50ms"_s)
        : arguments{u"watch"_s, u"--interval"_s, interval}
        , text({server.toEncoded()}, arguments)
        , events({server.toEncoded()}, arguments + QStringList{u"--json"_s})
    {
    }
    /// Waits for both.
    bool hasPrinted(const QByteArray &line, const QByteArray &event)
    {
        return text.waitForOutput(line) && events.waitForOutput(event);
    }

    const QStringList arguments;
    Program text;
    Program events;
};

/// With the lock "job".
struct Client
{
    explicit Client(const QUrl &server)
        : registry(server)
    {
    }

    LockRegistry registry;
    DistributedLock lock{&registry, u"job"_s};
};

/// Holds locks of other names for a moment, until \a watch has printed that because \a clients have reported it. What
/// they have done before is printed by then, too. \a sign: another one each time.
static bool haveReported(Watch *watch, const QList<Client *> &clients, const QByteArray &sign)
{
    std::vector<std::unique_ptr<DistributedLock>> locks;
    for (Client *const client : clients)
        locks.push_back(std::make_unique<DistributedLock>(
                &client->registry, QString::fromLatin1(sign + QByteArray::number(locks.size()))));
    return eventually([&] {
        bool areAllPrinted = true;
        for (const auto &lock : locks) {
            const QByteArray name = lock->name().toUtf8();
            if (watch->text.output().contains('\t' + name + "\twas held by ")
                && watch->events.output().contains("\"name\":\"" + name + '"'))
                continue;
            areAllPrinted = false;
            if (LockTesting::acquireNow(lock.get()))
                lock->release();
        }
        return areAllPrinted;
    });
}

/// The holds of the lock "reported" that clients have reported, as `watch --json` has printed them.
static QList<QJsonObject> reportedHolds(const QByteArray &output)
{
    QList<QJsonObject> holds;
    const QList<QByteArray> lines = output.trimmed().split('\n');
    for (const QByteArray &line : lines) {
        const QJsonObject object = QJsonDocument::fromJson(line).object();
        const QJsonObject hold = object.value(u"hold"_s).toObject();
        if (object.value(u"event"_s) == u"ended"_s && hold.value(u"name"_s) == u"reported"_s)
            holds += hold;
    }
    return holds;
}

/// The events that `watch --json` has printed, without those of holds that clients report some time later.
static QStringList eventNames(const QByteArray &output)
{
    QStringList names;
    const QList<QByteArray> lines = output.trimmed().split('\n');
    for (const QByteArray &line : lines)
        names += QJsonDocument::fromJson(line).object().value(u"event"_s).toString();
    names.removeAll(u"ended"_s);
    return names;
}

/// The same for the lines of `watch`.
static QList<QByteArray> readingLines(const QByteArray &output)
{
    QList<QByteArray> lines = output.trimmed().split('\n');
    lines.removeIf([](const QByteArray &line) { return line.contains("\twas held by "); });
    return lines;
}

void tst_Listing::initTestCase()
{
    QVERIFY2(m_server.start(), qPrintable(m_server.errorString()));
    m_registry = std::make_unique<LockRegistry>(m_server.url());
}

Result tst_Listing::run(const QStringList &arguments)
{
    const Result result = CliTesting::run({m_server.url().toEncoded()}, arguments);
    if (arguments.contains(u"--json"_s))
        m_json += result.output;
    return result;
}

QJsonObject tst_Listing::json(const QStringList &arguments)
{
    const Result result = run(arguments + QStringList{u"--json"_s});
    return QJsonDocument::fromJson(result.output).object();
}

void tst_Listing::hold(const QString &name, const LockOptions &options)
{
    auto *const lock = new DistributedLock(m_registry.get(), name, m_registry.get());
    lock->setOptions(options);
    QVERIFY2(LockTesting::acquireNow(lock), qPrintable(lock->errorString()));
}

void tst_Listing::nothing()
{
    const Result list = run({u"ls"_s});
    QCOMPARE(list.status, 0);
    QCOMPARE(list.output, QByteArray());
    QCOMPARE(list.errors, QByteArray());
    QVERIFY(json({u"ls"_s}).value(u"locks"_s).toArray().isEmpty());
}

void tst_Listing::columns()
{
    hold(u"deploy:web"_s);
    m_server.command({"SET", "lock:other\nline", "foreign"});
    const QList<QByteArray> lines = run({u"ls"_s}).output.split('\n');
    QCOMPARE(lines.size(), 3);
    const QList<QByteArray> ours = lines.at(0).split('\t');
    QCOMPARE(ours.value(0), QByteArray("deploy:web"));
    QCOMPARE(ours.value(3), QByteArray("0"));
    QCOMPARE(ours.value(4), m_server.get("{lock:deploy:web}:fence"));
    const QList<QByteArray> foreign = lines.at(1).split('\t');
    QCOMPARE(foreign.value(0), QByteArray("other\\nline"));
    QVERIFY2(foreign.value(1).startsWith("another library"), lines.at(1).constData());
    QCOMPARE(foreign.value(2), QByteArray("no end"));
    QCOMPARE(foreign.value(4), QByteArray());

    QCOMPARE(run({u"ls"_s, u"deploy:*"_s}).output.count('\n'), 1);
    QCOMPARE(run({u"ls"_s, u"x*"_s}).output, QByteArray());
    QCOMPARE(run({u"--prefix"_s, u"lock:deploy:"_s, u"ls"_s, u"--names"_s}).output, QByteArray("web\n"));

    const QJsonObject document = json({u"ls"_s});
    QCOMPARE(document.value(u"prefix"_s).toString(), u"lock:"_s);
    const QJsonObject lock = document.value(u"locks"_s).toArray().at(0).toObject();
    QCOMPARE(lock.value(u"name"_s).toString(), u"deploy:web"_s);
    QVERIFY(lock.value(u"ttlMs"_s).toInt() > 10'000);
    const QJsonObject holder = lock.value(u"holder"_s).toObject();
    QCOMPARE(holder.value(u"client"_s).toString().toLatin1(), m_server.get("lock:deploy:web").split(':').first());
    QVERIFY(document.value(u"locks"_s).toArray().at(1).toObject().value(u"ttlMs"_s).isNull());
}

void tst_Listing::columnsOnTerminal()
{
    const QByteArray longName(60, 'x');
    m_server.command({"SET", "lock:b", "foreign"});
    m_server.command({"SET", "lock:" + longName, "foreign"});
    const auto linesOf = [this](const QStringList &options) {
        Terminal terminal;
        terminal.setSize(60, 30);
        Program program({m_server.url().toEncoded(), {}, [&terminal] { terminal.attach(); }},
                        QStringList{u"--color=never"_s, u"ls"_s} + options);
        return program.waitForStatus() == 0 && terminal.waitForOutput("x")
                ? QString::fromUtf8(terminal.output()).split(u"\r\n"_s, Qt::SkipEmptyParts)
                : QStringList();
    };
    const QStringList cut = linesOf({});
    QCOMPARE(cut.size(), 3);
    QCOMPARE(cut.at(0).simplified(), u"NAME HOLDER LEFT QUEUE FENCE"_s);
    QCOMPARE(cut.at(1).simplified(), u"b another library no end 0"_s);
    QVERIFY2(cut.at(2).contains(u"xxx…  another library  no end"_s), qPrintable(cut.at(2)));
    for (const QString &line : cut)
        QCOMPARE(line.size(), 60);
    const QStringList wide = linesOf({u"--wide"_s});
    QCOMPARE(wide.size(), 3);
    QVERIFY2(wide.at(2).startsWith(QString::fromLatin1(longName) + u"  another"_s), qPrintable(wide.at(2)));
}

void tst_Listing::orders()
{
    m_server.command({"SET", "lock:a", "x", "PX", "90000"});
    m_server.command({"SET", "lock:b", "x", "PX", "60000"});
    m_server.command({"SET", "lock:c", "x"});
    m_server.command({"ZADD", "{lock:b}:queue", "1", "1a:1:b"});
    QCOMPARE(run({u"ls"_s, u"--names"_s}).output, QByteArray("a\nb\nc\n"));
    QCOMPARE(run({u"ls"_s, u"--names"_s, u"--sort"_s, u"name"_s}).output, QByteArray("a\nb\nc\n"));
    QCOMPARE(run({u"ls"_s, u"--names"_s, u"--sort=ttl"_s}).output, QByteArray("b\na\nc\n"));
    QCOMPARE(run({u"ls"_s, u"--names"_s, u"--sort=queue"_s}).output, QByteArray("b\na\nc\n"));
}

void tst_Listing::filters()
{
    hold(u"ours"_s);
    m_server.command({"SET", "lock:foreign", "x", "PX", "60000"});
    m_server.command({"SET", "lock:endless", "x"});
    const auto names = [this](const QStringList &options) {
        return run(QStringList{u"ls"_s, u"--names"_s} + options).output;
    };
    QCOMPARE(names({u"--held"_s}), QByteArray("ours\n"));
    QCOMPARE(names({u"--foreign"_s}), QByteArray("endless\nforeign\n"));
    QCOMPARE(names({u"--stale"_s}), QByteArray("endless\n"));
    QCOMPARE(names({u"--held"_s, u"--stale"_s}), QByteArray("endless\nours\n"));
}

void tst_Listing::names()
{
    const QByteArrayList all{"plain", "with space", "🔒", "tab\there", "{t}x"};
    for (const QByteArray &name : all)
        m_server.command({"SET", "lock:" + name, "x", "PX", "60000"});
    const QByteArrayList printed = run({u"ls"_s, u"--names"_s}).output.replace("\\u0009", "\t").trimmed().split('\n');
    QCOMPARE(QSet<QByteArray>(printed.cbegin(), printed.cend()), QSet<QByteArray>(all.cbegin(), all.cend()));
    for (const QByteArray &name : all) {
        const QJsonObject lock =
                json({u"show"_s, QString::fromUtf8(name)}).value(u"locks"_s).toArray().at(0).toObject();
        QCOMPARE(lock.value(u"name"_s).toString(), QString::fromUtf8(name));
        QVERIFY(lock.value(u"held"_s).toBool());
    }
}

// A process that was killed is no longer connected, long before its lease ends.
void tst_Listing::bytesThatAreNotUtf8()
{
    const QByteArray key = "lock:gr\xfc\xdf"; // in Latin-1
    m_server.command({"SET", key, "x", "PX", "60000"});
    m_server.command({"SET", "lock:\xef\xbb\xbf", "x", "PX", "60000"}); // a byte order mark alone
    QByteArrayList printed = run({u"ls"_s, u"--names"_s}).output.trimmed().split('\n');
    std::sort(printed.begin(), printed.end());
    QCOMPARE(printed, (QByteArrayList{"\\udcef\\udcbb\\udcbf", "gr\\udcfc\\udcdf"}));
    // QProcess has no arguments that are not UTF-8.
    const auto inShell = [&](const QString &arguments) {
        CliTesting::Program::Setup shell{m_server.url().toEncoded()};
        shell.program = u"sh"_s;
        return CliTesting::run(
                shell,
                {u"-c"_s,
                 u"N=$(printf 'gr\\374\\337'); %1 %2 %3"_s.arg(QStringLiteral(QDISTLOCK), Patiently, arguments)});
    };
    const Result shown = inShell(u"show --json \"$N\""_s);
    QCOMPARE(shown.status, 0);
    const QJsonObject lock =
            QJsonDocument::fromJson(shown.output).object().value(u"locks"_s).toArray().at(0).toObject();
    QVERIFY2(lock.value(u"held"_s).toBool(), shown.output.constData());
    QCOMPARE(lock.value(u"name"_s).toString(), u"gr"_s + QChar(0xdcfc) + QChar(0xdcdf));
    QCOMPARE(inShell(u"run -n \"$N\" true"_s).status, 75);
    QCOMPARE(inShell(u"release --force --yes \"$N\""_s).status, 0);
    QVERIFY(!m_server.exists(key));
    const Result result = inShell(u"run -n \"$N\" printenv QDISTLOCK_NAME"_s);
    QCOMPARE(result.status, 0);
    QCOMPARE(result.output, "gr\xfc\xdf\n"_ba);
}

void tst_Listing::deadHolder()
{
    Program program({m_server.url().toEncoded()}, {u"hold"_s, u"--lease"_s, u"1h"_s, u"job"_s});
    QVERIFY(program.waitForOutput("held"));
    QCOMPARE(run({u"ls"_s, u"--stale"_s, u"--names"_s}).output, QByteArray());
    program.kill();
    program.waitForStatus();
    QVERIFY(eventually([this] { return run({u"ls"_s, u"--stale"_s, u"--names"_s}).output == "job\n"; }));
    const Result shown = run({u"show"_s, u"job"_s});
    QCOMPARE(shown.status, 0);
    // Nothing is known of it but its id, which is printed once.
    const QByteArray id = m_server.get("lock:job").split(':').first();
    QVERIFY2(shown.output.contains("holder:   client " + id + " (not connected)\n"), shown.output.constData());
    QCOMPARE(shown.output.count(id), 1);
    QVERIFY2(shown.output.contains("qdistlock acquire"), shown.output.constData());
    QVERIFY(run({u"ls"_s}).output.contains("\tclient " + id + " (not connected)\t"));
}

void tst_Listing::details()
{
    hold(u"job"_s);
    LockRegistry other(m_server.url());
    DistributedLock waiter(&other, u"job"_s);
    waiter.setOptions(LockOptions().withWait(LockOptions::Forever));
    waiter.acquire();
    QVERIFY(eventually([&] { return waiter.queuePosition() == 0; }));
    const Result shown = run({u"show"_s, u"job"_s});
    QCOMPARE(shown.status, 0);
    const QByteArray own = QByteArray::number(QCoreApplication::applicationPid());
    QVERIFY2(shown.output.contains("tst_listing on ") && shown.output.contains(", pid " + own),
             shown.output.constData());
    QVERIFY2(shown.output.contains("1 waiting") && shown.output.contains("1. tst_listing on "),
             shown.output.constData());
    QVERIFY(!shown.output.contains(m_server.get("lock:job")));
    QCOMPARE(shown.output.count(m_server.get("lock:job").split(':').first()), 1);

    const QJsonObject lock = json({u"show"_s, u"job"_s}).value(u"locks"_s).toArray().at(0).toObject();
    const QJsonObject holder = lock.value(u"holder"_s).toObject();
    QCOMPARE(holder.value(u"pid"_s).toInteger(), QCoreApplication::applicationPid());
    QCOMPARE(holder.value(u"application"_s).toString(), u"tst_listing"_s);
    QCOMPARE(holder.value(u"connected"_s), QJsonValue(true));
    QCOMPARE(lock.value(u"waiting"_s).toInt(), 1);
    const QJsonObject waiting = lock.value(u"waiters"_s).toArray().at(0).toObject();
    QCOMPARE(waiting.value(u"position"_s).toInt(), 1); // as in the text
    QCOMPARE(waiting.value(u"pid"_s).toInteger(), QCoreApplication::applicationPid());
    QVERIFY(waiting.value(u"client"_s) != holder.value(u"client"_s));
}

void tst_Listing::readers()
{
    const auto shown = [this] { return json({u"show"_s, u"job"_s}).value(u"locks"_s).toArray().at(0).toObject(); };
    const QByteArray own = QByteArray::number(QCoreApplication::applicationPid());
    hold(u"job"_s, LockTesting::options(2h).withMode(LockOptions::Shared));
    const QByteArray single = run({u"ls"_s}).output.split('\t').value(1);
    QVERIFY2(single.startsWith("the reader tst_listing on "), single.constData());
    QVERIFY(run({u"show"_s, u"job"_s}).output.contains("holder:   1 reader\n    tst_listing on "));
    QCOMPARE(shown().value(u"readers"_s).toInt(), 1);

    // The second one ends without a release, and its lease ends first. That is not the end of the lock.
    Program program({m_server.url().toEncoded()}, {u"hold"_s, u"-s"_s, u"--lease"_s, u"1h"_s, u"job"_s});
    QVERIFY(program.waitForOutput("held"));
    program.kill();
    program.waitForStatus();
    QVERIFY(eventually([&] { return run({u"show"_s, u"job"_s}).output.contains(", not connected\n"); }));
    const QByteArray line = run({u"ls"_s, u"--held"_s}).output;
    QVERIFY2(line.startsWith("job\t2 readers, among them client ") && line.contains(" (not connected)\t"),
             line.constData());
    QCOMPARE(line.split('\t').value(4), m_server.get("{lock:job}:fence") + '\n');
    QCOMPARE(run({u"ls"_s, u"--stale"_s}).output, QByteArray());
    const QByteArray details = run({u"show"_s, u"job"_s}).output;
    QVERIFY2(details.contains("holder:   2 readers\n    client ") && details.contains(", pid " + own + '\n'),
             details.constData());
    QVERIFY2(!details.contains("qdistlock acquire"), details.constData());

    const QJsonObject lock = shown();
    QCOMPARE(lock.value(u"readers"_s).toInt(), 2);
    const QJsonArray holders = lock.value(u"holders"_s).toArray();
    QCOMPARE(holders.size(), 2);
    QCOMPARE(holders.at(0), lock.value(u"holder"_s)); // whose lease ends first
    QCOMPARE(holders.at(0).toObject().value(u"connected"_s), QJsonValue(false));
    QCOMPARE(holders.at(1).toObject().value(u"connected"_s), QJsonValue(true));
    QVERIFY(lock.value(u"ttlMs"_s).toInteger() > 3'600'000); // when the last one ends

    hold(u"writer"_s);
    const QJsonArray all = json({u"ls"_s}).value(u"locks"_s).toArray();
    QCOMPARE(all.size(), 2);
    QCOMPARE(all.at(1).toObject().value(u"readers"_s).toInt(), 0);
    QCOMPARE(all.at(1).toObject().value(u"holders"_s).toArray().size(), 1);
}

void tst_Listing::manyReaders()
{
    for (int i = 0; i < 40; ++i)
        m_server.command({"ZADD", "lock:job", "99999999999999", "r1a:" + QByteArray::number(i) + ":00"});
    const QByteArray details = run({u"show"_s, u"job"_s}).output;
    QVERIFY2(details.contains("holder:   40 readers\n    client 1a, not connected\n")
                     && details.contains("    and 8 more\n") && details.contains("its program is dead"),
             details.constData());
    QCOMPARE(run({u"ls"_s, u"--stale"_s, u"--names"_s}).output, QByteArray("job\n"));
    const QJsonObject lock = json({u"show"_s, u"job"_s}).value(u"locks"_s).toArray().at(0).toObject();
    QCOMPARE(lock.value(u"readers"_s).toInt(), 40);
    QCOMPARE(lock.value(u"holders"_s).toArray().size(), 32);
}

void tst_Listing::permits()
{
    const auto shown = [this] { return json({u"show"_s, u"job"_s}).value(u"locks"_s).toArray().at(0).toObject(); };
    hold(u"job"_s, LockTesting::options(2h).withPermits(5).withTake(2));
    const QByteArray single = run({u"ls"_s}).output.split('\t').value(1);
    QVERIFY2(single.startsWith("the holder of 2 of 5 permits, tst_listing on "), single.constData());
    const QByteArray one = run({u"show"_s, u"job"_s}).output;
    QVERIFY2(one.contains("holder:   1 holder of permits\n    tst_listing on ")
                     && one.contains("\n  permits:  5, 2 taken\n"),
             one.constData());

    // The second one ends without a release, and its lease ends first. That is not the end of the lock.
    Program program({m_server.url().toEncoded()}, {u"hold"_s, u"--limit"_s, u"5"_s, u"--lease"_s, u"1h"_s, u"job"_s});
    QVERIFY(program.waitForOutput("held"));
    program.kill();
    program.waitForStatus();
    QVERIFY(eventually([&] { return run({u"show"_s, u"job"_s}).output.contains(", not connected\n"); }));
    const QByteArray line = run({u"ls"_s, u"--held"_s}).output;
    const QByteArray both = line.split('\t').value(1);
    QVERIFY2(both.startsWith("the holders of 3 of 5 permits, among them client ") && both.endsWith(" (not connected)"),
             line.constData());
    QCOMPARE(run({u"ls"_s, u"--stale"_s}).output, QByteArray());
    const QByteArray details = run({u"show"_s, u"job"_s}).output;
    QVERIFY2(details.contains("holder:   2 holders of permits\n    client ")
                     && details.contains("\n  permits:  5, 3 taken\n") && !details.contains("qdistlock acquire"),
             details.constData());

    const QJsonObject lock = shown();
    QCOMPARE(lock.value(u"permits"_s).toInt(), 5);
    QCOMPARE(lock.value(u"permitsTaken"_s).toInt(), 3);
    QCOMPARE(lock.value(u"readers"_s).toInt(), 0);
    const QJsonArray holders = lock.value(u"holders"_s).toArray();
    QCOMPARE(holders.size(), 2);
    QCOMPARE(holders.at(0), lock.value(u"holder"_s)); // whose lease ends first
    QCOMPARE(holders.at(0).toObject().value(u"connected"_s), QJsonValue(false));
    QCOMPARE(holders.at(1).toObject().value(u"connected"_s), QJsonValue(true));
    QVERIFY(lock.value(u"ttlMs"_s).toInteger() > 3'600'000); // when the last one ends
}

// One that takes many may hide others.
void tst_Listing::manyPermits()
{
    hold(u"job"_s, LockTesting::options(1h).withPermits(50).withTake(40));
    const QByteArray details = run({u"show"_s, u"job"_s}).output;
    QVERIFY2(details.contains("holder:   holders of permits\n    tst_listing on ")
                     && details.contains("\n    and perhaps more\n") && details.contains("permits:  50, 40 taken\n"),
             details.constData());
    const QByteArray holder = run({u"ls"_s}).output.split('\t').value(1);
    QVERIFY2(holder.startsWith("the holders of 40 of 50 permits, among them tst_listing on "), holder.constData());
}

void tst_Listing::numberOfPermits()
{
    const Result none = run({u"permits"_s, u"job"_s});
    QCOMPARE(none.status, 1);
    QCOMPARE(none.output, QByteArray());
    QVERIFY2(none.errors.contains("\"job\" has no permits on the server"), none.errors.constData());
    const QJsonObject unknown = json({u"permits"_s, u"job"_s});
    QCOMPARE(unknown.value(u"permits"_s).toInt(-1), 0);
    QCOMPARE(unknown.value(u"taken"_s).toInt(-1), 0);

    const Result set = run({u"permits"_s, u"job"_s, u"5"_s});
    QCOMPARE(set.status, 0);
    QCOMPARE(set.output + set.errors, QByteArray());
    QCOMPARE(m_server.get("{lock:job}:permits"), "5"_ba);
    const QByteArray detail = run({u"permits"_s, u"-v"_s, u"job"_s, u"1"_s}).errors;
    QVERIFY2(detail.contains("\"job\" has 1 permit now, and had 5 before"), detail.constData());
    QCOMPARE(run({u"permits"_s, u"job"_s}).output, "1 permit, 0 taken\n"_ba);
    const QJsonObject changed = json({u"permits"_s, u"job"_s, u"4"_s});
    QCOMPARE(changed.value(u"command"_s).toString(), u"permits"_s);
    QCOMPARE(changed.value(u"name"_s).toString(), u"job"_s);
    QCOMPARE(changed.value(u"permits"_s).toInt(), 4);
    QCOMPARE(changed.value(u"before"_s).toInt(), 1);

    // It is the number of those who ask the server, and who waits is served.
    hold(u"job"_s, LockTesting::options(1h).withPermits(LockOptions::ServerPermits).withTake(4));
    QCOMPARE(run({u"permits"_s, u"job"_s}).output, "4 permits, 4 taken\n"_ba);
    QCOMPARE(run({u"permits"_s, u"job"_s, u"2"_s}).status, 0);
    QCOMPARE(run({u"permits"_s, u"job"_s}).output, "2 permits, 4 taken\n"_ba);
    Program waiting({m_server.url().toEncoded()}, {u"hold"_s, u"--limit"_s, u"server"_s, u"job"_s});
    QVERIFY(eventually([this] { return m_server.exists("{lock:job}:queue"); }));
    QCOMPARE(run({u"permits"_s, u"job"_s, u"5"_s}).status, 0);
    QVERIFY(waiting.waitForOutput("held job fence "));
    const QJsonObject present = json({u"permits"_s, u"job"_s});
    QCOMPARE(present.value(u"permits"_s).toInt(), 5);
    QCOMPARE(present.value(u"taken"_s).toInt(), 5);
    QCOMPARE(present.contains(u"before"_s), false);

    // One that holds the name alone takes them all.
    m_server.command({"SET", "{lock:other}:permits", "3"});
    hold(u"other"_s);
    QCOMPARE(run({u"permits"_s, u"other"_s}).output, "3 permits, 3 taken\n"_ba);
}

void tst_Listing::numberOfPermitsIsRefused()
{
    const auto errorsOf = [this](const QStringList &arguments) {
        const Result result = run(arguments);
        return QByteArray::number(result.status) + ' ' + result.errors;
    };
    const QByteArray away = errorsOf({u"--server"_s, u"redis://127.0.0.1:1"_s, u"permits"_s, u"job"_s, u"5"_s});
    QVERIFY2(away.startsWith("69 qdistlock permits: "), away.constData());
    const QByteArray alsoAway = errorsOf({u"--server"_s, u"redis://127.0.0.1:1"_s, u"permits"_s, u"job"_s});
    QVERIFY2(alsoAway.startsWith("69 qdistlock permits: "), alsoAway.constData());
    const QString withoutScripts = m_server.url().toString() + u"?scripts=off"_s;
    const QByteArray plain = errorsOf({u"--server"_s, withoutScripts, u"permits"_s, u"job"_s, u"5"_s});
    QVERIFY2(plain.startsWith("64 ") && plain.contains("--limit is not available here: "), plain.constData());
    m_server.command({"LPUSH", "{lock:job}:permits", "x"});
    const QByteArray list = errorsOf({u"permits"_s, u"job"_s, u"5"_s});
    QVERIFY2(list.startsWith("64 ") && list.contains("another program uses the key"), list.constData());
}

void tst_Listing::freeAndForeignLocks()
{
    const Result shown = run({u"show"_s, u"nobody"_s});
    QCOMPARE(shown.status, 1);
    QVERIFY2(shown.output.startsWith("nobody\n"), shown.output.constData());
    QVERIFY(!json({u"show"_s, u"nobody"_s}).value(u"locks"_s).toArray().at(0).toObject().value(u"held"_s).toBool());
    m_server.command({"SET", "lock:a", "x"});
    QCOMPARE(run({u"show"_s, u"a"_s}).status, 0);
    const Result both = run({u"show"_s, u"a"_s, u"nobody"_s});
    QCOMPARE(both.status, 1);
    QVERIFY2(both.output.contains("another library") && both.output.contains("no end"), both.output.constData());
}

void tst_Listing::keysOfOtherTypes()
{
    m_server.command({"RPUSH", "lock:list", "x"});
    m_server.command({"SET", "lock:a", "x", "PX", "60000"});
    QCOMPARE(run({u"ls"_s, u"--names"_s}).output, QByteArray("a\n"));
    const Result shown = run({u"show"_s, u"list"_s, u"a"_s});
    QCOMPARE(shown.status, 64);
    QVERIFY2(shown.errors.contains("another program uses the key"), shown.errors.constData());
    QVERIFY(shown.output.startsWith("a\n"));
}

// One line for each change: acquired, passed to another holder, a waiter, freed.
void tst_Listing::changes()
{
    leavesRoomFor(2s); // the waiter has 3 s to claim the lock
    m_server.command({"SET", "lock:before", "x", "PX", "60000"});
    const QStringList arguments{u"watch"_s, u"--interval"_s, u"50ms"_s};
    Program text({m_server.url().toEncoded()}, arguments);
    Program events({m_server.url().toEncoded()}, arguments + QStringList{u"--json"_s});
    QVERIFY(text.waitForOutput("before\theld by another library\n"));
    QVERIFY(events.waitForOutput("\n"));

    LockRegistry registry(m_server.url());
    LockRegistry other(m_server.url());
    DistributedLock lock(&registry, u"job"_s);
    DistributedLock waiter(&other, u"job"_s);
    waiter.setOptions(LockOptions().withWait(LockOptions::Forever));
    QVERIFY(LockTesting::acquireNow(&lock));
    const QByteArray first = QByteArray::number(lock.fencingToken());
    QVERIFY(text.waitForOutput("job\theld by "));
    QVERIFY(text.waitForOutput("fence " + first));
    QVERIFY(events.waitForOutput("\"event\":\"held\""));
    waiter.acquire();
    QVERIFY(text.waitForOutput("job\t1 waiting\n"));
    QVERIFY(events.waitForOutput("\"event\":\"changed\""));
    lock.release();
    QVERIFY(text.waitForOutput("job\tnow held by "));
    QVERIFY(events.waitForOutput("\"event\":\"passed\""));
    waiter.release();
    QVERIFY(text.waitForOutput("job\tfree\n"));
    QVERIFY(events.waitForOutput("\"event\":\"freed\""));
    for (Program *const program : {&text, &events}) {
        program->sendSignal(SIGINT);
        QCOMPARE(program->waitForStatus(), 130);
        QCOMPARE(program->errors(), QByteArray());
    }
    m_json += events.output();
    const QList<QByteArray> lines = events.output().trimmed().split('\n');
    const QJsonObject snapshot = QJsonDocument::fromJson(lines.first()).object();
    QCOMPARE(snapshot.value(u"event"_s).toString(), u"snapshot"_s);
    QCOMPARE(snapshot.value(u"locks"_s).toArray().size(), 1);
}

// One line for each reader that comes or has ended, and none for a renewal, after which another lease may end first.
void tst_Listing::changesOfReaders()
{
    leavesRoomFor(2s);
    Watch watch(m_server.url());
    QVERIFY(watch.events.waitForOutput("snapshot"));
    Client first(m_server.url()), second(m_server.url()), alone(m_server.url());
    for (DistributedLock *const lock : {&first.lock, &second.lock})
        lock->setOptions(LockTesting::options(1h).withMode(LockOptions::Shared));
    QVERIFY(LockTesting::acquireNow(&first.lock));
    QVERIFY(watch.hasPrinted("\theld by the reader tst_listing on ", "\"event\":\"held\""));
    QVERIFY(LockTesting::acquireNow(&second.lock));
    QVERIFY(watch.hasPrinted("job\tnow held by 2 readers, among them tst_listing on ", "\"readers\":2"));
    const QVariantList readers = m_server.command({"ZRANGE", "lock:job", "0", "-1"}).toList();
    QCOMPARE(readers.size(), 2);
    m_server.command({"ZADD", "lock:job", "XX", "INCR", "60000", readers.first().toByteArray()});
    alone.lock.setOptions(LockTesting::options(1h));
    alone.lock.acquire();
    QVERIFY(watch.hasPrinted("job\t1 waiting\n", "\"waiting\":1"));
    second.lock.release();
    QVERIFY(watch.text.waitForOutput("job\tnow held by the reader tst_listing on "));
    QVERIFY(eventually([&watch] { return watch.events.output().count("\"event\":\"changed\"") == 3; }));
    first.lock.release();
    QVERIFY(watch.hasPrinted("job\tnow held by tst_listing on ", "\"event\":\"passed\""));
    for (Program *const program : {&watch.text, &watch.events}) {
        program->sendSignal(SIGINT);
        QCOMPARE(program->waitForStatus(), 130);
    }
    m_json += watch.events.output();
    QCOMPARE(eventNames(watch.events.output()),
             QStringList({u"snapshot"_s, u"held"_s, u"changed"_s, u"changed"_s, u"changed"_s, u"passed"_s}));
    QCOMPARE(readingLines(watch.text.output()).size(), 5);
}

// One line for each holder that comes or has ended, and for another number; none for a renewal.
void tst_Listing::changesOfPermits()
{
    leavesRoomFor(2s);
    Watch watch(m_server.url());
    QVERIFY(watch.events.waitForOutput("snapshot"));
    Client first(m_server.url()), second(m_server.url()), alone(m_server.url());
    for (DistributedLock *const lock : {&first.lock, &second.lock})
        lock->setOptions(LockTesting::options(1h).withPermits(5));
    second.lock.setOptions(second.lock.options().withTake(3));
    QVERIFY(LockTesting::acquireNow(&first.lock));
    QVERIFY(watch.hasPrinted("\theld by the holder of 1 of 5 permits, tst_listing on ", "\"event\":\"held\""));
    QVERIFY(LockTesting::acquireNow(&second.lock));
    QVERIFY(watch.hasPrinted("job\tnow held by the holders of 4 of 5 permits, among them tst_listing on ",
                             "\"permitsTaken\":4"));
    const QVariantList permits = m_server.command({"ZRANGE", "lock:job", "0", "-1"}).toList();
    QCOMPARE(permits.size(), 4);
    m_server.command({"ZADD", "lock:job", "XX", "INCR", "60000", permits.first().toByteArray()});
    QCOMPARE(run({u"permits"_s, u"job"_s, u"6"_s}).status, 0);
    QVERIFY(watch.hasPrinted("job\tnow held by the holders of 4 of 6 permits, among them tst_listing on ",
                             "\"permits\":6"));
    alone.lock.setOptions(LockTesting::options(1h));
    alone.lock.acquire();
    QVERIFY(watch.hasPrinted("job\t1 waiting\n", "\"waiting\":1"));
    second.lock.release();
    QVERIFY(watch.text.waitForOutput("job\tnow held by the holder of 1 of 6 permits, tst_listing on "));
    QVERIFY(eventually([&watch] { return watch.events.output().count("\"event\":\"changed\"") == 4; }));
    first.lock.release();
    QVERIFY(watch.hasPrinted("job\tnow held by tst_listing on ", "\"event\":\"passed\""));
    for (Program *const program : {&watch.text, &watch.events}) {
        program->sendSignal(SIGINT);
        QCOMPARE(program->waitForStatus(), 130);
    }
    m_json += watch.events.output();
    QCOMPARE(eventNames(watch.events.output()),
             QStringList(
                     {u"snapshot"_s, u"held"_s, u"changed"_s, u"changed"_s, u"changed"_s, u"changed"_s, u"passed"_s}));
    QCOMPARE(readingLines(watch.text.output()).size(), 6);
}

/// Each is printed once, as its client reports it.
void tst_Listing::holdsBetweenReadings()
{
    constexpr int Count = 20;
    Client clients[]{Client(m_server.url()), Client(m_server.url())};
    DistributedLock locks[]{{&clients[0].registry, u"reported"_s}, {&clients[1].registry, u"reported"_s}};
    for (DistributedLock &lock : locks) {
        lock.setOptions(LockTesting::options());
        QVERIFY(LockTesting::acquireNow(&lock)); // is connected when clients are asked to report
        lock.release();
    }
    Watch watch(m_server.url(), u"1h"_s); // reads once
    QVERIFY(watch.events.waitForOutput("snapshot"));
    QVERIFY(haveReported(&watch, {&clients[0], &clients[1]}, "a"));
    QList<QByteArray> given; // as the server says
    for (int i = 0; i < Count; ++i) {
        DistributedLock *const lock = &locks[i % 2];
        QVERIFY(LockTesting::acquireNow(lock));
        given += m_server.get("{lock:reported}:fence");
        lock->release();
    }
    QVERIFY(haveReported(&watch, {&clients[0], &clients[1]}, "c"));

    QList<QJsonObject> holds = reportedHolds(watch.events.output());
    QCOMPARE(holds.size(), Count);
    std::sort(holds.begin(), holds.end(), [](const QJsonObject &a, const QJsonObject &b) {
        return a.value(u"fence"_s).toInteger() < b.value(u"fence"_s).toInteger();
    });
    QList<QByteArray> lines = watch.text.output().split('\n');
    lines.removeIf([](const QByteArray &line) { return !line.contains("\treported\twas held by tst_listing on "); });
    QCOMPARE(lines.size(), Count);
    for (int i = 0; i < Count; ++i) {
        const QJsonObject &hold = holds.at(i);
        QCOMPARE(QByteArray::number(hold.value(u"fence"_s).toInteger()), given.at(i));
        QCOMPARE(watch.text.output().count(", fence " + given.at(i) + ", until "), 1);
        const QJsonObject holder = hold.value(u"holder"_s).toObject();
        QCOMPARE(holder.value(u"pid"_s).toInteger(), QCoreApplication::applicationPid());
        QCOMPARE(holder.value(u"client"_s) == holds.at(0).value(u"holder"_s).toObject().value(u"client"_s), i % 2 == 0);
        const auto time = [&hold](const QString &member) {
            return QDateTime::fromString(hold.value(member).toString(), Qt::ISODateWithMs);
        };
        QCOMPARE(time(u"acquired"_s).msecsTo(time(u"released"_s)), hold.value(u"heldMs"_s).toInteger());
        QVERIFY(hold.value(u"waitedMs"_s).toInteger() >= 0);
    }
    m_json += watch.events.output();
}

/// Waits until \a holder has reported to two monitors, as a foreign subscriber to their channels sees it.
static bool reportsToBoth(const Program &holder, const Support::RedisServer &server)
{
    Support::RespClient subscriber;
    if (!subscriber.connectToUnix(server.socketPath()))
        return false;
    subscriber.command({"PSUBSCRIBE", "lock:client:*:monitor"});
    QSet<QByteArray> channels;
    const QByteArray pid = "\"pid\":" + QByteArray::number(holder.processId()) + '}';
    return eventually([&] {
        const QVariantList message = subscriber.readReply(1ms, true).toList();
        if (message.size() == 4 && message.at(3).toByteArray().contains(pid))
            channels.insert(message.at(2).toByteArray());
        return channels.size() == 2;
    });
}

/// It ends with its lock, and reports before that.
void tst_Listing::holdOfAProgram()
{
    Program holder({m_server.url().toEncoded()}, {u"hold"_s, u"--lease=1h"_s, u"reported"_s});
    QVERIFY(eventually([this] { return m_server.exists("lock:reported"); }));
    Watch watch(m_server.url());
    QVERIFY(reportsToBoth(holder, m_server));
    holder.closeWriteChannel();
    QCOMPARE(holder.waitForStatus(), 0);
    QVERIFY(watch.hasPrinted("\treported\twas held by qdistlock on ", "\"event\":\"ended\""));
    QCOMPARE(reportedHolds(watch.events.output()).size(), 1);
}

/// A hold that began before this machine was started.
void tst_Listing::holdsBeforeTheClock()
{
    Client client(m_server.url());
    DistributedLock other(&client.registry, u"other"_s);
    other.setOptions(LockTesting::options());
    QVERIFY(LockTesting::acquireNow(&other));
    const QByteArray id = m_server.get("lock:other").split(':').first();
    Watch watch(m_server.url(), u"1h"_s);
    QVERIFY(watch.events.waitForOutput("snapshot"));
    QVERIFY(haveReported(&watch, {&client}, "a"));
    constexpr qint64 TenYears = 315'360'000'000;
    const QByteArray report = R"(report {"client":")" + id
            + R"(","number":1,"locks":[{"lock":"lock:reported","ended":[[7,0,)" + QByteArray::number(TenYears)
            + R"(,0],5,[1]]},{"lock":"lock:wrong}","ended":[[8,0,0,0]]}]})";
    const QVariantList channels = m_server.command({"PUBSUB", "CHANNELS", "lock:client:*:monitor"}).toList();
    for (const QVariant &channel : channels)
        m_server.command({"PUBLISH", channel.toByteArray(), report});
    QVERIFY(watch.hasPrinted(", fence 7, until ", "\"fence\":7,"));
    QVERIFY(haveReported(&watch, {&client}, "c"));
    const QList<QJsonObject> holds = reportedHolds(watch.events.output());
    QCOMPARE(holds.size(), 1);
    const auto time = [&holds](const QString &member) {
        return QDateTime::fromString(holds.first().value(member).toString(), Qt::ISODateWithMs);
    };
    QCOMPARE(time(u"acquired"_s).msecsTo(time(u"released"_s)), TenYears);
    QVERIFY(time(u"released"_s) <= QDateTime::currentDateTimeUtc());
    QVERIFY(!watch.events.output().contains("wrong"));
}

/// It says so.
void tst_Listing::mayNotHearOfHolds()
{
    QList<QByteArray> rule{"ACL", "SETUSER", "reader"};
    rule += Support::aclRule("lockmonitor", "secret");
    m_server.command(rule + QList<QByteArray>{"-publish"});
    QUrl url = m_server.url();
    url.setUserName(u"reader"_s);
    url.setPassword(u"secret"_s);
    Watch watch(url);
    QVERIFY(watch.text.waitForErrors("past holds and silent holders are not known"));
    m_server.command({"ACL", "DELUSER", "reader"});
}

/// Its process is stopped, and continued.
void tst_Listing::silentHolder()
{
    Program holder({m_server.url().toEncoded()}, {u"hold"_s, u"--lease=1h"_s, u"reported"_s});
    QVERIFY(eventually([this] { return m_server.exists("lock:reported"); }));
    Watch watch(m_server.url());
    QVERIFY(watch.hasPrinted("reported\theld by ", "snapshot"));
    QVERIFY(reportsToBoth(holder, m_server));
    holder.sendSignal(SIGSTOP);
    QVERIFY(watch.hasPrinted("\treported\tits holder is silent: ", "\"event\":\"silent\""));
    holder.sendSignal(SIGCONT);
    QVERIFY(watch.hasPrinted("\treported\tits holder reports again\n", "\"event\":\"reporting\""));

    // Stopped once more, and then somebody else holds the lock.
    holder.sendSignal(SIGSTOP);
    QVERIFY(eventually([&] { return watch.events.output().count("\"event\":\"silent\"") == 2; }));
    Client client(m_server.url());
    DistributedLock lock(&client.registry, u"reported"_s);
    lock.setOptions(LockTesting::options().withWait(LockOptions::Forever));
    QCOMPARE(run({u"release"_s, u"--force"_s, u"--yes"_s, u"reported"_s}).status, 0);
    QVERIFY(LockTesting::acquireNow(&lock));
    const QByteArray fence = QByteArray::number(lock.fencingToken());
    QVERIFY(watch.events.waitForOutput("\"fence\":" + fence + ','));
    QVERIFY(haveReported(&watch, {&client}, "a"));
    lock.release();
    QVERIFY(watch.events.waitForOutput("\"event\":\"ended\",\"hold\":{"));
    QVERIFY(eventually([&] { return watch.text.output().contains(", fence " + fence + ", until "); }));
    m_json += watch.events.output();
    QCOMPARE(watch.events.output().count("\"event\":\"reporting\""), 1);
    holder.sendSignal(SIGCONT);
    holder.closeWriteChannel();
    QVERIFY(holder.waitForStatus() >= 0);
}

void tst_Listing::outage()
{
    Support::FaultProxy proxy(m_server);
    const QByteArray url = proxy.url().toEncoded();
    Program program({url}, {u"watch"_s, u"--interval=50ms"_s, u"--json"_s});
    QVERIFY(program.waitForOutput("snapshot"));
    proxy.setRefusing(true);
    proxy.closeAll();
    QVERIFY(program.waitForOutput("\"event\":\"unreachable\""));
    hold(u"job"_s);
    proxy.setRefusing(false);
    QVERIFY(program.waitForOutput("\"event\":\"reachable\""));
    QVERIFY(program.waitForOutput("\"event\":\"held\""));
    program.sendSignal(SIGTERM);
    QCOMPARE(program.waitForStatus(), 143);
    m_json += program.output();
}

// It does not wait for a change that it cannot print.
void tst_Listing::outputCannotBeWritten_data()
{
    addBadOutputs();
}

void tst_Listing::outputCannotBeWritten()
{
    QFETCH(BadOutput, output);
    m_server.command({"SET", "lock:job", "x", "PX", "600000"});
    for (const QStringList &command : {QStringList{u"ls"_s},
                                       {u"ls"_s, u"--names"_s},
                                       {u"show"_s, u"job"_s},
                                       {u"watch"_s},
                                       {u"metrics"_s},
                                       {u"doctor"_s}}) {
        for (const QStringList &options : {QStringList(), QStringList{u"--json"_s}}) {
            Program program({m_server.url().toEncoded(), {}, output}, command + options);
            const int status = program.waitForStatus();
            const QByteArray what = command.join(u' ').toUtf8() + ": " + QByteArray::number(status) + ' '
                    + program.errors();
            QVERIFY2(status == 70 || status == 128 + SIGXFSZ, what.constData());
            QVERIFY2(status != 70 || what.contains("standard output cannot be written"), what.constData());
        }
    }
}

void tst_Listing::nobodyReads()
{
    m_server.command({"SET", "lock:job", "x", "PX", "60000"});
    Support::TestProgram shell(u"sh"_s,
                               {u"-c"_s,
                                u"\"$0\" --server \"$1\" --connect-timeout=1m watch --interval 50ms | head -n 1"_s,
                                QStringLiteral(QDISTLOCK), QString::fromLatin1(m_server.url().toEncoded())});
    QVERIFY(shell.waitForEnd());
    QVERIFY2(shell.output().endsWith("job\theld by another library\n"), shell.output().constData());
}

void tst_Listing::badInput_data()
{
    Support::addColumns<QStringList, QByteArray, int>("arguments", "server", "status");
    const auto row = [](const char *line, const QByteArray &server, int status) {
        QTest::addRow("%s, %d", line, status) << QString::fromLatin1(line).split(u' ') << server << status;
    };
    row("ls a b", {}, 64);
    row("ls --sort age", {}, 64);
    row("show", {}, 64);
    row("watch --interval 1ms", {}, 64);
    row("watch --interval x", {}, 64);
    for (const char *const line : {"ls", "show job", "watch", "ls --json", "watch --json"}) {
        row(line, "redis://u5er:c4n4ry@127.0.0.1:1", 69);
        row(line, "wrong", 77);
        row(line, "redis://u5er:c4n4ry@host:port", 78);
        row(line, "nonsense://host", 78);
    }
}

void tst_Listing::badInput()
{
    QFETCH(QStringList, arguments);
    QFETCH(QByteArray, server);
    QFETCH(int, status);
    QUrl url = m_server.url();
    if (server == "wrong")
        url.setUserInfo(u"u5er:c4n4ry"_s);
    const Result result = CliTesting::run({server.isEmpty() || server == "wrong" ? url.toEncoded() : server},
                                          arguments);
    QCOMPARE(result.status, status);
    QVERIFY2(result.errors.startsWith("qdistlock " + arguments.first().toUtf8() + ": ")
                     && result.errors.count('\n') == 1,
             result.errors.constData());
    QVERIFY2(!result.errors.contains("c4n4ry") && !result.errors.contains("u5er"), result.errors.constData());
    QCOMPARE(result.output, QByteArray());
}

// The other commands, for the schema.
void tst_Listing::outcomes()
{
    const QTemporaryDir folder;
    const QString file = folder.filePath(u"token"_s);
    const QString copy = folder.filePath(u"copy"_s);
    const auto outcome = [this](const QStringList &arguments) {
        return json(arguments).value(u"outcome"_s).toString();
    };
    QCOMPARE(outcome({u"acquire"_s, u"job"_s, u"--lease"_s, u"1m"_s, u"--token-file"_s, file}), u"acquired"_s);
    QCOMPARE(outcome({u"renew"_s, u"job"_s, u"--token-file"_s, file}), u"renewed"_s);
    QVERIFY(QFile::copy(file, copy));
    QCOMPARE(outcome({u"release"_s, u"job"_s, u"--token-file"_s, file}), u"released"_s);
    QVERIFY(QFile::copy(copy, file));
    QCOMPARE(outcome({u"release"_s, u"job"_s, u"--token-file"_s, file}), u"notHeld"_s);
    QCOMPARE(outcome({u"renew"_s, u"job"_s, u"--token-file"_s, copy}), u"notHeld"_s);
    m_server.command({"SET", "lock:job", "x", "PX", "60000"});
    QCOMPARE(outcome({u"renew"_s, u"job"_s, u"--token-file"_s, copy}), u"otherHolder"_s);
    QCOMPARE(outcome({u"release"_s, u"job"_s, u"--token-file"_s, copy}), u"otherHolder"_s);
    QCOMPARE(outcome({u"release"_s, u"job"_s, u"--force"_s, u"--yes"_s}), u"takenAway"_s);
    QVERIFY(json({u"doctor"_s}).contains(u"checks"_s));
    Program holder({m_server.url().toEncoded()}, {u"hold"_s, u"--json"_s, u"job"_s});
    QVERIFY(holder.waitForOutput("held"));
    m_server.command({"DEL", "lock:job"});
    holder.closeWriteChannel();
    holder.waitForStatus();
    m_json += holder.output();
}

/// The user for monitors in docs/acl.txt.
void tst_Listing::userWhoOnlyReads()
{
    QCOMPARE(m_server.command(QByteArrayList{"ACL", "SETUSER", "lockmonitor"}
                              + Support::aclRule("lockmonitor", "c4n4ry"))
                     .toByteArray(),
             "OK");
    m_server.command({"ACL", "LOG", "RESET"});
    hold(u"written"_s);
    hold(u"read"_s, LockTesting::options().withMode(LockOptions::Shared));
    QUrl url = m_server.url();
    url.setUserName(u"lockmonitor"_s);
    url.setPassword(u"c4n4ry"_s);
    const auto run = [&url](const QStringList &arguments) { return CliTesting::run({url.toEncoded()}, arguments); };
    const QByteArray pid = QByteArray::number(QCoreApplication::applicationPid());
    for (const QStringList &arguments : {QStringList{u"ls"_s}, QStringList{u"show"_s, u"written"_s, u"read"_s}}) {
        const Result result = run(arguments);
        QVERIFY2(result.status == 0 && result.errors.isEmpty(), result.errors.constData());
        QVERIFY2(result.output.contains("written") && result.output.contains("read"), result.output.constData());
        QCOMPARE(result.output.count(pid), 2);
    }
    const Result metrics = run({u"metrics"_s});
    QVERIFY2(metrics.status == 0, metrics.errors.constData());
    for (const char *const group : {"written", "read"})
        QVERIFY2(metrics.output.contains(QByteArray("group=\"") + group + "\"} 1\n"), metrics.output.constData());
    Program watch({url.toEncoded()}, {u"watch"_s});
    QVERIFY(watch.waitForOutput("written"));
    QCOMPARE(m_server.command({"ACL", "LOG"}).toList().size(), 0); // none of these asks for what it may not have

    const Result released = run({u"release"_s, u"written"_s, u"--force"_s, u"--yes"_s});
    QCOMPARE(released.status, 77);
    QVERIFY(m_server.exists("lock:written"));
    const Result doctor = run({u"doctor"_s}); // is for those who use locks
    QCOMPARE(doctor.status, 2);
    QVERIFY2(doctor.output.contains("the user lacks +set"), doctor.output.constData());
    QVERIFY2(doctor.output.contains("2 held"), doctor.output.constData());
}

void tst_Listing::cleanupTestCase()
{
    const QByteArray problems = problemsOfJson(m_json);
    QVERIFY2(problems.isEmpty(), problems.constData());
    m_registry.reset();
}

QDISTLOCK_TEST_MAIN(QCoreApplication, tst_Listing)

#include "tst_listing.moc"
