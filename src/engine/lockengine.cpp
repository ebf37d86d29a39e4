// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/lockengine.h"

#include <QDistLock/impl/namebytes.h>

#include <memory>
#include <utility>

using namespace Qt::StringLiterals;

namespace QDistLock {

/// The URLs of the servers that have permits, and let a reader become a writer.
static constexpr QStringView SharingServers =
        u"redis://, rediss://, unix://, redis+sentinel://, redis+cluster:// or memory:";

bool LockEngine::findHolder(const Waiter &waiter, std::function<void(const std::optional<LockInfo> &)> completion)
{
    inspect(waiter.lock, [completion = std::move(completion)](const EngineError &error, const LockInfo &lock) {
        completion(error ? std::nullopt : std::optional(lock));
    });
    return true;
}

void LockEngine::convert(const Acquire &, const QByteArray &, Completion completion)
{
    EngineReply reply;
    reply.error = EngineError::permanent(
            DistributedLock::OptionsError,
            u"a reader cannot become the writer here, nor the writer a reader; release the lock and acquire the other one, or use %1"_s
                    .arg(SharingServers));
    QMetaObject::invokeMethod(
            this, [completion = std::move(completion), reply] { completion(reply); }, Qt::QueuedConnection);
}

void LockEngine::sendMessage(const QByteArray &, const QByteArray &,
                             std::function<void(const EngineError &)> completion)
{
    QMetaObject::invokeMethod(
            this,
            [completion = std::move(completion)] {
                completion(EngineError::permanent(DistributedLock::OptionsError,
                                                  u"clients cannot send each other messages here"_s));
            },
            Qt::QueuedConnection);
}

void LockEngine::clients(std::function<void(const EngineError &, const QSet<QByteArray> &ids)> completion)
{
    QMetaObject::invokeMethod(
            this, [completion = std::move(completion)] { completion({}, {}); }, Qt::QueuedConnection);
}

void LockEngine::scan(const QString &prefix, const QString &pattern, const QByteArray &,
                      std::function<void(const ScanStep &)> completion)
{
    list(prefix, pattern,
         [prefix, completion = std::move(completion)](const EngineError &error, const QList<LockInfo> &found) {
             ScanStep step{error};
             for (const LockInfo &info : found) {
                 QString ignored; // the engine has accepted the name
                 if (const auto lock = LockId::make(prefix, info.name, &ignored))
                     step.locks.append(*lock);
             }
             completion(step);
         });
}

void LockEngine::inspectAll(const QList<LockId> &locks, std::function<void(const Inspection &)> completion)
{
    struct Gathering
    {
        Inspection inspection;
        qsizetype left;
    };
    const auto gathering = std::make_shared<Gathering>(Gathering{{QList<LockInfo>(locks.size()), {}}, locks.size()});
    for (qsizetype i = 0; i < locks.size(); ++i) {
        const LockId lock = locks.at(i);
        inspect(lock, [gathering, i, lock, completion](const EngineError &error, const LockInfo &info) {
            LockInfo &result = gathering->inspection.locks[i];
            result = error ? unread(lock, error) : info;
            result.name = Detail::nameText(lock.name());
            if (--gathering->left == 0)
                completion(gathering->inspection);
        });
    }
}

LockInfo LockEngine::unread(const LockId &lock, const EngineError &error)
{
    LockInfo info;
    info.name = Detail::nameText(lock.name());
    info.error = error.code;
    info.errorString = error.text;
    return info;
}

void LockEngine::setPermits(const LockId &, int permits,
                            std::function<void(const EngineError &, int before)> completion)
{
    const auto error = EngineError::permanent(
            DistributedLock::OptionsError,
            noSharing(LockOptions().withPermits(permits), u"this server has no semaphores"_s));
    QMetaObject::invokeMethod(
            this, [completion = std::move(completion), error] { completion(error, 0); }, Qt::QueuedConnection);
}

QString LockEngine::noSharing(const LockOptions &options, const QString &reason)
{
    const bool isReader = options.mode == LockOptions::Shared;
    if (!isReader && options.permits == 0)
        return QString();
    return u"%1 is not available here: %2; use %3%4"_s.arg(
            isReader ? u"LockOptions::Shared"_s : u"LockOptions::permits"_s, reason,
            isReader ? u"zookeeper://, "_s : QString(), SharingServers);
}

} // namespace QDistLock
