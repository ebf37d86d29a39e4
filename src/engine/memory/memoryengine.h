// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "engine/lockengine.h"

#include <memory>

namespace QDistLock {

class LeaseClock;
class MemoryStore;

/*!
    Keeps locks in this process, with the semantics of the Redis engine: for tests and previews without a server. All
    engines with the same store name share their locks, also across threads. A store lives as long as one of its
    engines.
*/
class MemoryEngine : public LockEngine
{
    Q_OBJECT
public:
    /// \a clock is not owned.
    MemoryEngine(const QString &store, const LeaseClock *clock, QObject *parent = nullptr);
    ~MemoryEngine() override;

    void open() override {}
    State state() const override { return Ready; }
    EngineError error() const override { return {}; }
    QString unsupported(const LockOptions &options) const override;

    void acquire(const Acquire &operation, Completion completion) override;
    void renew(const LockId &lock, const QByteArray &token, std::chrono::milliseconds lease, const Replicas &replicas,
               Completion completion) override;
    bool canBeWoken(const LockId &) const override { return true; }
    void release(const LockId &lock, const QByteArray &token, std::chrono::milliseconds lease,
                 std::chrono::milliseconds keep, Completion completion) override;
    void convert(const Acquire &operation, const QByteArray &from, Completion completion) override;
    void abandon(const LockId &lock, const QByteArray &token, std::chrono::milliseconds lease,
                 std::chrono::milliseconds keep, std::chrono::milliseconds atMost) override;
    void inspect(const LockId &lock, std::function<void(const EngineError &, const LockInfo &)> completion) override;
    bool hasShortSteps() const override { return true; }
    void list(const QString &prefix, const QString &pattern,
              std::function<void(const EngineError &, const QList<LockInfo> &)> completion) override;
    void waiters(const LockId &lock, int atMost,
                 std::function<void(const EngineError &, const QList<LockWaiter> &)> completion) override;
    void forceRelease(const LockId &lock, qint64 fencingToken, Completion completion) override;
    void setPermits(const LockId &lock, int permits,
                    std::function<void(const EngineError &, int before)> completion) override;

private:
    void reply(Completion completion, const EngineReply &reply);

    const std::shared_ptr<MemoryStore> m_store;
    const LeaseClock *m_clock;
};

} // namespace QDistLock
