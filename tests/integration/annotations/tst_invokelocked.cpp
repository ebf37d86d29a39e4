// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// invokeLocked() on a real server: overloads, conversions, threads, and objects that were destroyed.

#include "annotationtest.h"
#include "base/readyfuture.h"
#include "receiver.h"
#include "support/rows.h"

#include <QtCore/qsemaphore.h>
#include <QtCore/qthread.h>

#include <limits>
#include <memory>
#include <stdexcept>

using namespace Qt::StringLiterals;

using namespace AnnotationTesting;
using namespace LockTesting;
using namespace QDistLock;

/// The methods that the tests invoke.
class Invokable : public QObject
{
    Q_OBJECT
    QDL_LOCKED_METHOD(twice, "invoke:{value}", "retryInterval=20ms")
    QDL_LOCKED_METHOD(over, "invoke:over")
    QDL_LOCKED_METHOD(skipped, "invoke:busy", "onBusy=skip")
    QDL_LOCKED_METHOD(failing, "invoke:busy", "onBusy=fail")
    QDL_LOCKED_METHOD(waiting, "invoke:busy", "wait=300ms; retryInterval=20ms")
    QDL_LOCKED_METHOD(patient, "invoke:busy", "wait=forever; retryInterval=20ms")
    QDL_LOCKED_METHOD(throwing, "invoke:throw")
    QDL_LOCKED_METHOD(anything, "invoke:any", "wait=5min")
    QDL_LOCKED_METHOD(nothing, "invoke:nothing")
    QDL_LOCKED_METHOD(where, "invoke:where", "wait=5min")
    QDL_LOCKED_METHOD(wrong, "invoke:{nr}")
    QDL_LOCKED_METHOD(defaulted, "invoke:{a}")
    QDL_LOCKED_METHOD(object, "invoke:any", "wait=5min")
public:
    int calls = 0;

    Q_INVOKABLE int twice(int value)
    {
        ++calls;
        return isLockedHere(u"invoke:%1"_s.arg(value)) ? 2 * value : -1;
    }
    Q_INVOKABLE QString over(int value) { return u"int %1"_s.arg(value); }
    Q_INVOKABLE QString over(const QString &value) { return u"text %1"_s.arg(value); }
    Q_INVOKABLE QString over(int a, int b) { return u"two %1 %2"_s.arg(a).arg(b); }
    Q_INVOKABLE int skipped() { return ++calls; }
    Q_INVOKABLE int failing() { return ++calls; }
    Q_INVOKABLE int waiting() { return ++calls; }
    Q_INVOKABLE int patient() { return ++calls; }
    Q_INVOKABLE int throwing() { throw std::runtime_error("thrown"); }
    Q_INVOKABLE QVariant anything(const QVariant &value) { return value; }
    Q_INVOKABLE void nothing() { ++calls; }
    Q_INVOKABLE bool where() { return QThread::currentThread() == thread(); }
    Q_INVOKABLE int wrong(int value) { return value; }
    Q_INVOKABLE int defaulted(int a, int b = 7) { return a + b; }
    Q_INVOKABLE bool object(QObject *object) { return object != nullptr; }
    Q_INVOKABLE int bare() { return 1; }
};

class tst_InvokeLocked : public AnnotationTest
{
    Q_OBJECT

private Q_SLOTS:
    void invokes();
    void invokesOverloads();
    void invokesBusy();
    void invokesWrong();
    void invokesWithoutLoss_data();
    void invokesWithoutLoss();
    void invokesInAnotherThread();
    void invokesOfTheDead();
    void invokesWithTheDead_data();
    void invokesWithTheDead();
    void continuationsHaveNoLock_data()
    {
        Support::addNamedRows<QString>("kind", {"value", "void", "exception", "future", "invoked"});
    }
    void continuationsHaveNoLock();
};

