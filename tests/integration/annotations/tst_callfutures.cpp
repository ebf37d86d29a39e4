// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Annotated methods that return a QFuture: the lock is held until that has finished.

#include "annotationtest.h"
#include "typedreceiver.h"

#include <QtCore/qpromise.h>
#include <QtCore/qsemaphore.h>

#include <memory>
#include <stdexcept>
#include <utility>

using namespace Qt::StringLiterals;

using namespace AnnotationTesting;
using namespace LockTesting;
using namespace QDistLock;

class tst_CallFutures : public AnnotationTest
{
    Q_OBJECT

private Q_SLOTS:
    void futureHoldsTheLock();
    void futureFails();
    void futureCancelled();
    void futureOfAFunctionObject();
    void futureThrowsBefore();
    void futureOutlivesItsReceiver();
    void futureOutlivesItsThread();
    void workOutlivesItsThread();
    void futureInvoked();
    void futureInvokedVoid();
    void futureInvokedFails();
    void futureInvokedCancelled();
    void futureInvokedOfUnknownType();
    void futureInvokedOfVariants();

private:
    /// Waits until the background thread has done what it was asked for before.
    bool settled()
    {
        return finished(withLock(u"other"_s, [] {}));
    }
};

void tst_CallFutures::futureHoldsTheLock()
{
    Sender sender;
    Receiver receiver;
    QVERIFY(connectLocked(&sender, &Sender::number, &receiver, &Receiver::slow));
    Q_EMIT sender.number(1);
    Q_EMIT sender.number(2);
    QVERIFY(eventually([&] { return !receiver.begun.isEmpty(); }));
    QVERIFY(settled());
    QVERIFY(m_server.exists("lock:slow"));
    QCOMPARE(receiver.begun, QList<int>{1});
    receiver.promise.addResult(1);
    receiver.promise.finish();
    QVERIFY(eventually([&] { return receiver.begun.size() == 2; }));
    QVERIFY(settled());
    QVERIFY(m_server.exists("lock:slow"));
    receiver.promise.finish();
}

void tst_CallFutures::futureFails()
{
    Sender sender;
    Receiver receiver;
    QVERIFY(connectLocked(&sender, &Sender::number, &receiver, &Receiver::slow));
    Q_EMIT sender.number(1);
    QVERIFY(eventually([&] { return !receiver.begun.isEmpty(); }));
    QVERIFY(settled());
    QVERIFY(m_server.exists("lock:slow"));
    const LogCapture log;
    receiver.promise.setException(std::make_exception_ptr(std::runtime_error("failed\nlater")));
    receiver.promise.finish();
    QVERIFY(eventually([&] { return !m_server.exists("lock:slow"); }));
    // Nobody else sees it.
    QCOMPARE(log.count({u"Receiver::slow"_s, u"ended with an exception"_s, u"\"failed\\nlater\""_s}), 1);
}

void tst_CallFutures::futureCancelled()
{
    Sender sender;
    Receiver receiver;
    QVERIFY(connectLocked(&sender, &Sender::number, &receiver, &Receiver::slowVoid));
    Q_EMIT sender.number(1);
    QVERIFY(eventually([&] { return !receiver.begun.isEmpty(); }));
    receiver.promiseVoid.future().cancel();
    processEvents();
    QVERIFY(settled());
    QVERIFY(m_server.exists("lock:slow")); // its work has not ended
    receiver.promiseVoid.finish();
    QVERIFY(eventually([&] { return !m_server.exists("lock:slow"); }));
}

void tst_CallFutures::futureOfAFunctionObject()
{
    Sender sender;
    QObject context;
    QPromise<QString> promise;
    promise.start();
    bool begun = false;
    QVERIFY(connectLocked(
            &sender, &Sender::number, &context,
            [&](int) {
                begun = true;
                return promise.future();
            },
            u"slow"_s));
    Q_EMIT sender.number(1);
    QVERIFY(eventually([&] { return begun; }));
    QVERIFY(settled());
    QVERIFY(m_server.exists("lock:slow"));
    promise.finish();
}

void tst_CallFutures::futureThrowsBefore()
{
    Receiver receiver;
    const auto call = invokeLocked(&receiver, "throwing", 1);
    QVERIFY(finished(call));
    QVERIFY_THROWS_EXCEPTION(std::runtime_error, call.result());
}

void tst_CallFutures::futureOutlivesItsReceiver()
{
    Sender sender;
    auto receiver = std::make_unique<Receiver>();
    QVERIFY(connectLocked(&sender, &Sender::number, receiver.get(), &Receiver::slow));
    Q_EMIT sender.number(1);
    QVERIFY(eventually([&] { return !receiver->begun.isEmpty(); }));
    QPromise<int> promise = std::move(receiver->promise);
    receiver.reset();
    QVERIFY(settled());
    QVERIFY(m_server.exists("lock:slow"));
    promise.finish();
}

void tst_CallFutures::workOutlivesItsThread()
{
    QPromise<int> promise;
    promise.start();
    LoopThread other;
    QSemaphore begun;
    const auto future = withLock(&other.inside, u"slow"_s, LockOptions(), [&] {
        begun.release();
        return promise.future();
    });
    QVERIFY(begun.tryAcquire(1, 60000));
    other.end();
    QVERIFY(finished(future));
    const LockResult result = failureOf(future);
    QCOMPARE(result.error, DistributedLock::CancelledError);
    QVERIFY2(result.errorString.contains(u"its thread ended"_s), qPrintable(result.errorString));
    promise.finish();
}

