// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Calls in the wrong thread, without an application or an event loop, errors that nobody asks for, values in the
// wrong unit: one clear line in the log each, and every acquire ends.

#include "support/locktest.h"
#include "support/rows.h"

#include <QDistLock/Annotations>
#include <QDistLock/LockInfo>
#include <QDistLock/ScopedLock>

#include <QtCore/qscopeguard.h>
#include <QtCore/qthread.h>

#include <stdexcept>
#include <thread>

using namespace Qt::StringLiterals;

using namespace LockTesting;
using namespace QDistLock;
using namespace Support;

class Sender : public QObject
{
    Q_OBJECT
Q_SIGNALS:
    void fired(const QString &id);
};

class Orders : public QObject
{
    Q_OBJECT
    QDL_LOCKED_METHOD(ship, "order:{id}", "onBusy=fail")
    QDL_LOCKED_METHOD(shpi, "order:{id}")
    QDL_LOCKED_METHOD(pay, "order:{nr}", "wiat=2s; lease=3; fair=perhaps")
public Q_SLOTS:
    void ship(const QString &id) { Q_UNUSED(id) }
    void pack(const QString &id) { Q_UNUSED(id) }
    void pay(const QString &id) { Q_UNUSED(id) }
    void fail(const QString &id)
    {
        Q_UNUSED(id)
        throw std::runtime_error("no paper");
    }
};

/// What main() saw before there was an application.
struct BeforeApplication
{
    bool connected = true;
    bool asyncEnded = false;
    bool invokeEnded = false;
    bool withLockEnded = false;
    LockResult result;
    QStringList warnings;
};
static BeforeApplication beforeApplication;

class tst_Misuse : public RedisLockTest
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase();
    void withoutApplication();
    void acquireInWrongThread();
    void setInWrongThread();
    void registryInWrongThread();
    void movedAfterItsFirstUse_data() { addNamedRows<QString>("when", {"unlocked", "waiting", "held", "releasing"}); }
    void movedAfterItsFirstUse();
    void throwingSlot_data()
    {
        addNamedRows<QByteArray>("signal", {"heldChanged", "acquired", "released", "errorChanged"});
    }
    void throwingSlot();
    void threadWithoutEventLoop();
    void threadThatRunsNoEventLoop();
    void annotatedWithoutEventLoop();
    void refusedFuture();
    void refusedInvocation();
    void throwingWork();
    void misspeltAnnotations();
    void secondsAsLease();
    void scopeBehindOwnLock();
    void longName();

private:
    /// Of a warning in qdistlock.lock; says so if there is not just one.
    static QString onlyWarning(const LogCapture &log);
};

/// An application that goes on after an exception in a slot.
class CatchingApplication : public QCoreApplication
{
public:
    using QCoreApplication::QCoreApplication;
    bool notify(QObject *receiver, QEvent *event) override
    {
        try {
            return QCoreApplication::notify(receiver, event);
        } catch (const std::runtime_error &) {
            ++caught;
            return false;
        }
    }
    inline static int caught = 0;
};

static void useWithoutApplication()
{
    LogCapture log;
    Sender sender;
    Orders orders;
    beforeApplication.connected = bool(connectLocked(&sender, &Sender::fired, &orders, &Orders::ship));
    DistributedLock lock(u"early"_s);
    const QFuture<LockResult> future = lock.acquireAsync();
    beforeApplication.asyncEnded = future.isFinished();
    if (future.isFinished())
        beforeApplication.result = future.result();
    const auto invoked = invokeLocked(&orders, "ship", u"early"_s);
    beforeApplication.invokeEnded = invoked.isFinished();
    const auto done = withLock(u"early"_s, [] {});
    beforeApplication.withLockEnded = done.isFinished();
    beforeApplication.warnings = log.messages(QtWarningMsg);
}

void tst_Misuse::initTestCase()
{
    RedisLockTest::initTestCase();
    LockRegistry::setDefaultServer(m_server.url());
}

