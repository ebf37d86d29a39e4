// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/memory/memoryengine.h"

#include "base/identity.h"
#include "base/leaseclock.h"
#include "engine/glob.h"
#include "engine/protocolconstants.h"
#include "engine/semaphoreerrors.h"

#include <QDistLock/impl/namebytes.h>

#include <QtCore/qhash.h>
#include <QtCore/qmutex.h>

#include <algorithm>
#include <optional>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace QDistLock {

/// The data that a Redis server would keep, and the operations of the scripts in engine/redis/scripts on it. The mutex
/// must be locked for every member function.
class MemoryStore
{
public:
    struct Holder
    {
        QByteArray token;
        LeaseTime expiry;
        QList<int> permitSlots; ///< ascending
    };

    /// Who holds a lock: one alone, or readers, or holders of permits.
    struct Entry
    {
        QList<Holder> holders; ///< not empty

        bool isShared() const { return Token::isShared(holders.first().token); }
        bool isOfReaders() const { return Token::isReader(holders.first().token); }
        /// Whether \a token is of the same kind as theirs, and of one that can share the lock.
        bool isSharedBy(const QByteArray &token) const
        {
            return isShared() && Token::isShared(token) && Token::isReader(token) == isOfReaders();
        }
        int permitsTaken() const
        {
            int taken = 0;
            for (const Holder &holder : holders)
                taken += Token::permitsOf(holder.token);
            return taken;
        }
        /// Null unless \a token is one of theirs.
        Holder *holder(const QByteArray &token)
        {
            const auto it = std::find_if(holders.begin(), holders.end(),
                                         [&token](const Holder &holder) { return holder.token == token; });
            return it == holders.end() ? nullptr : &*it;
        }
        LeaseTime expiry() const
        {
            LeaseTime last = holders.first().expiry;
            for (const Holder &holder : holders)
                last = std::max(last, holder.expiry);
            return last;
        }
        /// When \a token may get the lock, or has a chance to, although none of them releases it.
        LeaseTime roomAt(const QByteArray &token) const
        {
            if (Token::permitsOf(token) == 0 || !isSharedBy(token))
                return expiry();
            LeaseTime first = holders.first().expiry;
            for (const Holder &holder : holders)
                first = std::min(first, holder.expiry);
            return first;
        }
    };

    struct Waiter
    {
        QByteArray token;
        qint64 arrival;
        bool barge; ///< waits to be woken only
        LeaseTime joinedAt;
    };

    QMutex mutex;
    QHash<QByteArray, MemoryEngine *> engines; ///< by client id

    static std::shared_ptr<MemoryStore> get(const QString &name)
    {
        static QMutex storesMutex;
        static QHash<QString, std::weak_ptr<MemoryStore>> stores;
        const QMutexLocker locker(&storesMutex);
        std::shared_ptr<MemoryStore> store = stores.value(name).lock();
        if (!store) {
            store = std::make_shared<MemoryStore>();
            stores.insert(name, store);
        }
        return store;
    }

    Entry *find(const QByteArray &key, LeaseTime now)
    {
        const auto it = m_entries.find(key);
        if (it == m_entries.end())
            return nullptr;
        it->holders.removeIf([now](const Holder &holder) { return holder.expiry <= now; });
        if (!it->holders.isEmpty())
            return &*it;
        m_entries.erase(it);
        return nullptr;
    }

    /// Who cannot share it replaces whoever held it. Returns the fencing token, which all readers that hold it together
    /// share.
    qint64 set(const QByteArray &key, const QByteArray &token, LeaseTime expiry)
    {
        Entry &entry = m_entries[key];
        if (entry.holders.isEmpty() || !entry.isSharedBy(token)) {
            entry.holders = {{token, expiry, {}}};
            entry.holders.first().permitSlots = freeSlots(key, token);
            return nextFence(key);
        }
        if (Holder *const holder = entry.holder(token))
            holder->expiry = expiry;
        else
            entry.holders.append({token, expiry, freeSlots(key, token)});
        return Token::isReader(token) ? lastFence(key) : nextFence(key);
    }

    /// The slots of a holder.
    QList<int> permitSlots(const QByteArray &key, const QByteArray &token)
    {
        const Holder *const holder = m_entries[key].holder(token);
        return holder ? holder->permitSlots : QList<int>();
    }

