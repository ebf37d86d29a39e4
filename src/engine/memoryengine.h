// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "lockengine.h"

#include <memory>

namespace QDistLock {

class LeaseClock;
class MemoryStore;

/*!
    Locks kept in this process: for tests and previews that need no server, with the semantics of the
    Redis engine. All engines of one store name share their locks, over threads too; a store lives as long
    as one of its engines.
*/
class MemoryEngine : public LockEngine
{
    Q_OBJECT
public:
    /// \a clock is not owned.
    MemoryEngine(const QString &store, const LeaseClock *clock, QObject *parent = nullptr);
    ~MemoryEngine() override;

    void open() override { }
    State state() const override { return Ready; }
    EngineError error() const override { return {}; }

    void acquire(const Acquire &operation, Completion completion) override;
    void renew(const LockKeys &keys, const QByteArray &token, std::chrono::milliseconds lease,
               Completion completion) override;
    bool canBeWoken() const override { return true; }
    void release(const LockKeys &keys, const QByteArray &token, std::chrono::milliseconds lease,
                 std::chrono::milliseconds keep, Completion completion) override;
    void abandon(const LockKeys &keys, const QByteArray &token, std::chrono::milliseconds lease,
                 std::chrono::milliseconds keep, std::chrono::milliseconds atMost) override;
    void inspect(const LockKeys &keys,
                 std::function<void(const EngineError &, const LockInfo &)> completion) override;
    void list(const QString &prefix, const QString &pattern,
              std::function<void(const EngineError &, const QList<LockInfo> &)> completion) override;
    void forceRelease(const LockKeys &keys,
                      std::function<void(const EngineError &, bool existed)> completion) override;

private:
    void reply(Completion completion, const EngineReply &reply);

    const std::shared_ptr<MemoryStore> m_store;
    const LeaseClock *m_clock;
};

} // namespace QDistLock