QString tst_Misuse::onlyWarning(const LogCapture &log)
{
    const QStringList warnings = log.messages(QtWarningMsg);
    return warnings.size() == 1 ? warnings.first() : u"%1 warnings: "_s.arg(warnings.size()) + log.text();
}

void tst_Misuse::withoutApplication()
{
    const BeforeApplication &before = beforeApplication;
    QVERIFY(!before.connected);
    QVERIFY(before.asyncEnded);
    QCOMPARE(before.result.error, DistributedLock::OptionsError);
    QVERIFY2(before.result.errorString.contains(QLatin1String("QCoreApplication")),
             qPrintable(before.result.errorString));
    QVERIFY(before.invokeEnded);
    QVERIFY(before.withLockEnded);
    QCOMPARE(before.warnings.size(), 4);
    for (const QString &warning : before.warnings)
        QVERIFY2(warning.contains(QLatin1String("QCoreApplication")), qPrintable(warning));
}

void tst_Misuse::acquireInWrongThread()
{
    TestLock lock(registry(), u"job"_s, {});
    QThread *threadOfFailure = nullptr;
    connect(
            &lock, &DistributedLock::acquireFailed, &lock, [&] { threadOfFailure = QThread::currentThread(); },
            Qt::DirectConnection);
    const std::pair<const char *, std::function<void()>> calls[] = {
            {"acquire()", [&] { lock.acquire(); }},
            {"tryAcquire()", [&] { lock.tryAcquire(); }},
            {"acquire()", [&] {
                 const QFuture<LockResult> future = lock.acquireAsync();
                 QVERIFY(future.isFinished());
                 QCOMPARE(future.result().error, DistributedLock::OptionsError);
                 QVERIFY(future.result().errorString.contains(QLatin1String("wrong thread")));
             }}};
    for (const auto &[name, call] : calls) {
        lock.spies.failed.clear();
        LogCapture log;
        std::thread(call).join();
        QVERIFY(lock.spies.failed.isEmpty());
        QVERIFY(eventually([&] { return lock.spies.failed.size() == 1; }));
        QCOMPARE(lock.spies.failure(), DistributedLock::OptionsError);
        QCOMPARE(threadOfFailure, thread());
        for (const QString &text : {onlyWarning(log), lock.errorString()}) {
            QVERIFY2(text.contains(QLatin1String("Lock \"job\"")) && text.contains(QLatin1String(name))
                             && text.contains(QLatin1String("wrong thread"))
                             && text.contains(QLatin1String("lives in the main thread")),
                     qPrintable(text));
        }
    }
    QVERIFY(!m_server.exists("lock:job"));
    QVERIFY2(acquireNow(&lock), qPrintable(lock.errorString()));
}

void tst_Misuse::setInWrongThread()
{
    DistributedLock lock(registry(), u"job"_s);
    lock.setOptions(options(1h));
    QVERIFY2(acquireNow(&lock), qPrintable(lock.errorString()));
    Spies spies(&lock);
    const std::pair<const char *, std::function<void()>> calls[] = {
            {"release()", [&] { lock.release(); }},
            {"release()",
             [&] {
                 const QFuture<bool> future = lock.releaseAsync();
                 QVERIFY(future.isFinished() && !future.result());
             }},
            {"cancel()", [&] { lock.cancel(); }},
            {"setName()", [&] { lock.setName(u"other"_s); }},
            {"setRegistry()", [&] { lock.setRegistry(nullptr); }},
            {"setOptions()", [&] { lock.setOptions({}); }},
            {"setLease()", [&] { lock.setLease(5s); }},
            {"setWaitTime()", [&] { lock.setWaitTime(5s); }},
            {"setRetryInterval()", [&] { lock.setRetryInterval(5s); }},
            {"setAutoRenew()", [&] { lock.setAutoRenew(false); }},
            {"setFair()", [&] { lock.setFair(false); }},
            {"setDefaults()", [&] { registry()->setDefaults(options(5s)); }},
            {"setIdleEviction()", [&] { registry()->setIdleEviction(5s); }}};
    for (const auto &[name, call] : calls) {
        LogCapture log;
        std::thread(call).join();
        const QString warning = onlyWarning(log);
        QVERIFY2(warning.contains(QLatin1String(name)) && warning.contains(QLatin1String("wrong thread")),
                 qPrintable(QLatin1String(name) + u'\n' + warning));
    }
    processEvents();
    QCOMPARE(spies.total(), 0);
    QVERIFY(lock.isHeld());
    QCOMPARE(lock.registry(), registry());
    QCOMPARE(lock.lease(), 1h);
    QVERIFY(lock.isFair() && lock.autoRenew());
    QCOMPARE(registry()->idleEviction(), milliseconds(60s));
}

