// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Whether ThreadSanitizer sees: what support/tsanqt.cpp says of each way from thread to thread, and no more than that,
// in a thread that has started a process. Only built where there is one.

#include <QtCore/qcoreapplication.h>
#include <QtCore/qcoreevent.h>
#include <QtCore/qfuturewatcher.h>
#include <QtCore/qmutex.h>
#include <QtCore/qprocess.h>
#include <QtCore/qpromise.h>
#include <QtCore/qsemaphore.h>
#include <QtCore/qthread.h>
#include <QtCore/qthreadpool.h>
#include <QtCore/qthreadstorage.h>
#include <QtTest/qtest.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>

using namespace Qt::StringLiterals;

class Giver : public QObject
{
    Q_OBJECT
Q_SIGNALS:
    void given();
};

class tst_ThreadSanitizer : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void sees_data();
    void sees();
};

namespace {

// ThreadSanitizer remembers four looks at eight bytes: nothing else must lie in these.
alignas(8) int handedOver[2] = {0, 0};
bool isLate = false; // what is handed over is touched once more, by who has given it away

/// Orders the two sides for real, but not for ThreadSanitizer. std::atomic does for both where it is not optimised,
/// whatever order it is asked for.
class Flag
{
public:
    void raise() { __atomic_store_n(&m_raised, true, __ATOMIC_RELAXED); }
    void await() const
    {
        while (!__atomic_load_n(&m_raised, __ATOMIC_RELAXED))
            QThread::yieldCurrentThread();
    }

private:
    bool m_raised = false;
};
Flag wasTouched;
Flag wasTaken;

void touch()
{
    ++handedOver[0];
}

void give(const std::function<void()> &away)
{
    if (!isLate)
        touch();
    away();
    if (isLate)
        touch();
    wasTouched.raise();
}

void take()
{
    wasTouched.await();
    touch();
    wasTaken.raise();
}

struct LoopThread
{
    LoopThread()
    {
        thread.start();
        object.moveToThread(&thread);
    }
    ~LoopThread()
    {
        wasTaken.await(); // a thread that is told to quit before its loop runs delivers nothing
        thread.quit();
        thread.wait();
    }

    /// In the thread, later. A queued call might order more: who posts it may have to destroy it, which comes after it.
    void run(const std::function<void()> &function)
    {
        object.atEvent = function;
        QCoreApplication::postEvent(&object, new QEvent(QEvent::User));
    }