    /// The lowest slots that no holder has, for one that may be new; none if it wants none.
    QList<int> freeSlots(const QByteArray &key, const QByteArray &token) const
    {
        QList<int> taken, free;
        if (!Token::wantsSlots(token) || permits(key) > Protocol::SlotsAtMost)
            return free;
        for (const Holder &holder : m_entries.value(key).holders)
            taken += holder.permitSlots;
        for (int slot = 0; slot < permits(key) && free.size() < Token::permitsOf(token); ++slot) {
            if (!taken.contains(slot))
                free.append(slot);
        }
        return free;
    }

    /// Of a semaphore; 0 if it is none.
    int permits(const QByteArray &key) const { return m_permits.value(key); }
    void setPermits(const QByteArray &key, int permits) { m_permits.insert(key, permits); }

    /// Why \a operation does not even wait for those that hold the lock, \a entry, which may be null. The first acquire
    /// of permits sets their number.
    EngineError refusal(const LockEngine::Acquire &operation, const Entry *entry)
    {
        const QByteArray &key = operation.lock.key();
        const int take = Token::permitsOf(operation.token);
        if (entry && entry->isShared() && Token::isShared(operation.token) && !entry->isSharedBy(operation.token))
            return SemaphoreErrors::otherKind(entry->isOfReaders());
        if (take == 0)
            return {};
        if (permits(key) == 0 && operation.permits != LockOptions::ServerPermits)
            setPermits(key, operation.permits);
        const int known = permits(key);
        const bool isOther = operation.permits != LockOptions::ServerPermits && operation.permits != known;
        return isOther || take > known ? SemaphoreErrors::wrongPermits(known, operation.permits, take) : EngineError();
    }

    /// Whether \a token could hold the lock now, beside those that do.
    bool fits(const QByteArray &key, const QByteArray &token, LeaseTime now)
    {
        const Entry *const entry = find(key, now);
        if (entry && !entry->isSharedBy(token))
            return false;
        const int take = Token::permitsOf(token);
        return take == 0 || take + (entry ? entry->permitsTaken() : 0) <= permits(key);
    }

    void remove(const QByteArray &key) { m_entries.remove(key); }

    void remove(const QByteArray &key, const QByteArray &token)
    {
        Entry &entry = m_entries[key];
        entry.holders.removeIf([&token](const Holder &holder) { return holder.token == token; });
        if (entry.holders.isEmpty())
            m_entries.remove(key);
    }

    QList<QByteArray> keys() const { return m_entries.keys(); }

    const Waiter *head(const QByteArray &key) const
    {
        const auto it = m_queues.constFind(key);
        return it == m_queues.cend() ? nullptr : &it->first();
    }

    QList<Waiter> queue(const QByteArray &key) const { return m_queues.value(key); }

    void leave(const QByteArray &key, const QByteArray &token)
    {
        const auto it = m_queues.find(key);
        if (it == m_queues.end())
            return;
        it->removeIf([&token](const Waiter &waiter) { return waiter.token == token; });
        if (it->isEmpty())
            m_queues.erase(it);
    }

    /// Returns the rank. If \a arrival is 0, it is set to a new one.
    int join(const QByteArray &key, const QByteArray &token, bool barge, qint64 *arrival, LeaseTime now)
    {
        QList<Waiter> &queue = m_queues[key];
        const auto has = [&token](const Waiter &waiter) { return waiter.token == token; };
        auto it = std::find_if(queue.begin(), queue.end(), has);
        if (it == queue.end()) {
            if (*arrival == 0)
                *arrival = ++m_lastArrival;
            const auto later = [arrival](const Waiter &waiter) { return waiter.arrival > *arrival; };
            it = queue.insert(std::find_if(queue.begin(), queue.end(), later), {token, *arrival, barge, now});
        }
        *arrival = it->arrival;
        return int(it - queue.begin());
    }

    void notify(const QByteArray &token, LockEngine::Notice notice, milliseconds ms = 0ms)
    {
        // No engine can be destroyed while the mutex is locked.
        MemoryEngine *const engine = engines.value(Token::clientOf(token));
        if (!engine)
            return;
        const quint64 sequence = Token::sequenceOf(token);
        QMetaObject::invokeMethod(
                engine, [engine, notice, sequence, ms] { Q_EMIT engine->noticed(notice, sequence, ms); },
                Qt::QueuedConnection);
    }

