// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// withLock() on a real server, and the continuations of futures.

#include "annotationtest.h"
#include "base/readyfuture.h"
#include "receiver.h"

#include <QtCore/qpromise.h>
#include <QtCore/qthread.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <utility>

using namespace Qt::StringLiterals;

using namespace AnnotationTesting;
using namespace LockTesting;
using namespace QDistLock;

class tst_WithLock : public AnnotationTest
{
    Q_OBJECT

private Q_SLOTS:
    void burstOfFailures();
    void withLockValues();
    void withLockFutures();
    void withLockBusy();
    void withLockCancelled();
    void withLockInnerCancelled();
    void withLockContext();
    void nextBeforeContinuations();
};

void tst_WithLock::withLockValues()
{
    const QString name = u"w"_s;
    int calls = 0;
    const QFuture<int> value = withLock(name, {}, [&] {
        ++calls;
        return isLockedHere(name) ? 42 : -1;
    });
    QVERIFY(!value.isFinished());
    QVERIFY(finished(value));
    QCOMPARE(value.result(), 42);

    const QFuture<void> nothing = withLock(name, options(), [&] { ++calls; });
    QVERIFY(finished(nothing));
    QVERIFY(!nothing.isCanceled());

    const auto thrown = withLock(name, {}, [&]() -> QString { throw std::runtime_error("thrown"); });
    QVERIFY(finished(thrown));
    QVERIFY_THROWS_EXCEPTION(std::runtime_error, thrown.result());

    auto moved = withLock(name, {}, [pointer = std::make_unique<int>(7)]() mutable { return std::move(pointer); });
    QVERIFY(finished(moved));
    QCOMPARE(*moved.takeResult(), 7);

    // In the order of the calls.
    QList<int> order;
    QList<QFuture<void>> futures;
    for (int i = 0; i < 20; ++i)
        futures.append(withLock(name, {}, [&order, i] { order.append(i); }));
    QVERIFY(finished(futures.last()));
    QCOMPARE(order.size(), 20);
    QVERIFY(std::is_sorted(order.begin(), order.end()));
    QCOMPARE(calls, 2);

    const auto bad = withLock(name, LockOptions().withLease(0ms), [&] { return ++calls; });
    QVERIFY(finished(bad));
    QCOMPARE(failureOf(bad).error, DistributedLock::OptionsError);
    const auto badName = withLock(QString(), {}, [&] { return ++calls; });
    QVERIFY(finished(badName));
    QCOMPARE(failureOf(badName).error, DistributedLock::NameError);
    const auto address = LockAddress(name).withServer(QUrl(u"memory:w"_s));
    const auto elsewhere = withLock(address, [&] { return isLockedHere(address) && !m_server.exists("lock:w"); });
    QVERIFY(finished(elsewhere));
    QVERIFY(elsewhere.result());
    QCOMPARE(calls, 2);
}

