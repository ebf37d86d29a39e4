// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Code blocks of README.md and docs/ that run, between markers that check.py reads, and what they need around them.

#include <QDistLock/Annotations>
#include <QDistLock/DistributedLock>
#include <QDistLock/LockRegistry>
//! [end-of-program]
#include <QDistLock/QuitOnSignals>
//! [end-of-program]

#include <QCoreApplication>
#include <QFuture>
#include <QProcess>
#include <QSignalSpy>
#include <QTest>
#ifdef QML_MODULE_DIR
#  include <QQmlComponent>
#  include <QQmlEngine>
#endif

#include <chrono>
#include <memory>

using namespace std::chrono_literals;

namespace Annotated {

//! [annotated-slot]
class Orders : public QObject
{
    Q_OBJECT

public:
    QDL_LOCKED_METHOD(ship, "order:{id}") // one at a time for each order, on all machines
    Q_SLOT void ship(const QString &id);
};
//! [annotated-slot]

void Orders::ship(const QString &id)
{
    QVERIFY(QDistLock::isLockedHere("order:" + id));
    setObjectName(id);
}

class Scanner : public QObject
{
    Q_OBJECT

Q_SIGNALS:
    void orderScanned(const QString &id);
};

} // namespace Annotated

namespace Signals {

class Report : public QObject
{
    Q_OBJECT

public:
    void start() { Q_EMIT finished(); }
    void skip(const QString &) {}
    void abort() {}

Q_SIGNALS:
    void finished();
};

} // namespace Signals

namespace Loss {

class Report : public QObject
{
    Q_OBJECT

public:
    explicit Report(QDistLock::DistributedLock *lock)
    {
        connect(lock, &QDistLock::DistributedLock::acquired, this, [this] { m_state = Running; });
        connect(lock, &QDistLock::DistributedLock::lost, this, [this] { m_state = Aborted; });
    }
    bool isRunning() const { return m_state == Running; }
    bool isAborted() const { return m_state == Aborted; }

private:
    enum { New, Running, Aborted } m_state = New;
};

} // namespace Loss

class TestSnippets : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void initTestCase() { QDistLock::LockRegistry::setDefaultServer(QUrl("memory:")); }
    void annotatedSlot();
    void signalsAndSlots();
    void scope();
    void function();
    void lossInATest();
    void identity();
    void nightly();
#ifdef QML_MODULE_DIR
    void qml_data();
    void qml();
#endif
};

void TestSnippets::annotatedSlot()
{
    Annotated::Scanner scanner;
    Annotated::Orders orders;
    using Annotated::Orders;
    using Annotated::Scanner;
    //! [annotated-slot]

    QDistLock::connectLocked(&scanner, &Scanner::orderScanned, &orders, &Orders::ship);
    //! [annotated-slot]
    Q_EMIT scanner.orderScanned("7");
    QTRY_COMPARE(orders.objectName(), "7");
}

void TestSnippets::signalsAndSlots()
{
    using Signals::Report;
    Report report;
    //! [signals]
    using QDistLock::DistributedLock;

    DistributedLock lock("report:daily");
    QObject::connect(&lock, &DistributedLock::acquired, &report, &Report::start);
    QObject::connect(&lock, &DistributedLock::acquireFailed, &report, [&] { report.skip(lock.errorString()); });
    QObject::connect(&lock, &DistributedLock::lost, &report, &Report::abort);
    QObject::connect(&report, &Report::finished, &lock, &DistributedLock::release);
    lock.tryAcquire(); // acquire() would wait in the queue; renews the lease while the lock is held
    //! [signals]
    QSignalSpy released(&lock, &DistributedLock::released);
    QTRY_COMPARE(released.size(), 1);

    lock.disconnect(&report);
    //! [future]
    lock.acquireAsync().then(&report, [&report](const QDistLock::LockResult &result) {
        if (result)
            report.start();
    });
    //! [future]
    QTRY_COMPARE(released.size(), 2);
}

static void countStock() {}
static int sellOne()
{
    return 1;
}

void TestSnippets::scope()
{
    const auto count = []() -> QString {
        //! [scope]
        QDistLock::ScopedLock scope("stock", QDistLock::LockOptions().withWait(2s));
        if (!scope)
            return scope.result().errorString; // who holds it, on which server, what to do
        countStock();
        //! [scope]
        return {};
    };
    QDistLock::ScopedLock::setGuiThreadWaitAllowed(true);
    QCOMPARE(count(), QString());
}