    void standBy(const QByteArray &key, milliseconds ms)
    {
        if (const Waiter *next = head(key))
            notify(next->token, LockEngine::Next, ms);
    }
    /// Until \a entry has room for the first waiter.
    void standBy(const QByteArray &key, const Entry *entry, LeaseTime now)
    {
        if (const Waiter *next = head(key))
            standBy(key, std::chrono::ceil<milliseconds>(entry->roomAt(next->token) - now));
    }

    enum Outcome { Free, Woken, Served, Own };
    /// Hands a lock that nobody holds alone to the first waiter whose engine still exists, if it fits, and to those
    /// that follow it and can share the lock with it. Own: the waiter is one of \a caller that wants it alone, and has
    /// left the queue; \a own is set to its token, and the caller must do the rest.
    Outcome serve(const LockId &lock, LeaseTime now, milliseconds lease, const QByteArray &caller, QByteArray *own)
    {
        const milliseconds claim = std::min(lease, Protocol::ClaimTtl);
        bool isServed = false;
        while (const Waiter *first = head(lock.key())) {
            const Waiter waiter = *first;
            const QByteArray client = Token::clientOf(waiter.token);
            const bool isShared = Token::isShared(waiter.token);
            const bool isTooMany = Token::permitsOf(waiter.token) > permits(lock.key());
            if (engines.contains(client) && !isTooMany && !fits(lock.key(), waiter.token, now)) {
                standBy(lock.key(), find(lock.key(), now), now);
                return Served;
            }
            leave(lock.key(), waiter.token);
            if (!engines.contains(client))
                continue;
            if (!waiter.barge && !isShared && client == caller) {
                *own = waiter.token;
                return Own;
            }
            notify(waiter.token, LockEngine::Grant);
            if (isTooMany)
                continue; // its next attempt meets the error
            if (!waiter.barge) {
                set(lock.key(), waiter.token, now + claim); // the waiter must claim it
                isServed = true;
            }
            if (waiter.barge || !isShared) {
                // Behind one that was woken and shares the lock, others may enter at once.
                standBy(lock.key(), isShared && find(lock.key(), now) ? milliseconds(1) : claim);
                return isServed ? Served : Woken;
            }
        }
        return find(lock.key(), now) ? Served : Free;
    }

    /// Reserves the lock for the waiter with \a token, which must claim it.
    void offer(const LockId &lock, const QByteArray &token, LeaseTime now, milliseconds lease)
    {
        const milliseconds claim = std::min(lease, Protocol::ClaimTtl);
        notify(token, LockEngine::Grant);
        set(lock.key(), token, now + claim);
        standBy(lock.key(), claim);
    }

    /// Of a renewal or release; \a holder is set if the token holds the lock.
    EngineReply::Status status(const QByteArray &key, const QByteArray &token, LeaseTime now, Holder **holder)
    {
        Entry *const entry = find(key, now);
        *holder = entry ? entry->holder(token) : nullptr;
        if (*holder)
            return EngineReply::Done;
        return entry && !entry->isSharedBy(token) ? EngineReply::Stolen : EngineReply::Gone;
    }

    qint64 nextFence(const QByteArray &key)
    {
        const auto time = std::chrono::system_clock::now().time_since_epoch();
        qint64 &last = m_fences[key];
        last = std::max<qint64>(last + 1, std::chrono::duration_cast<std::chrono::microseconds>(time).count());
        return last;
    }

    qint64 lastFence(const QByteArray &key) const { return m_fences.value(key); }

