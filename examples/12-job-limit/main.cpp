// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// A fleet that converts videos, with at most five jobs at the same time, because the storage cannot serve more. This
// process has eight workers. Set QDISTLOCK_URL to a Redis server and start this program several times, on several
// machines: five is the limit for all of them together.

#include <QDistLock/LockRegistry>
#include <QDistLock/QuitOnSignals>
#include <QDistLock/Semaphore>

#include <QtCore/QCoreApplication>
#include <QtCore/QDebug>
#include <QtCore/QTimer>

#include <algorithm>
#include <memory>
#include <vector>

using namespace Qt::StringLiterals;
using namespace std::chrono_literals;

using QDistLock::DistributedLock;
using QDistLock::LockOptions;
using QDistLock::LockRegistry;
using QDistLock::Semaphore;

namespace {

constexpr int Permits = 5; ///< for the whole fleet
constexpr int Workers = 8; ///< of this process
constexpr int Videos = 24; ///< to be converted by this process

struct Progress
{
    int begun = 0;
    int converted = 0;
    int permitsInUse = 0; ///< by this process
    int mostInUse = 0;
};

/// Waits for the next video's turn, if there is one.
void beginNext(Semaphore *job, Progress *progress)
{
    if (progress->begun == Videos)
        return;
    const bool isLarge = ++progress->begun % 6 == 0;
    job->setTake(isLarge ? 2 : 1); // a large one loads the storage twice as much
    job->acquire();
}

void work(Semaphore *job, Progress *progress)
{
    job->setWaitTime(LockOptions::Forever);
    QObject::connect(job, &DistributedLock::acquired, job, [=] {
        progress->permitsInUse += job->take();
        progress->mostInUse = std::max(progress->mostInUse, progress->permitsInUse);
        if (progress->permitsInUse > Permits)
            qFatal("more jobs than permits");
        QTimer::singleShot(20ms, job, [=] { // the time that it takes to convert the video
            progress->permitsInUse -= job->take();
            job->release();
        });
    });
    QObject::connect(job, &DistributedLock::released, job, [=] {
        if (++progress->converted < Videos)
            return beginNext(job, progress);
        qInfo() << "Converted" << Videos << "videos, with up to" << progress->mostInUse << "permits at the same time.";
        QCoreApplication::quit();
    });
    QObject::connect(job, &DistributedLock::acquireFailed, job, [job] {
        qWarning().noquote() << job->errorString();
        QCoreApplication::exit(1);
    });
    QObject::connect(job, &DistributedLock::lost, job, [](DistributedLock::LossReason reason) {
        qWarning() << "A job has lost its permit:" << reason;
        QCoreApplication::exit(1);
    });
    beginNext(job, progress);
}

} // namespace

int main(int argc, char **argv)
{
    QCoreApplication application(argc, argv);
    QDistLock::quitOnSignals(); // Ctrl+C ends the event loop, so that the permits are returned
    if (!qEnvironmentVariableIsSet("QDISTLOCK_URL"))
        LockRegistry::setDefaultServer(QUrl(u"memory:"_s)); // locks inside this process; needs no server

    Progress progress;
    std::vector<std::unique_ptr<Semaphore>> jobs; // one for each worker: the owner of a permit is the object
    for (int i = 0; i < Workers; ++i)
        jobs.push_back(std::make_unique<Semaphore>(u"video"_s, Permits));
    for (const auto &job : jobs)
        work(job.get(), &progress);
    return application.exec();
}