void TestSnippets::function()
{
    //! [function]
    QFuture<int> sold = QDistLock::withLock("stock", [] { return sellOne(); });
    //! [function]
    QTRY_VERIFY(sold.isFinished());
    QCOMPARE(sold.result(), 1);
}

void TestSnippets::lossInATest()
{
    using Loss::Report;
    //! [loss]
    QDistLock::LockRegistry registry(QUrl("memory:"));
    QDistLock::DistributedLock lock(&registry, "report:daily");
    Report report(&lock); // your class: starts at acquired(), aborts at lost()
    lock.acquire();
    QTRY_VERIFY(report.isRunning());

    registry.forceRelease("report:daily"); // emits lost(ForcedRelease)
    QTRY_VERIFY(report.isAborted());

    lock.setAutoRenew(false); // from here on the lease ends: atRisk(), then lost(LeaseExpired)
    lock.setLease(200ms);
    QSignalSpy lost(&lock, &QDistLock::DistributedLock::lost);
    lock.acquire();
    QTRY_COMPARE(lost.count(), 1);
    QVERIFY(report.isAborted());
    //! [loss]
}

void TestSnippets::identity()
{
    //! [identity]
    QDistLock::LockRegistry::setIdentity("nightly");         // the application
    QDistLock::LockRegistry::setIdentity("db7:812:nightly"); // everything
    //! [identity]
    QDistLock::LockRegistry registry(QUrl("memory:"));
    QDistLock::DistributedLock lock(&registry, "report:daily");
    lock.acquire();
    QTRY_VERIFY(lock.isHeld());
    QFuture<QDistLock::LockInfo> info = registry.inspect("report:daily");
    QTRY_VERIFY(info.isFinished());
    QCOMPARE(info.result().holder.host, "db7");
    QCOMPARE(info.result().holder.pid, 812);
    QCOMPARE(info.result().holder.application, "nightly");
}

/// The program of docs/getting-started.md makes its report, and ends at SIGTERM.
void TestSnippets::nightly()
{
    QProcess program;
    QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
    environment.insert("QDISTLOCK_URL", "memory:");
    program.setProcessEnvironment(environment);
    program.setProcessChannelMode(QProcess::MergedChannels);
    program.start(NIGHTLY, QStringList());
    QByteArray output;
    QTRY_VERIFY_WITH_TIMEOUT((output += program.readAll()).contains('\n'), 60000);
    QCOMPARE(output, "The report is made, by this instance only.\n");
    program.terminate();
    QVERIFY(program.waitForFinished(60000));
}

/// Compiled only: there is no such server.
[[maybe_unused]] static void addresses()
{
    //! [addresses]
    using QDistLock::LockAddress;
    using QDistLock::ScopedLock;

    // The key lock:report:daily, on LockRegistry::defaultServer().
    ScopedLock usual("report:daily");
    // The key shop:report:daily.
    ScopedLock prefixed(LockAddress("report:daily").withKeyPrefix("shop:"));
    ScopedLock elsewhere(LockAddress("report:daily").withServer(QUrl("redis://other.example")));
    //! [addresses]
}

/// Compiled only: the test has an application object already.
[[maybe_unused]] static int endOfProgram(int argc, char **argv)
{
    //! [end-of-program]

    QCoreApplication application(argc, argv);
    QDistLock::quitOnSignals(); // Ctrl+C, SIGTERM and SIGHUP end the event loop; exec() returns 128 + signal
    //! [end-of-program]
    return application.exec();
}

#ifdef QML_MODULE_DIR
void TestSnippets::qml_data()
{
    QTest::addColumn<QString>("file");
    for (const char *file : {"Readme.qml", "Window.qml", "Actions.qml", "Monitor.qml", "Metrics.qml"})
        QTest::newRow(file) << file;
}

void TestSnippets::qml()
{
    QFETCH(QString, file);
    QQmlEngine engine;
    engine.addImportPath(QML_MODULE_DIR);
    QSignalSpy warnings(&engine, &QQmlEngine::warnings);
    QQmlComponent component(&engine, QUrl::fromLocalFile(SNIPPET_DIR "/" + file));
    const std::unique_ptr<QObject> object(component.create());
    QVERIFY2(object, qPrintable(component.errorString()));
    QCOMPARE(warnings.size(), 0);
}
#endif

QTEST_MAIN(TestSnippets)

#include "tst_snippets.moc"
