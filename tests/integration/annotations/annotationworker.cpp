// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Ends while annotated calls hold locks and wait for them:
//   annotationworker URL held|waiting|thread|future|exit|retried

#include <QDistLock/Annotations>
#include <QDistLock/LockRegistry>

#include <QtCore/qcoreapplication.h>
#include <QtCore/qeventloop.h>
#include <QtCore/qthread.h>
#include <QtCore/qtimer.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;

class Worker : public QObject
{
    Q_OBJECT
    QDL_LOCKED_METHOD(work, "work", "wait=forever")
    QDL_LOCKED_METHOD(busy, "busy", "wait=forever")
public:
    std::function<void()> body;
public Q_SLOTS:
    void work() { body(); }
    void busy() {}
Q_SIGNALS:
    void go();
};

/// A continuation retries while the first application ends ("busy" is held elsewhere); a second application follows.
static int retried(int argc, char *argv[])
{
    using namespace QDistLock;
    const auto isCancelled = [](QFuture<void> future) {
        try {
            if (future.isFinished())
                future.waitForFinished();
        } catch (const LockUnavailable &unavailable) {
            return unavailable.result().error == DistributedLock::CancelledError;
        }
        return false;
    };
    for (int i = 0; i < 2; ++i) {
        QFuture<void> first;
        QFuture<void> again;
        {
            const QCoreApplication application(argc, argv);
            LockRegistry::setDefaultServer(QUrl(application.arguments().at(1)));
            QEventLoop loop;
            withLock(u"free"_s, [&loop] { loop.quit(); }).then([] {});
            loop.exec();
            first = withLock(u"busy"_s, LockOptions().withWait(LockOptions::Forever), [] {});
            first.then([&again](const QFuture<void> &) { again = withLock(u"retried"_s, [] {}); });
        }
        if (!isCancelled(first) || !isCancelled(again) || !isCancelled(withLock(u"late"_s, [] {})))
            return 2 + i;
    }
    std::puts("reached");
    return 0;
}

int main(int argc, char *argv[])
{
    if (argc == 3 && QByteArray(argv[2]) == "retried")
        return retried(argc, argv);
    QCoreApplication application(argc, argv);
    const QStringList arguments = application.arguments();
    if (arguments.size() != 3)
        return 64;
    QDistLock::LockRegistry::setDefaultServer(QUrl(arguments.at(1)));
    const QString mode = arguments.at(2);

    const auto reached = [] {
        std::puts("reached");
        std::fflush(stdout);
        QCoreApplication::quit();
    };
    Worker worker;
    QDistLock::connectLocked(&worker, &Worker::go, &worker, &Worker::work);
    QDistLock::connectLocked(&worker, &Worker::go, &worker, &Worker::busy);
    worker.body = reached;

    QThread thread;
    bool ended = false;
    QObject::connect(
            &thread, &QThread::finished, &thread, [&ended] { ended = true; }, Qt::DirectConnection);
    Worker far;
    QPromise<void> endless;
    endless.start();
    if (mode == u"thread") {
        // Its slot runs, and more of them wait, while the application ends.
        far.body = [&] { QMetaObject::invokeMethod(qApp, reached, Qt::QueuedConnection); };
        QDistLock::connectLocked(&far, &Worker::go, &far, &Worker::work);
        far.moveToThread(&thread);
        thread.start();
        for (int i = 0; i < 10; ++i)
            Q_EMIT far.go();
    } else if (mode == u"waiting") {
        for (int i = 0; i < 10; ++i)
            Q_EMIT worker.go(); // "busy" is held elsewhere
    } else if (mode == u"future") {
        (void)QDistLock::withLock(u"inner"_s, QDistLock::LockOptions(), [&] {
            reached();
            return endless.future();
        });
        (void)QDistLock::withLock(u"inner"_s, QDistLock::LockOptions(), [] {});
    } else if (mode == u"exit") {
        // Without the application object being destroyed.
        worker.body = [] {
            std::puts("reached");
            std::exit(0);
        };
        Q_EMIT worker.go();
    } else {
        for (int i = 0; i < 10; ++i)
            Q_EMIT worker.go();
    }
    const int result = application.exec();
    thread.quit();
    thread.wait();
    return ended || mode != u"thread" ? result : 1;
}

#include "annotationworker.moc"
