// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QDistLock/distributedlock.h>
#include <QDistLock/lockinfo.h>

#include <QtCore/qbytearray.h>
#include <QtCore/qobject.h>

#include <array>
#include <chrono>
#include <functional>
#include <optional>

namespace QDistLock {

/// The keys of one lock; see docs/protocol.md. The side keys lie in the cluster slot of the lock's own key.
struct LockKeys
{
    QByteArray lock;   ///< keyPrefix + name: a string holding the holder's token
    QByteArray queue;  ///< zset of waiting tokens
    QByteArray fence;  ///< the last fencing token given out
    QByteArray prefix; ///< what `lock` begins with

    /// nullopt, with \a error in words, for a name or prefix that cannot be used.
    static std::optional<LockKeys> make(const QString &prefix, const QString &name, QString *error);
};

/// Something an engine could not do.
struct EngineError
{
    DistributedLock::Error code = DistributedLock::NoError;
    QString text = {};         ///< names server, command, reason and what to do; no lock, no secret
    bool permanent = false;    ///< trying again cannot help until somebody changes a setting
    bool maybeExecuted = false; ///< the server may have run it, or may still run it

    explicit operator bool() const { return code != DistributedLock::NoError; }
};

/// What the server said to one lock.
struct EngineReply
{
    enum Status : quint8 {
        Failed,      ///< see `error`
        Granted,     ///< acquire: the key holds our token for a whole lease from the send on
        Taken,       ///< acquire: the key holds another token
        Done,        ///< renew, release: the key held our token
        Gone,        ///< renew, release: there is no key
        Stolen,      ///< renew, release: the key holds another token
    };
    Status status = Failed;
    qint64 fencingToken = 0;                 ///< Granted
    std::chrono::milliseconds holderTtl{-1}; ///< Taken; negative = the key has none
    bool foreignHolder = false;              ///< Taken: nothing will tell us of its release
    int queuePosition = -1;                  ///< Taken; 0 = next, -1 = not in the queue
    QByteArray arrival = {};                 ///< Taken, in the queue: to be given to later attempts
    EngineError error = {};
};

/*!
    Where locks are kept: the seam between the state machine and a server. Asynchronous; no timers of its
    own, no retries but those an outage makes necessary for abandon().

    Every completion is called exactly once, from the event loop, never from inside the call, unless the
    engine is destroyed first. Operations of one event loop turn may share a command.
    Thread: its own.
*/
class LockEngine : public QObject
{
    Q_OBJECT
public:
    using Completion = std::function<void(const EngineReply &)>;

    enum State { Disconnected, Connecting, Ready };
    /// A hint, never proof: pub/sub can be forged, lost and late.
    enum Notice {
        Grant,        ///< the lock waits for its waiter to acquire it, for a few seconds at most
        Next,         ///< this waiter is the next; it should look by itself after `ms`
        ForcedRelease
    };
    Q_ENUM(Notice)

    /// A waiter gets the lock from a release of this same client.
    struct Handover
    {
        LockKeys keys;
        QByteArray token;                ///< the waiter's
        qint64 fencingToken;
        std::chrono::nanoseconds sentAt; ///< on the lease clock: of the release
        std::chrono::milliseconds lease; ///< of the lock released, counted from then
    };

    explicit LockEngine(QObject *parent = nullptr);
    /// The version of docs/protocol.md that this library speaks, 1 to 15.
    static constexpr int ProtocolVersion = 1;
    /// Different for each engine: 16 hex digits, of which the first is the protocol version.
    const QByteArray &clientId() const { return m_clientId; }

    /// How much the locks need the server.
    struct Need
    {
        bool connection = false; ///< one is acquiring, held or releasing
        int queuePosition = -1;  ///< the least one of those that wait in a queue; -1 = none does
    };
    /// \a need is called from the event loop whenever this must be known, and its answer is not kept.
    void setNeed(std::function<Need()> need) { m_need = std::move(need); }

    /// Connects unless it has; called before each need.
    virtual void open() = 0;
    virtual State state() const = 0;
    /// Why it is not Ready.
    virtual EngineError error() const = 0;

    /// From now on the engine collects operations; uncork() sends them all.
    virtual void cork() {}
    virtual void uncork() {}

    /// A fresh token: `<client id>:<sequence>:<128 random bits>`.
    QByteArray makeToken();
    /// That of the last token made.
    quint64 lastSequence() const { return m_sequence; }
    /// The sequence in a token of ours; 0 for anything else.
    static quint64 sequenceOf(const QByteArray &token);
    /// The client id in a token of ours; empty for anything else.
    static QByteArray clientOf(const QByteArray &token);

    struct Acquire
    {
        LockKeys keys;
        QByteArray token;
        std::chrono::milliseconds lease;
        bool repairMissingTtl = true;
        bool enqueue = false;    ///< join the queue if taken; only if canBeWoken()
        bool barge = false;      ///< take it though others wait; in the queue it waits to be woken only
        QByteArray arrival = {}; ///< its place in the queue, from an earlier reply
    };
    /// Whether a waiter in a queue would hear of its turn just now.
    virtual bool canBeWoken() const = 0;
    virtual void acquire(const Acquire &operation, Completion completion) = 0;
    virtual void renew(const LockKeys &keys, const QByteArray &token, std::chrono::milliseconds lease,
                       Completion completion) = 0;
    /// \a keep > 0: the key is not deleted but left to expire after that time. If the lock passes to another
    /// waiter of this engine, that waiter holds it for \a lease; handedOver() then follows the completion.
    virtual void release(const LockKeys &keys, const QByteArray &token, std::chrono::milliseconds lease,
                         std::chrono::milliseconds keep, Completion completion) = 0;
    /// Nobody wants this token any more: leave the queue, give back what it may have acquired. Sees to it
    /// by itself, over reconnects too, for \a atMost (after that the key has expired on the server).
    /// \a keep as in release().
    virtual void abandon(const LockKeys &keys, const QByteArray &token, std::chrono::milliseconds lease,
                         std::chrono::milliseconds keep, std::chrono::milliseconds atMost) = 0;

    /// Empty `name` in each; the caller knows it.
    virtual void inspect(const LockKeys &keys, std::function<void(const EngineError &, const LockInfo &)> completion) = 0;
    /// Names without \a prefix.
    virtual void list(const QString &prefix, const QString &pattern,
                      std::function<void(const EngineError &, const QList<LockInfo> &)> completion) = 0;
    virtual void forceRelease(const LockKeys &keys, std::function<void(const EngineError &, bool existed)> completion) = 0;

Q_SIGNALS:
    void stateChanged();
    /// One attempt to reach the server failed, or the connection was lost; error() tells.
    void failed();
    /// \a sequence is that of the token it is about.
    void noticed(QDistLock::LockEngine::Notice notice, quint64 sequence, std::chrono::milliseconds ms);
    void handedOver(const QDistLock::LockEngine::Handover &handover);
    /// canBeWoken() may answer differently now.
    void wakeableChanged();

protected:
    Need need() const { return m_need ? m_need() : Need(); }

private:
    QByteArray randomHex(size_t bytes);

    alignas(quint32) std::array<char, 256> m_random; ///< drawn ahead; each byte is used once
    size_t m_randomUsed = std::tuple_size_v<decltype(m_random)>;
    const QByteArray m_clientId;
    std::function<Need()> m_need;
    quint64 m_sequence = 0;
};

} // namespace QDistLock