void tst_InvokeLocked::invokes()
{
    Invokable object;
    QFuture<QVariant> future = invokeLocked(&object, "twice", 21);
    QVERIFY(!future.isFinished());
    QVERIFY(finished(future));
    QCOMPARE(future.result(), QVariant(42));
    future = invokeLocked(&object, "twice", QVariantList{u"4"_s});
    QVERIFY(finished(future));
    QCOMPARE(future.result(), QVariant(8));
    future = invokeLocked(&object, "nothing");
    QVERIFY(finished(future));
    QCOMPARE(future.result(), QVariant());
    QCOMPARE(object.calls, 3);
    future = invokeLocked(&object, "anything", u"x"_s);
    QVERIFY(finished(future));
    QCOMPARE(future.result(), QVariant(u"x"_s));
    future = invokeLocked(&object, "defaulted", 1);
    QVERIFY(finished(future));
    QCOMPARE(future.result(), QVariant(8));
    future = invokeLocked(&object, "defaulted", 1, 2);
    QVERIFY(finished(future));
    QCOMPARE(future.result(), QVariant(3));
    future = invokeLocked(&object, "throwing");
    QVERIFY(finished(future));
    QVERIFY_THROWS_EXCEPTION(std::runtime_error, future.result());
    QVERIFY(nothingLeft());
}

void tst_InvokeLocked::invokesOverloads()
{
    Invokable object;
    const auto result = [&](const QFuture<QVariant> &future) {
        return finished(future) ? future.result().toString() : QString();
    };
    QCOMPARE(result(invokeLocked(&object, "over", 1)), u"int 1"_s);
    QCOMPARE(result(invokeLocked(&object, "over", u"1"_s)), u"text 1"_s);
    QCOMPARE(result(invokeLocked(&object, "over", "1")), u"text 1"_s);
    QCOMPARE(result(invokeLocked(&object, "over", QLatin1String("1"))), u"text 1"_s);
    QCOMPARE(result(invokeLocked(&object, "over", u"1")), u"text 1"_s);
    QCOMPARE(result(invokeLocked(&object, "over", 1, 2)), u"two 1 2"_s);
    QCOMPARE(result(invokeLocked(&object, "over", QVariant(1), "2")), u"two 1 2"_s);
}

void tst_InvokeLocked::invokesBusy()
{
    Invokable object;
    hold("lock:invoke:busy");
    QSignalSpy failed(LockedCalls::instance(), &LockedCalls::failed);
    const LogCapture log;
    const auto skipped = invokeLocked(&object, "skipped");
    QVERIFY(finished(skipped));
    QVERIFY(!skipped.isCanceled());
    QCOMPARE(skipped.result(), QVariant());
    const auto failing = invokeLocked(&object, "failing");
    QVERIFY(finished(failing));
    QCOMPARE(failureOf(failing).error, DistributedLock::BusyError);
    const LockResult timeOut = timeOutOf([&](milliseconds) { // of the annotation: it is only repeated
        const auto waiting = invokeLocked(&object, "waiting");
        return finished(waiting) ? failureOf(waiting) : LockResult();
    });
    QCOMPARE(timeOut.error, DistributedLock::TimeoutError);
    QVERIFY2(timeOut.errorString.contains(u"invoke:busy"_s), qPrintable(timeOut.errorString));
    // The futures have reported the failures to the caller.
    QCOMPARE(failed.size(), 0);
    QCOMPARE(log.count({u"dropped"_s}), 0);

    auto patient = invokeLocked(&object, "patient");
    QVERIFY(eventually([&] { return m_server.exists("{lock:invoke:busy}:queue"); }));
    patient.cancel();
    QVERIFY(finished(patient));
    QVERIFY(eventually([&] { return !m_server.exists("{lock:invoke:busy}:queue"); }));
    letGo("lock:invoke:busy");
    QCOMPARE(object.calls, 0);
    const auto again = invokeLocked(&object, "skipped");
    QVERIFY(finished(again));
    QCOMPARE(again.result(), QVariant(1));
}