void tst_CallFutures::futureOutlivesItsThread()
{
    QPromise<int> promise;
    promise.start();
    Sender sender;
    {
        LoopThread other;
        other.block();
        other.unblock();
        QObject receiver;
        receiver.moveToThread(&other.thread);
        QSemaphore begun;
        QVERIFY(connectLocked(
                &sender, &Sender::number, &receiver,
                [&](int) {
                    begun.release();
                    return promise.future();
                },
                u"slow"_s));
        Q_EMIT sender.number(1);
        QVERIFY(begun.tryAcquire(1, 60000));
        QVERIFY(m_server.exists("lock:slow"));
        other.call([&] { receiver.moveToThread(thread()); });
    }
    QVERIFY(eventually([&] { return !m_server.exists("lock:slow"); }));
    promise.finish();
}

void tst_CallFutures::futureInvoked()
{
    Receiver receiver;
    const QFuture<QVariant> call = invokeLocked(&receiver, "slow", 1);
    const QFuture<QVariant> next = invokeLocked(&receiver, "slow", 2);
    QVERIFY(eventually([&] { return !receiver.begun.isEmpty(); }));
    QVERIFY(settled());
    QVERIFY(m_server.exists("lock:slow"));
    QVERIFY(!call.isFinished());
    QCOMPARE(receiver.begun, QList<int>{1});
    receiver.promise.addResult(42);
    receiver.promise.finish();
    receiver.promise = QPromise<int>(); // nobody but the call has the future
    QVERIFY(finished(call));
    QCOMPARE(call.result(), QVariant(42));

    // Several results at once, and of them the first.
    QVERIFY(eventually([&] { return receiver.begun.size() == 2; }));
    QFutureInterface<int> several = QFutureInterface<int>(QFutureInterfaceBase::get(receiver.promise.future()));
    several.reportResults({7, 8});
    receiver.promise.finish();
    QVERIFY(finished(next));
    QCOMPARE(next.result(), QVariant(7));
}

void tst_CallFutures::futureInvokedVoid()
{
    Receiver receiver;
    const QFuture<QVariant> call = invokeLocked(&receiver, "slowVoid", 1);
    QVERIFY(eventually([&] { return !receiver.begun.isEmpty(); }));
    QVERIFY(settled());
    QVERIFY(m_server.exists("lock:slow"));
    receiver.promiseVoid.finish();
    QVERIFY(finished(call));
    QCOMPARE(call.result(), QVariant());
}

void tst_CallFutures::futureInvokedFails()
{
    Receiver receiver;
    const QFuture<QVariant> call = invokeLocked(&receiver, "slow", 1);
    QVERIFY(eventually([&] { return !receiver.begun.isEmpty(); }));
    receiver.promise.setException(std::make_exception_ptr(std::runtime_error("later")));
    receiver.promise.finish();
    QVERIFY(finished(call));
    QVERIFY_THROWS_EXCEPTION(std::runtime_error, call.result());
}

void tst_CallFutures::futureInvokedCancelled()
{
    Receiver receiver;
    // The method's future by itself.
    const QFuture<QVariant> call = invokeLocked(&receiver, "slow", 1);
    QVERIFY(eventually([&] { return !receiver.begun.isEmpty(); }));
    receiver.promise.future().cancel();
    receiver.promise.finish();
    QVERIFY(finished(call));
    QVERIFY(call.isCanceled());

    // The caller's future, which cancels the method's.
    QFuture<QVariant> cancelled = invokeLocked(&receiver, "slow", 2);
    QVERIFY(eventually([&] { return receiver.begun.size() == 2; }));
    cancelled.cancel();
    QVERIFY(eventually([&] { return receiver.promise.isCanceled(); }));
    QVERIFY(m_server.exists("lock:slow"));
    receiver.promise.finish();
    QVERIFY(finished(cancelled));

    // Finished without a result.
    const QFuture<QVariant> none = invokeLocked(&receiver, "slow", 3);
    QVERIFY(eventually([&] { return receiver.begun.size() == 3; }));
    receiver.promise.finish();
    QVERIFY(finished(none));
    QVERIFY(none.isCanceled());
}

void tst_CallFutures::futureInvokedOfUnknownType()
{
    // Its result cannot be put in a QVariant: said before the call, not after it.
    Receiver receiver;
    const auto call = invokeLocked(&receiver, "slowOther");
    QVERIFY(finished(call));
    const LockResult failure = failureOf(call);
    QCOMPARE(failure.error, DistributedLock::OptionsError);
    QVERIFY2(failure.errorString.contains(u"qRegisterMetaType<Receiver::Unregistered>()"_s),
             qPrintable(failure.errorString));
    QVERIFY(receiver.begun.isEmpty());
    qRegisterMetaType<Receiver::Unregistered>();
    const auto again = invokeLocked(&receiver, "slowOther");
    QVERIFY(finished(again));
    QVERIFY(again.result().canConvert<Receiver::Unregistered>());
}

void tst_CallFutures::futureInvokedOfVariants()
{
    // The value itself, not a QVariant in a QVariant; an invalid one is a result, too.
    Receiver receiver;
    const auto number = invokeLocked(&receiver, "slowVariant", 7);
    const auto invalid = invokeLocked(&receiver, "slowVariant", QVariant());
    const auto list = invokeLocked(&receiver, "slowList");
    const auto map = invokeLocked(&receiver, "slowMap");
    for (const auto &call : {number, invalid, list, map}) {
        QVERIFY(finished(call));
        QVERIFY(!call.isCanceled());
    }
    QCOMPARE(number.result().metaType(), QMetaType::fromType<int>());
    QCOMPARE(number.result(), QVariant(7));
    QCOMPARE(invalid.result(), QVariant());
    QCOMPARE(list.result(), QVariant(QStringList{u"a"_s}));
    QCOMPARE(map.result().toMap().value(u"a"_s), QVariant(1));
}

QTEST_GUILESS_MAIN(tst_CallFutures)

#include "tst_callfutures.moc"