void tst_Misuse::registryInWrongThread()
{
    QSignalSpy errors(registry(), &LockRegistry::errorOccurred);
    LogCapture log;
    std::thread([&] {
        QVERIFY(!registry()->obtain(u"job"_s));
        const QFuture<LockInfo> inspected = registry()->inspect(u"job"_s);
        const auto listed = registry()->list(u"*"_s);
        const auto forced = registry()->forceRelease(u"job"_s);
        QVERIFY(inspected.isFinished() && listed.isFinished() && forced.isFinished());
        QCOMPARE(inspected.result().error, DistributedLock::OptionsError);
        QVERIFY(inspected.result().errorString.contains(QLatin1String("wrong thread")));
        QCOMPARE(listed.result().error, DistributedLock::OptionsError);
        QCOMPARE(forced.result().error, DistributedLock::OptionsError);
    }).join();
    const QStringList warnings = log.messages(QtWarningMsg);
    QCOMPARE(warnings.size(), 4);
    const QStringList functions{u"obtain()"_s, u"inspect()"_s, u"list()"_s, u"forceRelease()"_s};
    for (int i = 0; i < 4; ++i) {
        QVERIFY2(warnings.at(i).contains(functions.at(i)) && warnings.at(i).contains(QLatin1String("wrong thread")),
                 qPrintable(warnings.at(i)));
    }
    processEvents();
    QVERIFY(errors.isEmpty());
}

/// Its registry stays in the former thread, where everything ends that it had or wanted.
void tst_Misuse::movedAfterItsFirstUse()
{
    QFETCH(const QString, when);
    DistributedLock busy(registry(), u"busy"_s);
    QVERIFY(acquireNow(&busy));
    auto lock = std::make_unique<TestLock>(registry(), when == u"waiting" ? u"busy"_s : u"job"_s,
                                           options(30s, LockOptions::Forever));
    if (when == u"waiting") {
        lock->acquire();
        QVERIFY(eventually([&] { return lock->queuePosition() == 0; }));
    } else {
        QVERIFY(acquireNow(lock.get()));
        if (when != u"held")
            lock->release();
        if (when == u"unlocked")
            QVERIFY(eventually([&] { return lock->state() == DistributedLock::Unlocked; }));
    }

    QThread thread;
    QObject worker;
    worker.moveToThread(&thread);
    const auto stop = qScopeGuard([&thread] {
        thread.quit();
        thread.wait();
    });
    QStringList seen; // in the new thread
    LogCapture log;
    connect(lock.get(), &DistributedLock::acquireFailed, &worker, [&] { seen.append(u"failed"_s); });
    connect(lock.get(), &DistributedLock::lost, &worker, [&] { seen.append(u"lost"_s); });
    lock->moveToThread(&thread);
    const QString warning = onlyWarning(log);
    QVERIFY2(warning.contains(u"moved to another thread"_s) && warning.contains(u"setRegistry()"_s),
             qPrintable(warning));
    QVERIFY(eventually([&] { return lockKeys(m_server) == QList<QByteArray>{"lock:busy"}; })); // it was given back

    QString error;
    QString after;
    thread.start();
    const auto use = [&] {
        LockRegistry own(m_server.url());
        const QFuture<LockResult> refused = lock->acquireAsync();
        eventually([&] { return refused.isFinished(); });
        error = refused.result().errorString;
        lock->setRegistry(&own);
        lock->setName(u"another"_s);
        after = acquireNow(lock.get()) ? QString() : lock->errorString();
        lock.reset();
    };
    QMetaObject::invokeMethod(&worker, use, Qt::BlockingQueuedConnection); // the signals were posted before
    QVERIFY2(error.contains(u"moved to another thread"_s), qPrintable(error));
    QVERIFY(!seen.isEmpty());
    QVERIFY2(after.isEmpty(), qPrintable(after));
    QCOMPARE(seen.first(), when == u"held" || when == u"releasing" ? u"lost"_s : u"failed"_s);
    QVERIFY(eventually([&] { return lockKeys(m_server) == QList<QByteArray>{"lock:busy"}; }));
    QVERIFY(busy.isHeld());
}

