// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include <QDistLock/impl/jobs.h>

#include "annotations/lockedcallqueue.h"
#include "annotations/threadcalls.h"
#include "annotations/threadpost.h"
#include "lock/resolvedaddress.h"

#include <QtCore/qthread.h>

using namespace Qt::StringLiterals;

namespace QDistLock::Detail {

LockedJob::LockedJob() = default;

LockedJob::~LockedJob() = default;

void LockedJob::finish() {}

bool LockedJob::fail(const LockResult &, bool)
{
    return false;
}

bool LockedJob::isCanceled() const
{
    return false;
}

std::unique_ptr<QFutureWatcherBase> LockedJob::makeWatcher() const
{
    return nullptr;
}

void logException(const std::shared_ptr<void> &locks)
{
    LockedCallQueue::logException(locks);
}

void whenFinished(const QFuture<void> &work, const QFuture<void> &outer, const std::function<void()> &ended)
{
    auto *const watcher = new QFutureWatcher<void>(ThreadCalls::instance());
    QObject::connect(watcher, &QFutureWatcherBase::finished, watcher, [watcher, ended] {
        watcher->deleteLater();
        ended();
    });
    auto *const outerWatcher = new QFutureWatcher<void>(watcher);
    QObject::connect(outerWatcher, &QFutureWatcherBase::canceled, watcher, [watcher] { watcher->cancel(); });
    outerWatcher->setFuture(outer);
    watcher->setFuture(work);
}

void holdUntilFinished(const QFuture<void> &work, const std::shared_ptr<void> &locks)
{
    auto *const watcher = new QFutureWatcher<void>(ThreadCalls::instance());
    QObject::connect(watcher, &QFutureWatcherBase::finished, watcher, [watcher, held = locks]() mutable {
        watcher->deleteLater();
        try {
            throwException(watcher->future());
        } catch (...) {
            Detail::logException(held);
        }
        held.reset();
    });
    watcher->setFuture(work);
}

LockResult cancelledCall()
{
    return {DistributedLock::CancelledError,
            u"the call was cancelled, its object was destroyed, or its thread ended, before the call had finished"_s,
            0};
}

void runLocked(const LockAddress &address, const LockOptions &options, QObject *context,
               const std::shared_ptr<LockedJob> &job)
{
    LockRequest request;
    request.address = resolved(address);
    request.options = options;
    LockedCall call;
    call.requests.append(request);
    call.receiver = context;
    auto waiting = std::make_unique<WaitingCall>(call, job);
    if (!context || context->thread() == QThread::currentThread()) {
        ThreadCalls::submit(std::move(waiting));
        return;
    }
    const auto shared = std::make_shared<CallPointer>(std::move(waiting));
    postTo(
            context, [shared] { ThreadCalls::submit(std::move(*shared)); },
            [shared] { (*shared)->fail(nullptr, threadEnded()); });
}

} // namespace QDistLock::Detail