    struct Object : QObject
    {
        std::function<void()> atEvent;
        void customEvent(QEvent *) override { atEvent(); }
    };
    QThread thread;
    Object object;
};

void nothing()
{
    LoopThread other;
    other.run(take);
    give([] {});
}

void event()
{
    LoopThread other;
    give([&] { other.run(take); });
}

void queuedCall()
{
    LoopThread other;
    give([&] { QMetaObject::invokeMethod(&other.object, [] { take(); }); });
}

void queuedCallByName()
{
    LoopThread other;
    auto *const taker = new QObject;
    QObject::connect(taker, &QObject::destroyed, [] { take(); });
    taker->moveToThread(&other.thread);
    give([&] { QMetaObject::invokeMethod(taker, "deleteLater", Qt::QueuedConnection); });
}

void blockingCall()
{
    LoopThread other;
    QMetaObject::invokeMethod(
            &other.object,
            [&] {
                if (!isLate)
                    return give([] {});
                QMetaObject::invokeMethod(
                        &other.object, [] { give([] {}); }, Qt::QueuedConnection);
            },
            Qt::BlockingQueuedConnection);
    take();
}

void queuedSlot()
{
    LoopThread other;
    Giver giver;
    QObject::connect(&giver, &Giver::given, &other.object, [] { take(); });
    give([&] { Q_EMIT giver.given(); });
}

void deleteLater()
{
    LoopThread other;
    struct Taker : QObject
    {
        ~Taker() override { take(); }
    };
    auto *const taker = new Taker;
    taker->moveToThread(&other.thread);
    give([&] { taker->deleteLater(); });
}

void threadStart()
{
    const std::unique_ptr<QThread> thread(QThread::create(take));
    give([&] { thread->start(); });
    thread->wait();
}

void poolStart()
{
    QThreadPool pool;
    give([&] { pool.start(take); });
    pool.waitForDone();
}

void threadWait()
{
    Flag over;
    const std::unique_ptr<QThread> thread(QThread::create([&] {
        give([] {});
        if (isLate)
            over.await();
    }));
    thread->start();
    if (thread->wait(isLate ? QDeadlineTimer(0) : QDeadlineTimer(QDeadlineTimer::Forever)) == isLate)
        std::abort();
    take();
    over.raise();
    thread->wait();
}

void threadStorage()
{
    struct AtEnd
    {
        ~AtEnd()
        {
            give([] {});
            if (isLate)
                over.await();
        }
        Flag &over;
    };
    static QThreadStorage<AtEnd *> storage;
    Flag over;
    const std::unique_ptr<QThread> thread(QThread::create([&over] { storage.setLocalData(new AtEnd{over}); }));
    thread->start();
    if (thread->wait(isLate ? QDeadlineTimer(0) : QDeadlineTimer(QDeadlineTimer::Forever)) == isLate)
        std::abort();
    take();
    over.raise();
    thread->wait();
}

void semaphore()
{
    QSemaphore semaphore;
    const std::unique_ptr<QThread> thread(QThread::create([&] {
        semaphore.acquire();
        take();
    }));
    thread->start();
    give([&] { semaphore.release(); });
    thread->wait();
}

void semaphoreTried()
{
    QSemaphore semaphore;
    const std::unique_ptr<QThread> thread(QThread::create([&] {
        if (isLate) {
            wasTouched.await();
            if (semaphore.tryAcquire(2) || semaphore.tryAcquire(2, 1))
                std::abort();
            take();
        } else if (semaphore.tryAcquire(1, 60'000)) {
            take();
        }
    }));
    thread->start();
    isLate ? give([] {}) : give([&] { semaphore.release(); });
    thread->wait();
}

template<typename Mutex>
void mutex()
{
    Mutex mutex;
    const std::unique_ptr<QThread> thread(QThread::create([&] {
        wasTouched.await();
        const QMutexLocker locker(&mutex);
        take();
    }));
    thread->start();
    give([&] { const QMutexLocker locker(&mutex); });
    thread->wait();
}

void future(const std::function<void(const QFuture<std::shared_ptr<int>> &)> &await)
{
    LoopThread other;
    QPromise<std::shared_ptr<int>> promise;
    promise.start();
    QFuture<std::shared_ptr<int>> future = promise.future();
    other.run([&] {
        give([&] {
            promise.addResult(std::make_shared<int>());
            promise.finish();
        });
    });
    await(future);
    take();
    ++*future.result();
}

void futureFinished()
{
    future([](const QFuture<std::shared_ptr<int>> &future) {
        while (!future.isFinished())
            QThread::yieldCurrentThread();
    });
}

void futureWaited()
{
    future([](QFuture<std::shared_ptr<int>> future) { future.waitForFinished(); });
}

void futureWatched()
{
    future([](const QFuture<std::shared_ptr<int>> &future) {
        QFutureWatcher<std::shared_ptr<int>> watcher;
        QEventLoop loop;
        QObject::connect(&watcher, &QFutureWatcherBase::finished, &loop, &QEventLoop::quit);
        watcher.setFuture(future);
        loop.exec();
    });
}

void futureThrows()
{
    LoopThread other;
    QPromise<void> promise;
    promise.start();
    QFuture<void> future = promise.future();
    other.run([&] {
        give([&] {
            promise.setException(std::make_exception_ptr(std::make_shared<int>()));
            promise.finish();
        });
    });
    try {
        future.waitForFinished();
    } catch (const std::shared_ptr<int> &number) {
        take();
        ++*number;
    }
}

/// One thread destroys the results, another one then the data that the copies share.
void futureDestroyed()
{
    LoopThread other;
    std::optional<QFuture<int>> future = QtFuture::makeReadyFuture(7);
    std::optional<QFuture<void>> copy(*future); // which does not count as one with results
    other.run([&] { give([&] { future.reset(); }); });
    wasTouched.await();
    copy.reset();
    take();
}

const std::map<QByteArray, void (*)()> ways = {
        {"event", event},
        {"queued call", queuedCall},
        {"queued call by name", queuedCallByName},
        {"blocking call", blockingCall},
        {"queued slot", queuedSlot},
        {"deleteLater", deleteLater},
        {"QThread::start", threadStart},
        {"QThreadPool::start", poolStart},
        {"QThread::wait", threadWait},
        {"QThread::wait, QThreadStorage", threadStorage},
        {"QSemaphore", semaphore},
        {"QSemaphore, tried", semaphoreTried},
        {"QMutex", mutex<QMutex>},
        {"QRecursiveMutex", mutex<QRecursiveMutex>},
        {"QFuture::isFinished", futureFinished},
        {"QFuture::waitForFinished", futureWaited},
        {"QFutureWatcher", futureWatched},
        {"QFuture with an exception", futureThrows},
        {"~QFuture", futureDestroyed},
};

/// In a process of its own.
int handOver(const QByteArray &way)
{
    // It is where there are threads that the one that starts a process used to be ignored.
    LoopThread other;
    QProcess process;
    process.start(u"true"_s, QStringList());
    if (!process.waitForFinished(60'000) || process.exitCode() != 0)
        return 1;
    if (way.isEmpty())
        nothing();
    else
        ways.at(way)();
    return 0;
}

} // namespace

void tst_ThreadSanitizer::sees_data()
{
    QTest::addColumn<QByteArray>("way");
    QTest::addColumn<bool>("late");
    QTest::newRow("nothing") << QByteArray() << false;
    for (const auto &[way, function] : ways) {
        QTest::addRow("%s", way.constData()) << way << false;
        QTest::addRow("%s, late", way.constData()) << way << true;
    }
}

void tst_ThreadSanitizer::sees()
{
    QFETCH(QByteArray, way);
    QFETCH(bool, late);
    const bool isRace = late || way.isEmpty();
    QProcess process;
    QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
    const QString options = environment.value(u"TSAN_OPTIONS"_s);
    environment.insert(u"TSAN_OPTIONS"_s, options + u":atexit_sleep_ms=0"_s);
    process.setProcessEnvironment(environment);
    process.setProcessChannelMode(QProcess::MergedChannels);
    process.start(QCoreApplication::applicationFilePath(),
                  {u"--hand-over"_s, QString::fromLatin1(way), late ? u"late"_s : QString()});
    QVERIFY(process.waitForFinished(60'000));
    const QByteArray output = process.readAll();
    QVERIFY2(process.exitStatus() == QProcess::NormalExit, output.constData());
    QVERIFY2(process.exitCode() == (isRace ? 66 : 0), output.constData());
    QVERIFY2(output.contains("WARNING: ThreadSanitizer: data race") == isRace, output.constData());
    QVERIFY2(output.contains("#0 touch") == isRace, output.constData());
    QCOMPARE(output.count("WARNING: ThreadSanitizer"), isRace ? 1 : 0);
}

int main(int argc, char **argv)
{
    QCoreApplication application(argc, argv);
    if (argc == 4 && qstrcmp(argv[1], "--hand-over") == 0) {
        isLate = *argv[3] != '\0';
        return handOver(argv[2]);
    }
    tst_ThreadSanitizer test;
    return QTest::qExec(&test, argc, argv);
}

#include "tst_threadsanitizer.moc"