/// A slot throws, and the application catches it. The signals of the other locks arrive, and the lock still works.
void tst_Misuse::throwingSlot()
{
    QFETCH(const QByteArray, signal);
    TestLock lock(registry(), u"job"_s, {});
    TestLock other(registry(), u"other"_s, {});
    TestLock busy(registry(), u"job"_s, options().withWait(0ms));
    LogCapture log;
    bool isArmed = true;
    const auto fail = [&isArmed] {
        if (std::exchange(isArmed, false))
            throw std::runtime_error("no paper");
    };
    if (signal == "heldChanged")
        connect(&lock, &DistributedLock::heldChanged, &lock, fail);
    else if (signal == "acquired")
        connect(&lock, &DistributedLock::acquired, &lock, fail);
    else if (signal == "released")
        connect(&lock, &DistributedLock::released, &lock, fail);
    else
        connect(&busy, &DistributedLock::errorChanged, &busy, fail);
    CatchingApplication::caught = 0;
    lock.acquire();
    other.acquire();
    QVERIFY(eventually([&] { return other.spies.acquired.size() == 1; }));
    QVERIFY(eventually([&] { return lock.spies.acquired.size() == 1; }));
    const QFuture<LockResult> refused = busy.tryAcquireAsync();
    QVERIFY(eventually([&] { return refused.isFinished(); }));
    lock.release();
    other.release();
    QVERIFY(eventually([&] { return other.spies.released.size() == 1 && lock.spies.released.size() == 1; }));
    QCOMPARE(CatchingApplication::caught, 1);
    const QString warning = onlyWarning(log);
    QVERIFY2(warning.contains(u"has thrown an exception"_s), qPrintable(warning));
    for (int i = 2; i <= 3; ++i) {
        QVERIFY(acquireNow(&lock));
        lock.release();
        QVERIFY(eventually([&] { return lock.spies.released.size() == i; }));
    }
    QCOMPARE(lock.spies.acquired.size(), 3);
    QVERIFY(lockKeys(m_server).isEmpty());
}

void tst_Misuse::threadWithoutEventLoop()
{
    // A std::thread has no Qt event loop: an acquire of a lock that was made there could never end.
    LogCapture log;
    std::thread([&] {
        DistributedLock lock(u"job"_s);
        const QFuture<LockResult> future = lock.acquireAsync();
        QVERIFY(future.isFinished());
        QCOMPARE(future.result().error, DistributedLock::OptionsError);
        QVERIFY(future.result().errorString.contains(QLatin1String("no Qt event loop")));
    }).join();
    const QString warning = onlyWarning(log);
    QVERIFY2(warning.contains(QLatin1String("\"job\"")) && warning.contains(QLatin1String("no Qt event loop"))
                     && warning.contains(QLatin1String("ScopedLock")),
             qPrintable(warning));

    LogCapture ofInstance;
    std::thread([] { LockRegistry::instance(); }).join();
    QVERIFY2(onlyWarning(ofInstance).contains(QLatin1String("no Qt event loop")), qPrintable(ofInstance.text()));

    // A std::thread that runs a QEventLoop can use locks like a QThread.
    LogCapture ofLoop;
    bool acquired = false;
    std::thread([&] {
        QEventLoop loop;
        DistributedLock lock(u"job"_s);
        acquired = acquireNow(&lock);
    }).join();
    QVERIFY(acquired);
    QVERIFY2(ofLoop.messages(QtWarningMsg).isEmpty(), qPrintable(ofLoop.text()));
}

