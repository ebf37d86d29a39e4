// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "lock/acquirefutures.h"

#include <QtCore/qabstracteventdispatcher.h>
#include <QtCore/qmetaobject.h>

#include <utility>

namespace QDistLock {

void AcquireFutures::Promise::finish(const LockResult &result)
{
    if (!take())
        return;
    promise.addResult(result);
    promise.finish();
}

bool AcquireFutures::Pending::succeed(const LockResult &result)
{
    if (!end)
        return true;
    isTaken = end->take();
    return isTaken && end->promise.addResult(result);
}

void AcquireFutures::Pending::succeeded()
{
    if (isTaken)
        end->promise.finish();
}

void AcquireFutures::Pending::fail(const LockResult &result)
{
    if (end)
        end->finish(result);
}

QFuture<LockResult> AcquireFutures::add(quint64 id, QObject *owner, std::function<void()> cancelled)
{
    auto end = std::make_shared<Promise>();
    end->promise.start();
    const QFuture<LockResult> future = end->promise.future();
    auto watcher = std::make_unique<QFutureWatcher<LockResult>>();
    QObject::connect(watcher.get(), &QFutureWatcherBase::canceled, owner, std::move(cancelled));
    watcher->setFuture(future);
    m_pending.emplace(id, Pending{std::move(end), std::move(watcher)});
    return future;
}

QFuture<LockResult> AcquireFutures::ended(const LockResult &result)
{
    const auto end = std::make_shared<Promise>();
    end->promise.start();
    if (QObject *const dispatcher = QAbstractEventDispatcher::instance())
        QMetaObject::invokeMethod(
                dispatcher, [end, result] { end->finish(result); }, Qt::QueuedConnection);
    return end->promise.future();
}

void AcquireFutures::watchEventLoop(quint64 id, QObject *owner, const QString &subject, std::chrono::milliseconds wait,
                                    const QString &lock)
{
    const std::shared_ptr<Promise> end = m_pending.at(id).end;
    endWithoutEventLoop(owner, subject, lock, wait, end, [end](const QString &reason) {
        end->promise.addResult(LockResult{DistributedLock::OptionsError, reason, 0});
        end->promise.finish();
    });
}

bool AcquireFutures::isUnwanted(quint64 id) const
{
    const auto pending = m_pending.find(id);
    return pending != m_pending.end() && (pending->second.end->promise.isCanceled() || pending->second.end->isTaken());
}

AcquireFutures::Pending AcquireFutures::extract(quint64 id)
{
    const auto pending = m_pending.extract(id);
    return pending ? std::move(pending.mapped()) : Pending{};
}

void AcquireFutures::endAll(const LockResult &result)
{
    const auto all = std::exchange(m_pending, {});
    for (const auto &[id, pending] : all)
        pending.end->finish(result);
}

} // namespace QDistLock
