// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "memoryengine.h"

#include "core/leaseclock.h"

#include <QtCore/qhash.h>
#include <QtCore/qmutex.h>

#include <algorithm>
#include <optional>

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

namespace QDistLock {

/// What a Redis server would keep, and the scripts in src/scripts do with it. Every member function wants
/// the mutex locked.
class MemoryStore
{
public:
    struct Entry
    {
        QByteArray token;
        nanoseconds expiry;
    };

    struct Waiter
    {
        QByteArray token;
        qint64 arrival;
        bool barge; ///< only to be woken
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

    Entry *find(const QByteArray &key, nanoseconds now)
    {
        const auto it = m_entries.find(key);
        if (it == m_entries.end())
            return nullptr;
        if (it->expiry > now)
            return &*it;
        m_entries.erase(it);
        return nullptr;
    }

    void set(const QByteArray &key, const QByteArray &token, nanoseconds expiry)
    {
        m_entries.insert(key, {token, expiry});
    }

    void remove(const QByteArray &key) { m_entries.remove(key); }

    QList<QByteArray> keys() const { return m_entries.keys(); }

    const Waiter *head(const QByteArray &key) const
    {
        const auto it = m_queues.constFind(key);
        return it == m_queues.cend() ? nullptr : &it->first();
    }

    qsizetype queueLength(const QByteArray &key) const { return m_queues.value(key).size(); }

    void leave(const QByteArray &key, const QByteArray &token)
    {
        const auto it = m_queues.find(key);
        if (it == m_queues.end())
            return;
        it->removeIf([&token](const Waiter &waiter) { return waiter.token == token; });
        if (it->isEmpty())
            m_queues.erase(it);
    }

    /// Returns the rank. \a arrival 0 = a new one, which it is set to.
    int join(const QByteArray &key, const QByteArray &token, bool barge, qint64 *arrival)
    {
        QList<Waiter> &queue = m_queues[key];
        const auto has = [&token](const Waiter &waiter) { return waiter.token == token; };
        auto it = std::find_if(queue.begin(), queue.end(), has);
        if (it == queue.end()) {
            if (*arrival == 0)
                *arrival = ++m_lastArrival;
            const auto later = [arrival](const Waiter &waiter) { return waiter.arrival > *arrival; };
            it = queue.insert(std::find_if(queue.begin(), queue.end(), later), {token, *arrival, barge});
        }
        *arrival = it->arrival;
        return int(it - queue.begin());
    }

    void tell(const QByteArray &token, LockEngine::Notice notice, milliseconds ms = 0ms)
    {
        // Under the mutex no engine can go.
        MemoryEngine *const engine = engines.value(LockEngine::clientOf(token));
        if (!engine)
            return;
        const quint64 sequence = LockEngine::sequenceOf(token);
        QMetaObject::invokeMethod(
                engine, [engine, notice, sequence, ms] { Q_EMIT engine->noticed(notice, sequence, ms); },
                Qt::QueuedConnection);
    }

    void standBy(const QByteArray &key, milliseconds ms)
    {
        if (const Waiter *next = head(key))
            tell(next->token, LockEngine::Next, ms);
    }

    enum Outcome { Free, Woken, Served, Own };
    /// Hands a lock that nobody holds to the first waiter that lives. \a own is set to a waiter of
    /// \a caller that is to have it: it has left the queue, nothing else is done.
    Outcome serve(const LockKeys &keys, nanoseconds now, milliseconds lease, const QByteArray &caller, QByteArray *own)
    {
        while (const Waiter *first = head(keys.lock)) {
            const Waiter waiter = *first;
            leave(keys.lock, waiter.token);
            const QByteArray client = LockEngine::clientOf(waiter.token);
            if (!engines.contains(client))
                continue;
            if (!waiter.barge && client == caller) {
                *own = waiter.token;
                return Own;
            }
            tell(waiter.token, LockEngine::Grant);
            if (!waiter.barge)
                offer(keys, waiter.token, now, lease);
            else
                standBy(keys.lock, std::min(lease, ClaimTtl));
            return waiter.barge ? Woken : Served;
        }
        return Free;
    }