void tst_Misuse::threadThatRunsNoEventLoop()
{
    const auto inThread = [](const std::function<void()> &run) {
        const std::unique_ptr<QThread> thread(QThread::create(run));
        thread->setObjectName(u"worker"_s);
        thread->start();
        thread->wait();
    };
    LogCapture log;

    // Runs its loop after the call: that is no mistake.
    bool acquired = false;
    inThread([&] {
        DistributedLock lock(u"job"_s);
        const QFuture<LockResult> future = lock.acquireAsync();
        acquired = eventually([&] { return future.isFinished(); }) && future.result().isAcquired();
    });
    QVERIFY(acquired);

    for (const milliseconds wait : {milliseconds(0ms), milliseconds(200ms)}) {
        LockResult result;
        inThread([&] {
            DistributedLock lock(u"job"_s);
            lock.setWaitTime(wait);
            QFuture<LockResult> future = lock.acquireAsync();
            future.waitForFinished();
            result = future.result();
        });
        QCOMPARE(result.error, DistributedLock::OptionsError);
        for (const char *part : {"Lock \"job\"", "thread \"worker\"", "event loop", "exec()", "ScopedLock"})
            QVERIFY2(result.errorString.contains(QLatin1String(part)), qPrintable(result.errorString));
    }
    QCOMPARE(log.messages(QtWarningMsg).size(), 2);
    for (const QString &warning : log.messages(QtWarningMsg))
        QVERIFY2(warning.contains(QLatin1String("thread \"worker\"")), qPrintable(warning));

    // A grant that comes when the future has already ended is given back.
    LockResult late;
    QString state;
    inThread([&] {
        DistributedLock lock(u"job"_s);
        lock.setWaitTime(0ms);
        QFuture<LockResult> future = lock.acquireAsync();
        future.waitForFinished();
        late = future.result();
        Spies spies(&lock);
        if (!eventually([&] { return spies.acquiresEnded() == 1; }))
            state = u"no end"_s;
        else if (!spies.acquired.isEmpty() || lock.isHeld())
            state = u"held"_s;
    });
    QCOMPARE(late.error, DistributedLock::OptionsError);
    QCOMPARE(state, QString());
    QVERIFY(eventually([&] { return !m_server.exists("lock:job"); }));
}

void tst_Misuse::annotatedWithoutEventLoop()
{
    LogCapture log;
    std::thread([&] {
        const QFuture<void> future = withLock(u"job"_s, [] {});
        QVERIFY(future.isFinished());
    }).join();
    const QString warning = onlyWarning(log);
    QVERIFY2(warning.contains(QLatin1String("withLock()")) && warning.contains(QLatin1String("\"job\""))
                     && warning.contains(QLatin1String("no Qt event loop")),
             qPrintable(warning));
}

void tst_Misuse::refusedFuture()
{
    QCOMPARE(m_server.cli({"SET", "lock:job", "somebody", "PX", "600000"}), QByteArray("OK"));
    LogCapture log;
    (void)withLock(u"job"_s, LockOptions().withWait(0ms), [] {});
    const auto lines = [&] { return log.messages(QtInfoMsg) + log.messages(QtWarningMsg); };
    QVERIFY(eventually([&] { return !lines().isEmpty(); }));
    processEvents();
    QCOMPARE(lines().size(), 1);
    QVERIFY2(lines().first().contains(QLatin1String("withLock(): Lock \"job\"")), qPrintable(lines().first()));

    LogCapture ofName;
    (void)withLock(QString(), [] {});
    QVERIFY(eventually([&] { return !ofName.messages(QtWarningMsg).isEmpty(); }));
    QVERIFY2(onlyWarning(ofName).contains(QLatin1String("name is empty")), qPrintable(ofName.text()));
}