void tst_InvokeLocked::invokesWrong()
{
    Invokable object;
    const auto text = [](const QFuture<QVariant> &future) {
        if (!finished(future))
            return QString();
        const LockResult result = failureOf(future);
        return result.error == DistributedLock::OptionsError ? result.errorString : QString();
    };
    const auto contains = [](const QString &all, const char *part) { return all.contains(QString::fromUtf8(part)); };
    QString error = text(invokeLocked(&object, "wrong", 1));
    QVERIFY2(contains(error, "Invokable::wrong: QDL_LOCKED_METHOD(wrong, \"invoke:{nr}\")"), qPrintable(error));
    error = text(invokeLocked(&object, "nowhere"));
    QVERIFY2(contains(error, "Invokable::nowhere: there is no slot or invokable method"), qPrintable(error));
    error = text(invokeLocked(&object, "twice"));
    QVERIFY2(contains(error, "Invokable::twice: no method of this name takes (); there is twice(int)"),
             qPrintable(error));
    error = text(invokeLocked(&object, "twice", QVariantMap()));
    QVERIFY2(contains(error,
                      "Invokable::twice: argument 1: QVariantMap cannot be converted to int; there is twice(int)"),
             qPrintable(error));
    error = text(invokeLocked(&object, "bare"));
    QVERIFY2(contains(error, "Invokable::bare: there is no annotation"), qPrintable(error));
    error = text(invokeLocked(nullptr, "twice", 1));
    QVERIFY2(contains(error, "null"), qPrintable(error));
}

void tst_InvokeLocked::invokesWithoutLoss_data()
{
    Support::addColumns<QVariant, QString>("argument", "problem");
    const auto row = [](const QVariant &argument, const char *problem) {
        QTest::addRow("%s %s", argument.typeName(), problem) << argument << QString::fromUtf8(problem);
    };
    row(1.5, "1.5 does not fit into int");
    row(qQNaN(), "NaN does not fit into int");
    row(1e20, "100000000000000000000 does not fit into int");
    row(qint64(1) << 31, "2147483648 does not fit into int");
    row((std::numeric_limits<quint64>::max)(), "18446744073709551615 does not fit into int");
    row(QVariant::fromValue(nullptr), "null is no int");
    row(u"1.5"_s, "QString cannot be converted to int");
    row(7.0, "");
    row(qint64(7), "");
    row(u"7"_s, "");
}

void tst_InvokeLocked::invokesWithoutLoss()
{
    QFETCH(QVariant, argument);
    QFETCH(QString, problem);
    Invokable object;
    const auto future = invokeLocked(&object, "twice", QVariantList{argument});
    QVERIFY(finished(future));
    QCOMPARE(object.calls, problem.isEmpty() ? 1 : 0);
    if (problem.isEmpty())
        QCOMPARE(future.result(), QVariant(14));
    else
        QVERIFY2(failureOf(future).errorString.contains(u"argument 1: "_s + problem),
                 qPrintable(failureOf(future).errorString));
}

void tst_InvokeLocked::invokesInAnotherThread()
{
    LoopThread worker;
    auto *object = new Invokable;
    object->moveToThread(&worker.thread);
    QList<QFuture<QVariant>> futures;
    for (int i = 0; i < 50; ++i)
        futures.append(i % 2 ? invokeLocked(object, "where") : invokeLocked(object, "twice", i));
    for (int i = 0; i < 50; ++i) {
        QVERIFY(finished(futures.at(i)));
        QCOMPARE(futures.at(i).result(), i % 2 ? QVariant(true) : QVariant(2 * i));
    }
    object->deleteLater();
}