    LockInfo info(const QByteArray &key, LeaseTime now)
    {
        LockInfo info;
        info.permits = permits(key);
        if (const Entry *entry = find(key, now)) {
            const auto client = [this](const Holder &holder) {
                const QByteArray id = Token::clientOf(holder.token);
                return Identity::ofThisProcess().client(id, engines.contains(id));
            };
            info.held = true;
            info.remaining = std::chrono::ceil<milliseconds>(entry->expiry() - now);
            QList<Holder> holders = entry->holders;
            std::sort(holders.begin(), holders.end(),
                      [](const Holder &a, const Holder &b) { return a.expiry < b.expiry; });
            info.holder = client(holders.first());
            info.permitsTaken = entry->isShared() ? entry->permitsTaken() : info.permits;
            if (entry->isShared()) {
                info.readerCount = entry->isOfReaders() ? int(holders.size()) : 0;
                for (const Holder &holder : holders.first(std::min<qsizetype>(holders.size(), Protocol::ShownAtMost)))
                    info.holders.append(client(holder));
            }
        }
        info.fencingToken = lastFence(key);
        info.queueLength = int(m_queues.value(key).size());
        return info;
    }

private:
    QHash<QByteArray, Entry> m_entries;
    QHash<QByteArray, qint64> m_fences;
    QHash<QByteArray, int> m_permits;
    QHash<QByteArray, QList<Waiter>> m_queues; ///< none of them empty
    qint64 m_lastArrival = 0;
};

MemoryEngine::MemoryEngine(const QString &store, const LeaseClock *clock, QObject *parent)
    : LockEngine(parent)
    , m_store(MemoryStore::get(store))
    , m_clock(clock)
{
    const QMutexLocker locker(&m_store->mutex);
    m_store->engines.insert(clientId(), this);
}

MemoryEngine::~MemoryEngine()
{
    const QMutexLocker locker(&m_store->mutex);
    m_store->engines.remove(clientId());
}

/// To accept the option and ignore it would promise what nobody keeps.
QString MemoryEngine::unsupported(const LockOptions &options) const
{
    if (options.minReplicas == 0)
        return QString();
    return u"minReplicas is %1, but a memory: server has no replicas; leave it 0 there"_s.arg(options.minReplicas);
}

void MemoryEngine::reply(Completion completion, const EngineReply &reply)
{
    QMetaObject::invokeMethod(
            this, [completion = std::move(completion), reply] { completion(reply); }, Qt::QueuedConnection);
}

void MemoryEngine::acquire(const Acquire &operation, Completion completion)
{
    const LockId &lock = operation.lock;
    EngineReply answer;
    {
        const QMutexLocker locker(&m_store->mutex);
        const LeaseTime now = m_clock->now();
        const auto take = [&] {
            answer.status = EngineReply::Granted;
            answer.fencingToken = m_store->set(lock.key(), operation.token, now + operation.lease);
            answer.permitSlots = m_store->permitSlots(lock.key(), operation.token);
            m_store->leave(lock.key(), operation.token);
            QByteArray own; // none: the lock is not free
            if (Token::isShared(operation.token))
                m_store->serve(lock, now, operation.lease, clientId(), &own);
        };
        // A barging waiter that was woken but came too late moves to the end (see acquire.lua).
        qint64 arrival = operation.barge ? 0 : operation.arrival.toLongLong();
        const auto join = [&] { return m_store->join(lock.key(), operation.token, operation.barge, &arrival, now); };

        MemoryStore::Entry *entry = m_store->find(lock.key(), now);
        if (entry && entry->holder(operation.token)) {
            take();
        } else if ((answer.error = m_store->refusal(operation, entry))) {
            // nothing changes
        } else if (m_store->fits(lock.key(), operation.token, now)) {
            const MemoryStore::Waiter *first = m_store->head(lock.key());
            if (operation.barge || !first || first->token == operation.token) {
                take();
            } else {
                // Others came first: serve them.
                if (operation.enqueue)
                    join();
                QByteArray own;
                const auto outcome = m_store->serve(lock, now, operation.lease, clientId(), &own);
                if (outcome == MemoryStore::Own && own != operation.token) {
                    m_store->offer(lock, own, now, operation.lease);
                } else if (outcome == MemoryStore::Woken) {
                    // The woken waiter may barge in before those at the head; the caller may not.
                    first = m_store->head(lock.key());
                    if (!first || first->token == operation.token || first->barge)
                        take();
                } else if (outcome != MemoryStore::Served) {
                    take();
                } else if (entry = m_store->find(lock.key(), now); entry && entry->holder(operation.token)) {
                    take(); // it was served with others
                } else if (!m_store->head(lock.key()) && m_store->fits(lock.key(), operation.token, now)) {
                    take(); // there is room left
                }
            }
        }
        if (answer.status != EngineReply::Granted && !answer.error) {
            answer.status = EngineReply::Taken;
            entry = m_store->find(lock.key(), now);
            answer.holderTtl = entry ? std::chrono::ceil<milliseconds>(entry->roomAt(operation.token) - now) : 0ms;
            if (operation.enqueue) {
                answer.queuePosition = join();
                answer.arrival = QByteArray::number(arrival);
            }
        }
    }
    if (answer.error)
        abandon(lock, operation.token, operation.lease, 0ms, 0ms);
    reply(std::move(completion), answer);
}

