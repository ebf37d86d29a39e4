// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "memoryengine.h"

#include "core/leaseclock.h"

#include <QtCore/qhash.h>
#include <QtCore/qmutex.h>

#include <algorithm>

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

namespace QDistLock {

/// What a Redis server would keep. Every member function wants the mutex locked.
class MemoryStore
{
public:
    struct Entry
    {
        QByteArray token;
        nanoseconds expiry;
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

    qint64 nextFence(const QByteArray &key)
    {
        const auto time = std::chrono::system_clock::now().time_since_epoch();
        qint64 &last = m_fences[key];
        last = std::max<qint64>(last + 1, std::chrono::duration_cast<std::chrono::microseconds>(time).count());
        return last;
    }

    qint64 lastFence(const QByteArray &key) const { return m_fences.value(key); }

private:
    QHash<QByteArray, Entry> m_entries;
    QHash<QByteArray, qint64> m_fences;
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
    EngineReply answer;
    {
        const QMutexLocker locker(&m_store->mutex);
        const nanoseconds now = m_clock->now();
        MemoryStore::Entry *entry = m_store->find(operation.keys.lock, now);
        if (entry && entry->token != operation.token) {
            answer.status = EngineReply::Taken;
            answer.holderTtl = std::chrono::ceil<milliseconds>(entry->expiry - now);
        } else {
            answer.status = EngineReply::Granted;
            answer.fencingToken = entry ? m_store->lastFence(operation.keys.fence)
                                        : m_store->nextFence(operation.keys.fence);
            m_store->set(operation.keys.lock, operation.token, now + operation.lease);
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

void MemoryEngine::release(const LockKeys &keys, const QByteArray &token, milliseconds keep,
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
        if (answer.status == EngineReply::Done) {
            if (keep > milliseconds(0))
                entry->expiry = now + keep;
            else
                m_store->remove(keys.lock);
        }
    }
    reply(std::move(completion), answer);
}

void MemoryEngine::abandon(const LockKeys &keys, const QByteArray &token, milliseconds keep, milliseconds)
{
    release(keys, token, keep, [](const EngineReply &) {});
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
            const quint64 sequence = sequenceOf(entry->token);
            // Under the mutex no engine can go.
            if (MemoryEngine *holder = m_store->engines.value(clientOf(entry->token))) {
                QMetaObject::invokeMethod(
                        holder, [holder, sequence] { Q_EMIT holder->noticed(ForcedRelease, sequence); },
                        Qt::QueuedConnection);
            }
            m_store->remove(keys.lock);
        }
    }
    QMetaObject::invokeMethod(
            this, [completion = std::move(completion), existed] { completion({}, existed); },
            Qt::QueuedConnection);
}

} // namespace QDistLock
