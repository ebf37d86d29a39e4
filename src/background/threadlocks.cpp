// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "background/threadlocks.h"

#include "background/lockhold.h"
#include "engine/servername.h"
#include "lock/resolvedaddress.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace QDistLock {

namespace {

struct ThreadEntry
{
    QUrl server;
    QString key;
    std::weak_ptr<LockHold> hold;
    QString work; ///< only of unfinished work
};

struct ThreadEntries
{
    ThreadEntries() { entries.reserve(8); }
    ~ThreadEntries() { destroyed = true; }

    std::vector<ThreadEntry> entries; ///< in the order in which the thread acquired them
    std::vector<ThreadEntry> unfinished;
    /// Other thread-local and static objects may be destroyed later and still release locks.
    static thread_local bool destroyed;
};

thread_local bool ThreadEntries::destroyed = false;

/// Null at the end of the thread.
ThreadEntries *threadEntries()
{
    if (ThreadEntries::destroyed)
        return nullptr;
    static thread_local ThreadEntries entries;
    return &entries;
}

void append(std::vector<ThreadEntry> *entries, ThreadEntry entry)
{
    if (entries->size() == entries->capacity()) {
        // Scopes that were destroyed in another thread, and work that has finished, leave expired entries.
        entries->erase(std::remove_if(entries->begin(), entries->end(),
                                      [](const ThreadEntry &entry) { return entry.hold.expired(); }),
                       entries->end());
        // With twice the room the next search for expired entries is as far off as this list is long.
        entries->reserve(std::max<size_t>(8, entries->size() * 2));
    }
    entries->push_back(std::move(entry));
}

} // namespace

void ThreadLocks::push(const LockAddress &address, const std::shared_ptr<LockHold> &hold)
{
    if (auto *const thread = threadEntries())
        append(&thread->entries, {address.server(), keyOf(address), hold, {}});
}

void ThreadLocks::remove(const std::shared_ptr<LockHold> &hold)
{
    auto *const thread = threadEntries();
    if (!thread)
        return;
    auto &entries = thread->entries;
    entries.erase(std::remove_if(entries.begin(), entries.end(),
                                 [&hold](const ThreadEntry &entry) {
                                     return !entry.hold.owner_before(hold) && !hold.owner_before(entry.hold);
                                 }),
                  entries.end());
}

std::shared_ptr<LockHold> ThreadLocks::find(const LockAddress &address)
{
    const auto *const thread = threadEntries();
    if (!thread)
        return nullptr;
    const QUrl server = address.server();
    const QString prefix = address.keyPrefix();
    const QString name = address.name();
    for (auto it = thread->entries.rbegin(); it != thread->entries.rend(); ++it) {
        if (it->key.size() != prefix.size() + name.size() || !it->key.startsWith(prefix) || !it->key.endsWith(name)
            || !isSameLockSpace(it->server, server)) {
            continue;
        }
        auto hold = it->hold.lock();
        if (hold && hold->isHeld())
            return hold;
    }
    return nullptr;
}

void ThreadLocks::addUnfinished(const LockAddress &address, const std::shared_ptr<LockHold> &hold, const QString &work)
{
    if (auto *const thread = threadEntries())
        append(&thread->unfinished, {address.server(), keyOf(address), hold, work});
}

QString ThreadLocks::unfinishedWork(const LockAddress &address)
{
    const auto *const thread = threadEntries();
    if (!thread)
        return QString();
    const QString key = keyOf(address);
    for (const ThreadEntry &entry : thread->unfinished) {
        if (entry.key != key || !isSameLockSpace(entry.server, address.server()))
            continue;
        if (const auto hold = entry.hold.lock(); hold && hold->isHeld())
            return entry.work;
    }
    return QString();
}

} // namespace QDistLock