void MemoryEngine::renew(const LockId &lock, const QByteArray &token, milliseconds lease, const Replicas &,
                         Completion completion)
{
    EngineReply answer;
    {
        const QMutexLocker locker(&m_store->mutex);
        const LeaseTime now = m_clock->now();
        MemoryStore::Holder *holder = nullptr;
        answer.status = m_store->status(lock.key(), token, now, &holder);
        if (holder)
            holder->expiry = now + lease;
    }
    reply(std::move(completion), answer);
}

void MemoryEngine::release(const LockId &lock, const QByteArray &token, milliseconds lease, milliseconds keep,
                           Completion completion)
{
    EngineReply answer;
    std::optional<Handover> handover;
    {
        const QMutexLocker locker(&m_store->mutex);
        const LeaseTime now = m_clock->now();
        MemoryStore::Holder *holder = nullptr;
        answer.status = m_store->status(lock.key(), token, now, &holder);
        QByteArray own;
        if (holder && keep > 0ms) {
            holder->expiry = now + keep;
            m_store->standBy(lock.key(), keep);
        } else if (holder) {
            m_store->remove(lock.key(), token);
            if (m_store->serve(lock, now, lease, clientId(), &own) == MemoryStore::Own)
                handover = {lock, own, m_store->set(lock.key(), own, now + lease), now, lease};
        }
    }
    reply(std::move(completion), answer);
    if (handover) {
        QMetaObject::invokeMethod(
                this, [this, handover] { Q_EMIT handedOver(*handover); }, Qt::QueuedConnection);
    }
}

void MemoryEngine::convert(const Acquire &operation, const QByteArray &from, Completion completion)
{
    const LockId &lock = operation.lock;
    EngineReply answer;
    {
        const QMutexLocker locker(&m_store->mutex);
        const LeaseTime now = m_clock->now();
        MemoryStore::Holder *holder = nullptr;
        answer.status = m_store->status(lock.key(), from, now, &holder);
        if (holder && m_store->find(lock.key(), now)->holders.size() > 1) {
            answer.status = EngineReply::Taken;
        } else if (holder) {
            m_store->remove(lock.key());
            answer.status = EngineReply::Granted;
            answer.fencingToken = m_store->set(lock.key(), operation.token, now + operation.lease);
            QByteArray own; // none: a reader has the lock, or nobody can be served
            if (Token::isReader(operation.token))
                m_store->serve(lock, now, operation.lease, clientId(), &own);
        }
    }
    reply(std::move(completion), answer);
}

void MemoryEngine::abandon(const LockId &lock, const QByteArray &token, milliseconds lease, milliseconds keep,
                           milliseconds)
{
    const QMutexLocker locker(&m_store->mutex);
    const LeaseTime now = m_clock->now();
    const MemoryStore::Waiter *first = m_store->head(lock.key());
    const bool wasNext = first && first->token == token;
    m_store->leave(lock.key(), token);
    MemoryStore::Entry *entry = m_store->find(lock.key(), now);
    MemoryStore::Holder *const holder = entry ? entry->holder(token) : nullptr;
    if (holder && keep > 0ms) {
        holder->expiry = now + keep;
        m_store->standBy(lock.key(), keep);
        return;
    }
    if (entry && !holder && !(wasNext && entry->isShared())) {
        if (wasNext)
            m_store->standBy(lock.key(), entry, now);
        return;
    }
    if (holder)
        m_store->remove(lock.key(), token);
    QByteArray own;
    if (m_store->serve(lock, now, lease, clientId(), &own) == MemoryStore::Own)
        m_store->offer(lock, own, now, lease);
}

