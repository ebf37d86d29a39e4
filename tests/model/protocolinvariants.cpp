// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// What must hold: of a command, of each state, at rest, and for every waiter in the end.

#include "protocolmodel.h"

#include <algorithm>
#include <iterator>

namespace ProtocolModel {

bool Model::isWoken(const Execution &e) const
{
    return std::any_of(e.messages.begin(), e.messages.end(),
                       [this](const Message &m) { return m.kind == 'g' && !fair(machineOf(m.token)); });
}

int Model::taken(const Server &server) const
{
    int permits = 0;
    for (const Sharer &sharer : server.sharers)
        permits += sharer.lives() ? take(sharer.token) : 0;
    return permits;
}

void Model::checkHolders(const Server &after) const
{
    if (after.ttl == NoTtl && after.holder != Foreign)
        throw Violation("the key has no time to live");
    if (after.isWaiting(after.holder))
        throw Violation("the holder is in the queue");
    for (const Sharer &r : after.sharers) {
        if (r.left > after.ttl)
            throw Violation("the key ends before the lease of one that shares it");
        if (after.isWaiting(r.token))
            throw Violation("one that shares the lock is in the queue");
    }
    if (taken(after) > m_config.mostPermits())
        throw Violation("more permits are taken than there are");
}

void Model::checkSlots(const Server &before, const Server &after) const
{
    const auto find = [](const Server &server, Byte token) {
        const auto it = std::find_if(server.sharers.begin(), server.sharers.end(),
                                     [token](const Sharer &r) { return r.token == token; });
        return it == server.sharers.end() ? nullptr : &*it;
    };
    std::vector<int> slots;
    int greatestNew = -1;
    for (const Sharer &r : after.sharers) {
        const Sharer *const former = find(before, r.token);
        const bool isNew = !former || (r.lives() && !former->lives());
        for (int i = 0; i < 2; ++i) {
            const int slot = r.slots[std::size_t(i)];
            if (slot < 0 && isNew && wantsSlots(r.token) && i < take(r.token))
                throw Violation("one that wants a slot has none");
            if (slot >= 0 && !wantsSlots(r.token))
                throw Violation("one that wants no slot has one");
            if (!isNew && slot != former->slots[std::size_t(i)])
                throw Violation("the slot of a holder changes");
            if (slot < 0)
                continue;
            slots.push_back(slot);
            if (isNew)
                greatestNew = std::max(greatestNew, slot);
        }
    }
    std::sort(slots.begin(), slots.end());
    if (std::adjacent_find(slots.begin(), slots.end()) != slots.end())
        throw Violation("two permits have the same slot");
    if (greatestNew >= 0 && greatestNew >= after.permits)
        throw Violation("a slot is given that is none of the semaphore");
    for (int lower = 0; lower < greatestNew; ++lower) {
        if (!std::binary_search(slots.begin(), slots.end(), lower))
            throw Violation("a slot is given that is not the lowest");
    }
}

void Model::checkSharers(const Server &before, const Server &after, Byte token) const
{
    for (const Sharer &r : before.sharers) {
        if (r.token == token)
            continue;
        if (r.lives() && !after.left(r.token))
            throw Violation("a command takes the lock from another that shares it");
        if (after.isKept(r.token) && after.left(r.token) != std::max<int>(r.left, 0))
            throw Violation("a command changes the lease of another that shares the lock");
    }
    checkSlots(before, after);
    // The number may have become less: nobody loses a permit, and nobody gets one.
    for (const Sharer &r : after.sharers) {
        if (r.lives() && !before.left(r.token) && take(r.token) && taken(after) > after.permits)
            throw Violation("a permit is given that is not left");
    }
}

void Model::checkRejected(const Server &before, const Server &after, const Command &command) const
{
    for (const Sharer &r : before.sharers) {
        if (after.left(r.token) != std::max<int>(r.left, 0))
            throw Violation("an acquire that is rejected changes the lock");
    }
    if (before.queue.size() != after.queue.size() || before.holder != after.holder || before.permits != after.permits)
        throw Violation("an acquire that is rejected changes something");
    const bool isOtherKind = std::any_of(before.sharers.begin(), before.sharers.end(), [&](const Sharer &r) {
        return r.lives() && !areOfOneKind(r.token, command.token);
    });
    const bool isOtherNumber = m_config.serverSays ? !before.permits : before.permits != m_config.permits;
    const int most = before.permits ? before.permits : m_config.permits;
    if (!canShare(command.token)
        || !(isOtherKind || (take(command.token) && (isOtherNumber || take(command.token) > most))))
        throw Violation("an acquire is rejected that could be served");
}

bool Model::keepsFirstWaiting(const State &s, const Server &after) const
{
    const auto first = std::find_if(after.queue.begin(), after.queue.end(),
                                    [&](const Waiter &w) { return heard(s, w.token); });
    return first != after.queue.end() && after.isShared() && !first->wakeOnly && canShare(first->token)
            && areOfOneKind(first->token, after.sharers.front().token)
            && (isReader(first->token) || taken(after) + take(first->token) <= after.permits);
}

void Model::check(const State &s, const Command &command, const Execution &e) const
{
    const Server &before = s.server, &after = e.after;
    const auto fail = [&](const std::string &what) { throw Violation(what); };
    const bool own = before.left(command.token) > 0;
    if (before.holder && !own && after.holder != before.holder)
        fail("a command takes the lock from another holder");
    if (before.holder && !own && after.ttl != before.ttl)
        fail("a waiter changes the holder's time to live");
    checkSharers(before, after, command.token);
    const bool isOtherNumber = !m_config.serverSays && before.permits && before.permits != m_config.permits;
    if (command.kind == Acquire && e.reply.outcome == Rejected)
        checkRejected(before, after, command);
    else if (command.kind == Acquire && e.reply.outcome != Refused && take(command.token) && isOtherNumber
             && !before.left(command.token))
        fail("an acquire with another number of permits is accepted");
    if (command.kind == Renew && !own && after.left(command.token))
        fail("a renewal revives a lease that has ended");
    checkHolders(after);
    const auto place = [](const Server &server, Byte token) -> const Waiter * {
        for (const Waiter &w : server.queue) {
            if (w.token == token)
                return &w;
        }
        return nullptr;
    };
    const auto isLive = [&](const Waiter &w) { return heard(s, w.token) && w.token != command.token && !w.wakeOnly; };
    const auto checkNew = [&](Byte holder) {
        if (!holder || holder == Foreign || before.left(holder))
            return;
        const bool isOfCaller = m_config.client[std::size_t(machineOf(holder))]
                == m_config.client[std::size_t(machineOf(command.token))];
        if (holder != command.token && !heard(s, holder) && !(isOfCaller && !canShare(holder)))
            fail("the lock is given to a waiter that cannot hear of it");
        if (command.kind == Renew)
            fail("a renewal passes the lock on");
        if (!fair(machineOf(holder)))
            return;
        const Waiter *const served = place(before, holder);
        const Byte turn = served                             ? served->arrival
                : holder == command.token && command.arrival ? command.arrival
                                                             : Byte(Now);
        for (const Waiter &w : before.queue) {
            if (isLive(w) && !after.left(w.token) && w.arrival < turn)
                fail("a waiter that is heard is overtaken");
        }
    };
    checkNew(after.holder);
    for (const Sharer &r : after.sharers)
        checkNew(r.lives() ? r.token : Byte(0));
    bool waits = false;
    for (const Waiter &w : before.queue) {
        if (!isLive(w))
            continue;
        const bool isTooMany = take(w.token) > before.permits; // it is woken, and rejected
        if (!place(after, w.token) && !after.left(w.token) && !isTooMany)
            fail("a waiter that is heard loses its place");
        waits = waits || place(after, w.token);
    }
    const bool isGivenBack = command.kind == Cancel || command.kind == Release;
    if ((command.kind == Cancel || (command.kind == Release && m_config.killsFormer))
        && (after.isKept(command.token) || place(after, command.token)))
        fail("a token that was given back keeps the lock or a place");
    for (const Waiter &w : after.queue) {
        if (w.wakeOnly && !place(before, w.token) && w.token != after.queue.back().token)
            fail("one that was woken comes back before those whose turn it is");
    }
    if (isWoken(e) || isMute(command))
        return;
    if (waits && own && after.isFree())
        fail("the lock is free while somebody waits");
    const bool serves = isGivenBack
            ? own || place(before, command.token)
            : command.kind == Acquire && e.reply.outcome != Rejected && couldShare(before, command.token);
    if (serves && keepsFirstWaiting(s, after) && m_config.sharersAtMost == 0)
        fail("the first waiter could share the lock, and waits");
}

void Model::checkTogether(State &s, const Command &command, const Together &e)
{
    const auto fail = [](const std::string &what) { throw Violation(what); };
    const Byte token = command.token;
    std::array<bool, 2> free{};
    for (std::size_t i = 0; i < 2; ++i) {
        const Server &before = s.server, &after = e.after[i];
        const auto heardOf = [&](const Server &server) {
            std::vector<Waiter> all;
            std::copy_if(server.queue.begin(), server.queue.end(), std::back_inserter(all),
                         [&](const Waiter &w) { return heard(s, w.token); });
            return all;
        };
        const std::vector<Waiter> waiters = heardOf(before), rest = heardOf(after);
        free[i] = waiters.empty()
                && (before.isFree() || before.left(token) > 0 || (before.isShared() && isReader(token)));
        checkHolders(after);
        checkSharers(before, after, token);
        if (before.holder && before.holder != token && (after.holder != before.holder || after.ttl != before.ttl))
            fail("an acquire of two locks changes one that another holds");
        if (after.holder && after.holder != before.holder && after.holder != token)
            fail("an acquire of two locks makes another the holder");
        if (!std::equal(waiters.begin(), waiters.end(), rest.begin(), rest.end(), [](const Waiter &a, const Waiter &b) {
                return a.token == b.token && a.arrival == b.arrival && a.wakeOnly == b.wakeOnly;
            }))
            fail("an acquire of two locks changes a queue");
        const bool isNotified = !rest.empty()
                && std::any_of(e.messages.begin(), e.messages.end(), [&](const Message &m) {
                       return m.kind == 'n' && m.token == rest.front().token && m.ticks <= 1;
                   });
        if (after.isFree() && !rest.empty() && !isNotified)
            fail("one of two locks is free, and nobody is notified that waits for it");
        turn(s);
    }
    const bool areFree = free[0] && free[1];
    for (std::size_t i = 0; i < 2; ++i) {
        const bool isAcquired = e.outcomes[i] == Together::Acquired;
        if (isAcquired && !areFree)
            fail("one of two locks is acquired, but not both are free");
        if (!isAcquired && areFree)
            fail("two locks are free, and are not acquired together");
        if (isAcquired ? e.after[i].left(token) != lease(machineOf(token)) : e.after[i].isKept(token))
            fail("a lock is not held as the reply to an acquire of two says");
        if (!isAcquired && free[i] != (e.outcomes[i] == Together::Free))
            fail("the reply to an acquire of two locks says wrongly which one is free");
    }
    if (std::any_of(e.messages.begin(), e.messages.end(), [](const Message &m) { return m.kind != 'n'; }))
        fail("an acquire of two locks serves a waiter");
}

void Model::checkForce(const State &s, const Execution &e) const
{
    const Server &before = s.server, &after = e.after;
    checkHolders(after);
    bool keeps = before.holder && after.isKept(before.holder);
    for (const Sharer &r : before.sharers)
        keeps = keeps || after.isKept(r.token);
    if (keeps)
        throw Violation("a lock that was released by force is kept");
    const bool waits = std::any_of(after.queue.begin(), after.queue.end(),
                                   [&](const Waiter &w) { return heard(s, w.token) && !w.wakeOnly; });
    if (waits && after.isFree() && !isWoken(e))
        throw Violation("the lock is free while somebody waits");
}

void Model::checkChange(const State &s, const Execution &e) const
{
    const Server &before = s.server, &after = e.after;
    checkHolders(after);
    checkSharers(before, after, 0);
    if (before.holder != after.holder && before.holder)
        throw Violation("a change of the number of permits takes the lock from its holder");
    if (keepsFirstWaiting(s, after) && !isWoken(e) && m_config.sharersAtMost == 0)
        throw Violation("the number of permits is greater, and the first waiter waits");
}

void Model::checkState(const State &s)
{
    // forceRelease() is meant for a holder that is known to be dead.
    if (m_config.forced > 0)
        return;
    checkBeliefs(s);
    if (!m_config.hasTwoLocks())
        return;
    State other = s;
    turn(other);
    checkBeliefs(other);
    turn(other);
}

void Model::checkBeliefs(const State &s) const
{
    int writers = s.server.holder == Foreign, readers = 0, permits = 0;
    for (int m = 0; m < Machines; ++m) {
        const Machine &x = s.machines[std::size_t(m)];
        const int sure = x.phase == Held ? x.belief - x.allowance : 0;
        if (sure <= 0 || !concerns(m))
            continue;
        const Byte token = tokenOf(m, x.epoch);
        permits += take(token);
        readers += isReader(token);
        writers += !canShare(token);
        if (s.server.left(token) < sure || s.server.ttl < sure)
            throw Violation("a client believes it holds the lock, but not as long as the key");
    }
    if (writers > 1)
        throw Violation("two clients believe they hold the lock");
    if (writers > 0 && readers + permits > 0)
        throw Violation("a writer and another believe they hold the lock");
    if (readers > 0 && permits > 0)
        throw Violation("a reader and a holder of permits believe they hold the lock");
    if (permits > m_config.mostPermits())
        throw Violation("clients believe they hold more permits than there are");
}

void Model::checkRest(const State &s)
{
    checkLockAtRest(s);
    State other = s;
    turn(other);
    checkLockAtRest(other);
    turn(other);
}

void Model::checkLockAtRest(const State &s) const
{
    if (s.server.holder || !s.server.sharers.empty())
        throw Violation("the lock stays taken with nobody to give it back");
    for (const Waiter &w : s.server.queue) {
        const std::size_t c = std::size_t(m_config.client[std::size_t(machineOf(w.token))]);
        if (s.clients[c].life == Running && m_config.killsFormer)
            throw Violation("a waiter that nobody wants is left in the queue");
    }
}

void Model::checkProgress(Result *result)
{
    enum : std::int16_t { Unknown = -1, Visited = -2 };
    struct Rest
    {
        std::int16_t ticks = Unknown, idle = 0;
    };
    std::vector<Rest> rest(m_nodes.size());
    std::vector<std::uint32_t> path;
    for (std::size_t start = 0; start < m_nodes.size(); ++start) {
        std::uint32_t node = std::uint32_t(start);
        for (; rest[node].ticks == Unknown && m_nodes[node].waiting; node = m_nodes[node].calm) {
            rest[node].ticks = Visited;
            path.push_back(node);
        }
        const auto fail = [&](std::size_t at, const char *what, const std::string &then) {
            m_from = at;
            m_step = "and then, without any fault, " + then;
            throw Violation(what);
        };
        if (rest[node].ticks == Visited)
            fail(start, "a waiter is never served", "for ever");
        if (!m_nodes[node].waiting)
            rest[node].ticks = 0;
        Rest left = rest[node];
        for (; !path.empty(); path.pop_back()) {
            const std::uint32_t at = path.back();
            if (m_nodes[at].calmTick) {
                ++left.ticks;
                left.idle = std::int16_t(left.idle + m_nodes[at].idle);
            }
            rest[at] = left;
            result->slowest = std::max<int>(result->slowest, left.ticks);
            result->idle = std::max<int>(result->idle, left.idle);
            if (left.idle > m_config.idleAtMost)
                fail(at, "the lock is free for too long while somebody waits", std::to_string(left.idle) + " ticks");
        }
    }
}

} // namespace ProtocolModel