void tst_WithLock::withLockFutures()
{
    const QString name = u"w"_s;
    // Held until the inner future has finished, whichever way, in whatever thread.
    QPromise<int> promise;
    promise.start();
    bool begun = false;
    const QFuture<int> value = withLock(name, {}, [&] {
        begun = true;
        return promise.future();
    });
    int second = 0;
    const auto next = withLock(name, options(), [&] { return ++second; });
    QVERIFY(eventually([&] { return begun; }));
    // A release at the function's return would be done before this one on the same connection.
    QVERIFY(finished(withLock(u"other"_s, {}, [] {})));
    QVERIFY(m_server.exists("lock:w"));
    QVERIFY(!value.isFinished());
    QCOMPARE(second, 0);
    {
        LoopThread thread;
        QObject context;
        context.moveToThread(&thread.thread);
        QMetaObject::invokeMethod(
                &context,
                [&] {
                    promise.addResult(42);
                    promise.finish();
                },
                Qt::BlockingQueuedConnection);
    }
    QVERIFY(finished(value));
    QCOMPARE(value.result(), 42);
    QVERIFY(finished(next));

    QPromise<void> done;
    done.start();
    const QFuture<void> nothing = withLock(name, {}, [&] { return done.future(); });
    QVERIFY(eventually([&] { return m_server.exists("lock:w"); }));
    QVERIFY(!nothing.isFinished());
    done.finish();
    QVERIFY(finished(nothing));
    QVERIFY(!nothing.isCanceled());
    QVERIFY(nothingLeft());

    QPromise<int> failing;
    failing.start();
    const auto failed = withLock(name, {}, [&] { return failing.future(); });
    QVERIFY(eventually([&] { return m_server.exists("lock:w"); }));
    failing.setException(std::make_exception_ptr(std::runtime_error("inner")));
    failing.finish();
    QVERIFY(finished(failed));
    QVERIFY_THROWS_EXCEPTION(std::runtime_error, failed.result());
    QVERIFY(nothingLeft());

    QPromise<void> failingVoid;
    failingVoid.start();
    auto failedVoid = withLock(name, {}, [&] { return failingVoid.future(); });
    QVERIFY(eventually([&] { return m_server.exists("lock:w"); }));
    failingVoid.setException(std::make_exception_ptr(std::runtime_error("inner")));
    failingVoid.finish();
    QVERIFY(finished(failedVoid));
    QVERIFY_THROWS_EXCEPTION(std::runtime_error, failedVoid.waitForFinished());

    const auto thrown = withLock(name, {}, []() -> QFuture<int> { throw std::runtime_error("before"); });
    QVERIFY(finished(thrown));
    QVERIFY_THROWS_EXCEPTION(std::runtime_error, thrown.result());

    // Finished in another thread while this one looks.
    {
        LoopThread thread;
        QObject context;
        context.moveToThread(&thread.thread);
        for (int i = 0; i < 100; ++i) {
            const auto far = withLock(name, {}, [&context, i] {
                const auto shared = std::make_shared<QPromise<int>>();
                shared->start();
                QMetaObject::invokeMethod(
                        &context,
                        [shared, i] {
                            shared->addResult(i);
                            shared->finish();
                        },
                        Qt::QueuedConnection);
                return shared->future();
            });
            QVERIFY(finished(far));
            QCOMPARE(far.result(), i);
        }
    }
    QVERIFY(nothingLeft());

    // Finished already.
    const auto ready = withLock(name, {}, [] { return readyFuture(u"x"_s); });
    QVERIFY(finished(ready));
    QCOMPARE(ready.result(), u"x"_s);
    QVERIFY(nothingLeft());
}

void tst_WithLock::withLockBusy()
{
    const QString name = u"w"_s;
    hold("lock:w");
    int calls = 0;
    const auto function = [&] { return ++calls; };
    const auto busy = withLock(name, LockOptions().withWait(0ms), function);
    QVERIFY(finished(busy));
    QCOMPARE(failureOf(busy).error, DistributedLock::BusyError);
    const LockResult late = timeOutOf([&](milliseconds wait) {
        const auto future = withLock(name, LockOptions().withWait(wait), function);
        return finished(future) ? failureOf(future) : LockResult();
    });
    QCOMPARE(late.error, DistributedLock::TimeoutError);
    QVERIFY(late.errorString.contains(u"\"w\""_s));
    QCOMPARE(calls, 0);
    letGo("lock:w");
}

void tst_WithLock::withLockCancelled()
{
    const QString name = u"w"_s;
    hold("lock:w");
    int calls = 0;
    const LockOptions options = LockOptions().withWait(LockOptions::Forever).withRetryInterval(20ms);
    const auto function = [&] { return ++calls; };
    auto first = withLock(name, options, function);
    auto second = withLock(name, options, function);
    auto third = withLock(name, options, function);
    QVERIFY(eventually([&] { return m_server.exists("{lock:w}:queue"); }));
    second.cancel();
    QVERIFY(finished(second));
    first.cancel();
    QVERIFY(finished(first));
    QVERIFY(!third.isFinished());
    letGo("lock:w");
    QVERIFY(finished(third));
    QCOMPARE(third.result(), 1);
    QVERIFY(nothingLeft());

    // When it has the lock but not its turn yet.
    auto fourth = withLock(name, options, function);
    blockUntil([&] { return m_server.exists("lock:w"); });
    fourth.cancel();
    QVERIFY(finished(fourth));
    QVERIFY(nothingLeft());
    QCOMPARE(calls, 1);
}