void tst_InvokeLocked::invokesOfTheDead()
{
    hold("lock:invoke:busy");
    auto object = std::make_unique<Invokable>();
    const auto first = invokeLocked(object.get(), "patient");
    const auto second = invokeLocked(object.get(), "patient");
    QVERIFY(eventually([&] { return m_server.exists("{lock:invoke:busy}:queue"); }));
    object.reset();
    QVERIFY(finished(first) && finished(second));
    QCOMPARE(failureOf(first).error, DistributedLock::CancelledError);
    QCOMPARE(failureOf(second).error, DistributedLock::CancelledError);
    QVERIFY(eventually([&] { return !m_server.exists("{lock:invoke:busy}:queue"); }));
    letGo("lock:invoke:busy");

    // In a thread that never gets to it.
    QThread idle;
    auto *far = new Invokable;
    far->moveToThread(&idle);
    const auto third = invokeLocked(far, "patient");
    delete far;
    QVERIFY(third.isFinished());
    QCOMPARE(failureOf(third).error, DistributedLock::CancelledError);
}

void tst_InvokeLocked::invokesWithTheDead_data()
{
    Support::addColumns<QString, bool>("method", "inWorker");
    QTest::newRow("pointer") << u"object"_s << false;
    QTest::newRow("in a QVariant") << u"anything"_s << false;
    QTest::newRow("on the way to another thread") << u"object"_s << true;
}

void tst_InvokeLocked::invokesWithTheDead()
{
    QFETCH(QString, method);
    QFETCH(bool, inWorker);
    const QByteArray name = method.toUtf8();
    Invokable object;
    QSemaphore goOn;
    LoopThread worker;
    if (inWorker) {
        object.moveToThread(&worker.thread);
        QMetaObject::invokeMethod(
                &object, [&] { goOn.acquire(); }, Qt::QueuedConnection);
    } else {
        hold("lock:invoke:any");
    }
    auto argument = std::make_unique<Sender>();
    const auto dropped = invokeLocked(&object, name.constData(), argument.get());
    const auto null = invokeLocked(&object, name.constData(), QVariant::fromValue<QObject *>(nullptr));
    argument.reset();
    goOn.release();
    letGo("lock:invoke:any");
    QVERIFY(finished(dropped) && finished(null));
    QCOMPARE(failureOf(dropped).error, DistributedLock::CancelledError);
    QVERIFY2(failureOf(dropped).errorString.contains(u"an object among its arguments was destroyed"_s),
             qPrintable(failureOf(dropped).errorString));
    QCOMPARE(failureOf(null).error, DistributedLock::NoError);
    QCOMPARE(null.result().value<QObject *>(), nullptr);
}

void tst_InvokeLocked::continuationsHaveNoLock()
{
    QFETCH(QString, kind);
    const QString name = kind == u"invoked" ? u"invoke:nothing"_s : u"w"_s;
    Invokable object;
    bool reported = false;
    bool inside = true;
    bool released = false;
    LockResult again;
    const auto tell = [&] {
        inside = isLockedHere(name);
        const auto future = withLock(name, LockOptions().withWait(0ms), [] {});
        if (finished(future)) {
            again = failureOf(future);
            released = nothingLeft(); // as under a dialog that stays open
        }
        reported = true;
    };
    const auto then = [&tell](auto future) { future.then([&tell](const decltype(future) &) { tell(); }); };
    if (kind == u"value")
        then(withLock(name, {}, [] { return 1; }));
    else if (kind == u"void")
        then(withLock(name, {}, [] {}));
    else if (kind == u"exception")
        then(withLock(name, {}, []() -> int { throw std::runtime_error("thrown"); }));
    else if (kind == u"future")
        then(withLock(name, {}, [] { return readyFuture(1); }));
    else
        then(invokeLocked(&object, "nothing"));
    QVERIFY(eventually([&] { return reported; }));
    QVERIFY(!inside);
    QVERIFY2(again, qPrintable(again.errorString));
    QVERIFY(released);
}

QTEST_GUILESS_MAIN(tst_InvokeLocked)

#include "tst_invokelocked.moc"