void tst_Misuse::refusedInvocation()
{
    QCOMPARE(m_server.cli({"SET", "lock:order:7", "somebody", "PX", "600000"}), QByteArray("OK"));
    Orders orders;
    LogCapture log;
    invokeLocked(&orders, "ship", u"7"_s);
    const auto lines = [&] { return log.messages(QtInfoMsg) + log.messages(QtWarningMsg); };
    QVERIFY(eventually([&] { return !lines().isEmpty(); }));
    processEvents();
    QCOMPARE(lines().size(), 1);
    QVERIFY2(lines().first().contains(QLatin1String("Orders::ship: Lock \"order:7\"")), qPrintable(lines().first()));

    LogCapture ofMethod;
    invokeLocked(&orders, "sihp", u"7"_s);
    QVERIFY2(onlyWarning(ofMethod).contains(QLatin1String("Orders::sihp")), qPrintable(ofMethod.text()));
    LogCapture ofNull;
    invokeLocked(nullptr, "ship", u"7"_s);
    QVERIFY2(onlyWarning(ofNull).contains(QLatin1String("null")), qPrintable(ofNull.text()));
}

void tst_Misuse::throwingWork()
{
    for (const bool later : {false, true}) {
        LogCapture log;
        if (later) {
            (void)withLock(u"job"_s, [] {
                QPromise<void> promise;
                promise.start();
                promise.setException(std::make_exception_ptr(std::runtime_error("no paper")));
                promise.finish();
                return promise.future();
            });
        } else {
            (void)withLock(u"job"_s, [] { throw std::runtime_error("no paper"); });
        }
        QVERIFY(eventually([&] { return !log.messages(QtInfoMsg).isEmpty(); }));
        QCOMPARE(log.messages(QtInfoMsg).size(), 1);
        const QString line = log.messages(QtInfoMsg).first();
        QVERIFY2(line.contains(QLatin1String("withLock(): Lock \"job\"")) && line.contains(QLatin1String("no paper")),
                 qPrintable(line));
        QVERIFY(eventually([&] { return !m_server.exists("lock:job"); }));
    }
}

void tst_Misuse::misspeltAnnotations()
{
    Sender sender;
    Orders orders;
    {
        LogCapture log;
        QVERIFY(!connectLocked(&sender, &Sender::fired, &orders, &Orders::pack));
        const QString warning = onlyWarning(log);
        QVERIFY2(warning.contains(QLatin1String("no annotation")) && warning.contains(QLatin1String("Orders::shpi"))
                         && warning.contains(QLatin1String("no slot or invokable method of this name")),
                 qPrintable(warning));
    }
    LogCapture log;
    QVERIFY(!connectLocked(&sender, &Sender::fired, &orders, &Orders::pay));
    const QStringList problems = validateAnnotations(&Orders::staticMetaObject);
    QCOMPARE(problems.size(), 2);
    for (const QString &text : {onlyWarning(log), problems.filter(u"Orders::pay"_s).value(0)}) {
        for (const char *part :
             {"Orders::pay", "there is no parameter \"nr\"; it has id", "there is no option \"wiat\"",
              "lease: \"3\" is not a duration", "fair: \"perhaps\" is not true or false"})
            QVERIFY2(text.contains(QLatin1String(part)), qPrintable(QLatin1String(part) + u'\n' + text));
    }
    LogCapture ofKey;
    QVERIFY(!connectLocked(&sender, &Sender::fired, &orders, &Orders::pack, u"x:{nr}"_s, u"wait=1; onBusy=retry"_s));
    for (const char *part : {"parameter \"nr\"", "wait: \"1\"", "onBusy: \"retry\""})
        QVERIFY2(onlyWarning(ofKey).contains(QLatin1String(part)), qPrintable(ofKey.text()));
}

