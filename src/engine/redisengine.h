// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "lockengine.h"

#include "redis/connection.h"

#include <QtCore/qhash.h>
#include <QtCore/qset.h>

#include <memory>
#include <optional>
#include <vector>

namespace QtRedis {
class Subscriber;
}

namespace QDistLock {

class LeaseClock;

/*!
    Locks kept by one Redis master, through the scripts in src/scripts. Operations of one event loop turn
    that are alike go out as one command; their order is kept.
*/
class RedisEngine : public LockEngine
{
    Q_OBJECT
public:
    /// \a clock is not owned.
    RedisEngine(const QtRedis::ServerUrl &server, const LeaseClock *clock, QObject *parent = nullptr);
    ~RedisEngine() override;

    void open() override;
    State state() const override;
    EngineError error() const override;
    void cork() override { m_corked = true; }
    void uncork() override;

    void acquire(const Acquire &operation, Completion completion) override;
    void renew(const LockKeys &keys, const QByteArray &token, std::chrono::milliseconds lease,
               Completion completion) override;
    bool canBeWoken() const override;
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
    struct Operation;
    using Operations = std::vector<Operation>;
    struct Batch;
    struct Abandoned;
    struct Listing;

    void enqueue(Operation operation);
    void flush();
    static bool canShareCommand(const Operation &first, const Operation &other);
    void send(Operations operations, std::chrono::milliseconds timeout);
    static const QtRedis::Script &scriptOf(int kind);
    void received(const std::shared_ptr<Batch> &batch, const QtRedis::CommandResult &result);
    EngineReply decode(const Batch &batch, size_t index, std::optional<Handover> *handover);
    void connectionStateChanged();
    void queueAbandoned();
    void sendAbandoned(quint64 sequence);
    /// The server has something under a token that was abandoned.
    void abandonAgain(quint64 sequence);
    void forgetAbandoned();
    bool isNeeded() const;
    void checkConnection();
    void subscribe();
    void messageReceived(const QByteArray &payload);
    void scan(std::shared_ptr<Listing> listing, const QByteArray &cursor);
    void inspectMany(const QList<LockKeys> &keys,
                     std::function<void(const EngineError &, const QList<LockInfo> &)> completion);
    EngineError errorOf(const QtRedis::CommandResult &result, const char *command);
    EngineError connectionError(QtRedis::Failure failure, const QString &text, bool maybeExecuted) const;
    EngineError replyError(const QByteArray &reply, const char *command);
    EngineError malformed(const char *command) const;

    QtRedis::Connection m_connection;
    const QByteArray m_channel;                        ///< where messages to this client are published
    std::unique_ptr<QtRedis::Subscriber> m_subscriber; ///< made when there is something to listen for
    const LeaseClock *m_clock;
    std::vector<Operation> m_operations;               ///< of this event loop turn
    QHash<quint64, Abandoned> m_abandoned;             ///< by sequence
    qsizetype m_forgetAbandonedAt = 64;                ///< size at which outdated ones are removed
    bool m_abandonedAgain = false;                     ///< some of these failed for a passing reason
    bool m_flushScheduled = false;
    bool m_corked = false;
};

} // namespace QDistLock