void tst_WithLock::withLockInnerCancelled()
{
    const QString name = u"w"_s;
    // The inner one by itself.
    QPromise<int> inner;
    inner.start();
    bool begun = false;
    const auto outer = withLock(name, {}, [&] {
        begun = true;
        return inner.future();
    });
    QVERIFY(eventually([&] { return begun; }));
    inner.future().cancel();
    processEvents();
    waitForService();                   // a release would have been sent before
    QVERIFY(m_server.exists("lock:w")); // it has not finished
    inner.finish();
    QVERIFY(finished(outer));
    QVERIFY(outer.isCanceled());
    QVERIFY(nothingLeft());

    // The outer one, which cancels the inner.
    QPromise<void> second;
    second.start();
    bool runs = false;
    auto cancelled = withLock(name, {}, [&] {
        runs = true;
        return second.future();
    });
    QVERIFY(eventually([&] { return runs; }));
    cancelled.cancel();
    QVERIFY(eventually([&] { return second.isCanceled(); }));
    waitForService();
    QVERIFY(m_server.exists("lock:w"));
    second.finish();
    QVERIFY(finished(cancelled));
    QVERIFY(nothingLeft());

    // Finished without a result.
    QPromise<int> empty;
    empty.start();
    const auto none = withLock(name, {}, [&] { return empty.future(); });
    QVERIFY(eventually([&] { return m_server.exists("lock:w"); }));
    empty.finish();
    QVERIFY(finished(none));
    QVERIFY(none.isCanceled());
    QVERIFY(nothingLeft());
}

void tst_WithLock::withLockContext()
{
    const QString name = u"w"_s;
    int calls = 0;
    auto context = std::make_unique<QObject>();
    const auto ran = withLock(context.get(), name, {}, [&] { return ++calls; });
    QVERIFY(finished(ran));
    QCOMPARE(ran.result(), 1);

    hold("lock:w");
    const auto dropped = withLock(context.get(), name, options(), [&] { return ++calls; });
    QVERIFY(eventually([&] { return m_server.exists("{lock:w}:queue"); }));
    context.reset();
    QVERIFY(finished(dropped));
    QCOMPARE(failureOf(dropped).error, DistributedLock::CancelledError);
    letGo("lock:w");
    QVERIFY(nothingLeft());
    QCOMPARE(calls, 1);

    // In the context's thread; and the lock outlives it while the inner future runs.
    LoopThread thread;
    auto *far = new QObject;
    far->moveToThread(&thread.thread);
    QPromise<bool> inner;
    inner.start();
    std::atomic<QThread *> seen{nullptr};
    const auto there = withLock(far, name, {}, [&] {
        seen = QThread::currentThread();
        return inner.future();
    });
    QVERIFY(eventually([&] { return seen.load() != nullptr; }));
    QMetaObject::invokeMethod(
            far, [far] { delete far; }, Qt::BlockingQueuedConnection);
    QVERIFY(m_server.exists("lock:w"));
    inner.addResult(true);
    inner.finish();
    QVERIFY(finished(there));
    QVERIFY(there.result());
    QCOMPARE(seen.load(), &thread.thread);
    QVERIFY(nothingLeft());
}

void tst_WithLock::nextBeforeContinuations()
{
    // Whoever waits behind a call does not wait for what follows it.
    const QString name = u"w"_s;
    bool ranInside = false;
    QFuture<int> next;
    QFuture<void> first = withLock(name, {}, [] {});
    const auto reported = first.then([&](const QFuture<void> &) { ranInside = finished(next); });
    next = withLock(name, options(), [] { return 2; });
    QVERIFY(finished(reported));
    QVERIFY(ranInside);
}

void tst_WithLock::burstOfFailures()
{
    // keyText() writes values in this way.
    const QString name = u"order:a%2Fb%3Ac"_s;
    hold("lock:" + name.toUtf8());
    const LogCapture log;
    auto waiting = withLock(name, LockOptions().withWait(LockOptions::Forever), [] {});
    // At once, since another call of this thread waits: however slow the machine is, they are one burst.
    for (int i = 0; i < 3; ++i) {
        const auto future = withLock(name, LockOptions().withWait(0ms), [] {});
        QVERIFY(future.isFinished());
        QCOMPARE(failureOf(future).error, DistributedLock::BusyError);
    }
    const QString summary = u"withLock(): Lock \"%1\": 2 more calls failed with BusyError after"_s.arg(name);
    QVERIFY2(eventually([&] { return log.count({summary}) == 1; }), qPrintable(log.text()));
    waiting.cancel();
    QVERIFY(finished(waiting));
    letGo("lock:" + name.toUtf8());
}

QTEST_GUILESS_MAIN(tst_WithLock)

#include "tst_withlock.moc"