    /// The lock waits for the waiter of \a token to claim it.
    void offer(const LockKeys &keys, const QByteArray &token, nanoseconds now, milliseconds lease)
    {
        const milliseconds claim = std::min(lease, ClaimTtl);
        set(keys.lock, token, now + claim);
        standBy(keys.lock, claim);
    }

    qint64 nextFence(const QByteArray &key)
    {
        const auto time = std::chrono::system_clock::now().time_since_epoch();
        qint64 &last = m_fences[key];
        last = std::max<qint64>(last + 1, std::chrono::duration_cast<std::chrono::microseconds>(time).count());
        return last;
    }

    qint64 lastFence(const QByteArray &key) const { return m_fences.value(key); }

private:
    static constexpr milliseconds ClaimTtl = 3s;

    QHash<QByteArray, Entry> m_entries;
    QHash<QByteArray, qint64> m_fences;
    QHash<QByteArray, QList<Waiter>> m_queues; ///< none of them empty
    qint64 m_lastArrival = 0;
};

namespace {

/// One element of a Redis glob, at the start of \a pattern: how long it is, and whether it matches \a byte.
struct GlobElement
{
    qsizetype size;
    bool matches;
};

GlobElement globElement(QByteArrayView pattern, uchar byte)
{
    const auto at = [pattern](qsizetype i) { return uchar(pattern.at(i)); };
    if (at(0) == '?')
        return {1, true};
    if (at(0) == '\\' && pattern.size() > 1)
        return {2, at(1) == byte};
    if (at(0) != '[')
        return {1, at(0) == byte};

    qsizetype i = 1;
    const bool inverted = i < pattern.size() && at(i) == '^';
    if (inverted)
        ++i;
    bool found = false;
    while (i < pattern.size() && at(i) != ']') { // a set that is not closed goes to the end
        if (at(i) == '\\' && i + 1 < pattern.size()) {
            found |= at(i + 1) == byte;
            i += 2;
        } else if (i + 2 < pattern.size() && at(i + 1) == '-') {
            const auto [least, greatest] = std::minmax({at(i), at(i + 2)});
            found |= least <= byte && byte <= greatest;
            i += 3;
        } else {
            found |= at(i) == byte;
            ++i;
        }
    }
    return {std::min(i + 1, pattern.size()), found != inverted};
}

/// As SCAN MATCH does, by bytes: * ? [a-z] [^a] \x
bool globMatches(QByteArrayView pattern, QByteArrayView text)
{
    // Only the last star seen may have to take more than it has.
    qsizetype p = 0, t = 0, star = -1, taken = 0;
    while (t < text.size()) {
        if (p < pattern.size() && pattern.at(p) == '*') {
            star = ++p;
            taken = t;
            continue;
        }
        if (p < pattern.size()) {
            const GlobElement element = globElement(pattern.sliced(p), uchar(text.at(t)));
            if (element.matches) {
                p += element.size;
                ++t;
                continue;
            }
        }
        if (star < 0)
            return false;
        p = star;
        t = ++taken;
    }
    while (p < pattern.size() && pattern.at(p) == '*')
        ++p;
    return p == pattern.size();
}

} // namespace

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

void MemoryEngine::reply(Completion completion, const EngineReply &reply)
{
    QMetaObject::invokeMethod(
            this, [completion = std::move(completion), reply] { completion(reply); }, Qt::QueuedConnection);
}

void MemoryEngine::acquire(const Acquire &operation, Completion completion)
{
    const LockKeys &keys = operation.keys;
    EngineReply answer;
    {
        const QMutexLocker locker(&m_store->mutex);
        const nanoseconds now = m_clock->now();
        const auto take = [&] {
            answer.status = EngineReply::Granted;
            answer.fencingToken = m_store->nextFence(keys.fence);
            m_store->set(keys.lock, operation.token, now + operation.lease);
            m_store->leave(keys.lock, operation.token);
        };
        // Who barges and was woken too late goes to the end (see acquire.lua).
        qint64 arrival = operation.barge ? 0 : operation.arrival.toLongLong();
        const auto join = [&] { return m_store->join(keys.lock, operation.token, operation.barge, &arrival); };

        const MemoryStore::Entry *entry = m_store->find(keys.lock, now);
        if (entry && entry->token == operation.token) {
            take();
        } else if (!entry) {
            const MemoryStore::Waiter *first = m_store->head(keys.lock);
            if (operation.barge || !first || first->token == operation.token) {
                take();
            } else {
                // Others came first; their turn is now.
                if (operation.enqueue)
                    join();
                QByteArray own;
                const auto outcome = m_store->serve(keys, now, operation.lease, clientId(), &own);
                if (outcome == MemoryStore::Own && own != operation.token) {
                    m_store->tell(own, Grant);
                    m_store->offer(keys, own, now, operation.lease);
                } else if (outcome == MemoryStore::Woken) {
                    // It may take the lock before those that are to have it, but the caller may not.
                    first = m_store->head(keys.lock);
                    if (!first || first->token == operation.token || first->barge)
                        take();
                } else if (outcome != MemoryStore::Served) {
                    take();
                }
            }
        }
        if (answer.status != EngineReply::Granted) {
            answer.status = EngineReply::Taken;
            entry = m_store->find(keys.lock, now);
            answer.holderTtl = entry ? std::chrono::ceil<milliseconds>(entry->expiry - now) : 0ms;
            if (operation.enqueue) {
                answer.queuePosition = join();
                answer.arrival = QByteArray::number(arrival);
            }
        }
    }
    reply(std::move(completion), answer);
}

void MemoryEngine::renew(const LockKeys &keys, const QByteArray &token, milliseconds lease,
                         Completion completion)
{
    EngineReply answer;
    {
        const QMutexLocker locker(&m_store->mutex);
        const nanoseconds now = m_clock->now();
        MemoryStore::Entry *entry = m_store->find(keys.lock, now);
        answer.status = !entry ? EngineReply::Gone
                : entry->token == token ? EngineReply::Done
                                        : EngineReply::Stolen;
        if (answer.status == EngineReply::Done)
            entry->expiry = now + lease;
    }
    reply(std::move(completion), answer);
}

void MemoryEngine::release(const LockKeys &keys, const QByteArray &token, milliseconds lease, milliseconds keep,
                           Completion completion)
{
    EngineReply answer;
    std::optional<Handover> handover;
    {
        const QMutexLocker locker(&m_store->mutex);
        const nanoseconds now = m_clock->now();
        MemoryStore::Entry *entry = m_store->find(keys.lock, now);
        answer.status = !entry ? EngineReply::Gone
                : entry->token == token ? EngineReply::Done
                                        : EngineReply::Stolen;
        QByteArray own;
        if (answer.status == EngineReply::Done && keep > 0ms) {
            entry->expiry = now + keep;
            m_store->standBy(keys.lock, keep);
        } else if (answer.status == EngineReply::Done) {
            m_store->remove(keys.lock);
            if (m_store->serve(keys, now, lease, clientId(), &own) == MemoryStore::Own) {
                m_store->set(keys.lock, own, now + lease);
                handover = {keys, own, m_store->nextFence(keys.fence), now, lease};
            }
        }
    }
    reply(std::move(completion), answer);
    if (handover) {
        QMetaObject::invokeMethod(
                this, [this, handover] { Q_EMIT handedOver(*handover); }, Qt::QueuedConnection);
    }
}

void MemoryEngine::abandon(const LockKeys &keys, const QByteArray &token, milliseconds lease, milliseconds keep,
                           milliseconds)
{
    const QMutexLocker locker(&m_store->mutex);
    const nanoseconds now = m_clock->now();
    const MemoryStore::Waiter *first = m_store->head(keys.lock);
    const bool wasNext = first && first->token == token;
    m_store->leave(keys.lock, token);
    MemoryStore::Entry *entry = m_store->find(keys.lock, now);
    if (entry && entry->token == token && keep > 0ms) {
        entry->expiry = now + keep;
        m_store->standBy(keys.lock, keep);
        return;
    }
    if (entry && entry->token != token) {
        if (wasNext)
            m_store->standBy(keys.lock, std::chrono::ceil<milliseconds>(entry->expiry - now));
        return;
    }
    m_store->remove(keys.lock);
    QByteArray own;
    if (m_store->serve(keys, now, lease, clientId(), &own) == MemoryStore::Own) {
        m_store->tell(own, Grant);
        m_store->offer(keys, own, now, lease);
    }
}

void MemoryEngine::inspect(const LockKeys &keys,
                           std::function<void(const EngineError &, const LockInfo &)> completion)
{
    LockInfo info;
    {
        const QMutexLocker locker(&m_store->mutex);
        const nanoseconds now = m_clock->now();
        if (const MemoryStore::Entry *entry = m_store->find(keys.lock, now)) {
            info.held = true;
            info.holder = QString::fromLatin1(clientOf(entry->token));
            info.remaining = std::chrono::ceil<milliseconds>(entry->expiry - now);
        }
        info.fencingToken = m_store->lastFence(keys.fence);
        info.queueLength = int(m_store->queueLength(keys.lock));
    }
    QMetaObject::invokeMethod(
            this, [completion = std::move(completion), info] { completion({}, info); }, Qt::QueuedConnection);
}

void MemoryEngine::list(const QString &prefix, const QString &pattern,
                        std::function<void(const EngineError &, const QList<LockInfo> &)> completion)
{
    QList<LockInfo> infos;
    {
        const QByteArray prefixBytes = prefix.toUtf8();
        const QByteArray patternBytes = pattern.toUtf8();
        const QMutexLocker locker(&m_store->mutex);
        const nanoseconds now = m_clock->now();
        const QList<QByteArray> keys = m_store->keys();
        for (const QByteArray &key : keys) {
            if (!key.startsWith(prefixBytes) || !globMatches(patternBytes, QByteArrayView(key).sliced(prefixBytes.size())))
                continue;
            const MemoryStore::Entry *entry = m_store->find(key, now);
            if (!entry)
                continue;
            LockInfo info;
            info.name = QString::fromUtf8(key.sliced(prefixBytes.size()));
            info.held = true;
            info.queueLength = int(m_store->queueLength(key));
            info.holder = QString::fromLatin1(clientOf(entry->token));
            info.remaining = std::chrono::ceil<milliseconds>(entry->expiry - now);
            QString ignored;
            if (const auto lockKeys = LockKeys::make(prefix, info.name, &ignored))
                info.fencingToken = m_store->lastFence(lockKeys->fence);
            infos.append(info);
        }
    }
    QMetaObject::invokeMethod(
            this, [completion = std::move(completion), infos] { completion({}, infos); }, Qt::QueuedConnection);
}

void MemoryEngine::forceRelease(const LockKeys &keys,
                                std::function<void(const EngineError &, bool existed)> completion)
{
    bool existed = false;
    {
        const QMutexLocker locker(&m_store->mutex);
        if (const MemoryStore::Entry *entry = m_store->find(keys.lock, m_clock->now())) {
            existed = true;
            m_store->tell(entry->token, ForcedRelease);
            m_store->remove(keys.lock);
            QByteArray own; // none: there is no caller
            m_store->serve(keys, m_clock->now(), 3s, {}, &own);
        }
    }
    QMetaObject::invokeMethod(
            this, [completion = std::move(completion), existed] { completion({}, existed); },
            Qt::QueuedConnection);
}

} // namespace QDistLock