void tst_Misuse::secondsAsLease()
{
    LogCapture log;
    DistributedLock lock(u"job"_s);
    lock.setLease(milliseconds(30));
    lock.setOptions(options(30ms));
    lock.setProperty("lease", 100);
    lock.setProperty("lease", 0); // an error of the next acquire
    QVERIFY2(log.messages(QtWarningMsg).isEmpty(), qPrintable(log.text()));
    lock.setProperty("lease", 30);
    lock.setProperty("lease", 20);
    const QString warning = onlyWarning(log);
    QVERIFY2(warning.contains(QLatin1String("\"job\"")) && warning.contains(QLatin1String("milliseconds"))
                     && warning.contains(QLatin1String("30000")),
             qPrintable(warning));

    LogCapture ofNameless;
    DistributedLock nameless;
    nameless.setProperty("lease", 30);
    QVERIFY2(ofNameless.messages(QtWarningMsg).isEmpty(), qPrintable(ofNameless.text()));
    nameless.setName(u"later"_s);
    QVERIFY2(onlyWarning(ofNameless).contains(QLatin1String("\"later\"")), qPrintable(ofNameless.text()));
}

void tst_Misuse::scopeBehindOwnLock()
{
    TestLock lock(registry(), u"job"_s);
    QVERIFY2(acquireNow(&lock), qPrintable(lock.errorString()));
    QVERIFY(ScopedLock(u"connected"_s, options()));
    for (const milliseconds wait : {50ms, 0ms}) {
        LockResult result;
        // A wait may be too short for an answer.
        QVERIFY(eventually([&] {
            result = ScopedLock(u"job"_s, LockOptions().withWait(wait)).result();
            return result.error != DistributedLock::ConnectionError;
        }));
        QCOMPARE(result.error, wait > 0ms ? DistributedLock::TimeoutError : DistributedLock::BusyError);
        QVERIFY2(result.errorString.contains(QLatin1String("a DistributedLock of this same thread holds it")),
                 qPrintable(result.errorString));
        LockResult ofOtherThread;
        std::thread([&] { ofOtherThread = ScopedLock(u"job"_s, LockOptions().withWait(wait)).result(); }).join();
        QVERIFY(!ofOtherThread);
        QVERIFY2(!ofOtherThread.errorString.contains(QLatin1String("DistributedLock")),
                 qPrintable(ofOtherThread.errorString));
    }
}

void tst_Misuse::longName()
{
    const QString name = u"a\nb\0c"_s.leftJustified(99, u'x') + QString::fromUtf8("\xf0\x9f\x94\x92")
            + QString(3000, u'y');
    TestLock lock(registry(), name, {});
    LogCapture log;
    lock.release(); // a warning
    lock.acquire();
    QVERIFY(eventually([&] { return lock.spies.failed.size() == 1; }));
    const ScopedLock scope(name, LockOptions().withWait(0ms));
    const auto inspected = awaited(registry()->inspect(name));
    (void)withLock(name, [] {});
    QVERIFY(eventually([&] { return log.messages(QtWarningMsg).size() >= 2; }));
    QStringList texts = log.messages();
    texts += {lock.errorString(), scope.result().errorString, inspected.errorString};
    for (const QString &text : std::as_const(texts)) {
        QVERIFY2(!text.contains(u'\n') && !text.contains(QChar::Null), qPrintable(text));
        QVERIFY2(!text.contains(u'y' + QString(u'y')), qPrintable(text));
        QVERIFY2(text.contains(QLatin1String("a\\nb\\0cxxx")) && text.contains(u"x…\" (3101 characters)"_s),
                 qPrintable(text));
    }
}

int main(int argc, char **argv)
{
    useWithoutApplication();
    CatchingApplication app(argc, argv);
    tst_Misuse test;
    QTEST_SET_MAIN_SOURCE_PATH
    return QTest::qExec(&test, argc, argv);
}

#include "tst_misuse.moc"