void MemoryEngine::inspect(const LockId &lock, std::function<void(const EngineError &, const LockInfo &)> completion)
{
    LockInfo info;
    {
        const QMutexLocker locker(&m_store->mutex);
        info = m_store->info(lock.key(), m_clock->now());
    }
    QMetaObject::invokeMethod(
            this, [completion = std::move(completion), info] { completion({}, info); }, Qt::QueuedConnection);
}

void MemoryEngine::list(const QString &prefix, const QString &pattern,
                        std::function<void(const EngineError &, const QList<LockInfo> &)> completion)
{
    QList<LockInfo> infos;
    {
        const QByteArray prefixBytes = Detail::nameBytes(prefix);
        const QByteArray patternBytes = Detail::nameBytes(pattern);
        const QMutexLocker locker(&m_store->mutex);
        const LeaseTime now = m_clock->now();
        const QList<QByteArray> keys = m_store->keys();
        for (const QByteArray &key : keys) {
            if (!key.startsWith(prefixBytes)
                || !globMatches(patternBytes, QByteArrayView(key).sliced(prefixBytes.size())))
                continue;
            LockInfo info = m_store->info(key, now);
            info.name = Detail::nameText(key.sliced(prefixBytes.size()));
            if (info.held)
                infos.append(info);
        }
    }
    QMetaObject::invokeMethod(
            this, [completion = std::move(completion), infos] { completion({}, infos); }, Qt::QueuedConnection);
}

void MemoryEngine::waiters(const LockId &lock, int atMost,
                           std::function<void(const EngineError &, const QList<LockWaiter> &)> completion)
{
    QList<LockWaiter> waiters;
    {
        const QMutexLocker locker(&m_store->mutex);
        const LeaseTime now = m_clock->now();
        const Identity identity = Identity::ofThisProcess();
        const QList<MemoryStore::Waiter> queue = m_store->queue(lock.key());
        for (const MemoryStore::Waiter &queued : queue.first(std::min<qsizetype>(atMost, queue.size()))) {
            LockWaiter waiter;
            waiter.position = int(waiters.size());
            const QByteArray client = Token::clientOf(queued.token);
            waiter.client = identity.client(client, m_store->engines.contains(client));
            waiter.waited = std::chrono::duration_cast<milliseconds>(now - queued.joinedAt);
            waiters.append(waiter);
        }
    }
    QMetaObject::invokeMethod(
            this, [completion = std::move(completion), waiters] { completion({}, waiters); }, Qt::QueuedConnection);
}

void MemoryEngine::forceRelease(const LockId &lock, qint64 fencingToken, Completion completion)
{
    EngineReply answer;
    {
        const QMutexLocker locker(&m_store->mutex);
        MemoryStore::Entry *const entry = m_store->find(lock.key(), m_clock->now());
        const bool isMeant = fencingToken == 0 || fencingToken == m_store->lastFence(lock.key());
        answer.status = !entry ? EngineReply::Gone : isMeant ? EngineReply::Done : EngineReply::Stolen;
        if (answer.status == EngineReply::Done) {
            for (const MemoryStore::Holder &holder : std::as_const(entry->holders))
                m_store->notify(holder.token, ForcedRelease);
            m_store->remove(lock.key());
            QByteArray own; // none: there is no caller
            m_store->serve(lock, m_clock->now(), Protocol::ClaimTtl, {}, &own);
        }
    }
    reply(std::move(completion), answer);
}

void MemoryEngine::setPermits(const LockId &lock, int permits,
                              std::function<void(const EngineError &, int before)> completion)
{
    int before;
    {
        const QMutexLocker locker(&m_store->mutex);
        const LeaseTime now = m_clock->now();
        before = m_store->permits(lock.key());
        m_store->setPermits(lock.key(), permits);
        const MemoryStore::Entry *const entry = m_store->find(lock.key(), now);
        QByteArray own; // none: there is no caller
        if (!entry || entry->isShared())
            m_store->serve(lock, now, Protocol::ClaimTtl, {}, &own);
    }
    QMetaObject::invokeMethod(
            this, [completion = std::move(completion), before] { completion({}, before); }, Qt::QueuedConnection);
}

} // namespace QDistLock
