// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// What must hold: of a command, of each state, at rest, and for every waiter in the end.

#include "protocolmodel.h"

#include <algorithm>

namespace ProtocolModel {

void Model::check(const State &s, const Command &command, const Execution &e) const
{
    const Server &before = s.server, &after = e.after;
    const auto fail = [&](const std::string &what) { throw Violation(what); };
    const bool own = before.holder == command.token;
    if (before.holder && !own && after.holder != before.holder)
        fail("a command takes the lock from another holder");
    if (before.holder && !own && after.ttl != before.ttl)
        fail("a waiter changes the holder's time to live");
    if (after.holder && after.ttl == NoTtl && after.holder != Foreign)
        fail("the key has no time to live");
    if (after.holder && after.holder != Foreign && after.holder != before.holder && after.holder != command.token) {
        if (!heard(s, after.holder)
            && m_config.client[std::size_t(machineOf(after.holder))]
                    != m_config.client[std::size_t(machineOf(command.token))])
            fail("the lock is given to a waiter that cannot hear of it");
        if (command.kind == Renew)
            fail("a renewal passes the lock on");
    }
    const auto place = [](const Server &server, Byte token) -> const Waiter * {
        for (const Waiter &w : server.queue) {
            if (w.token == token)
                return &w;
        }
        return nullptr;
    };
    if (after.holder && place(after, after.holder))
        fail("the holder is in the queue");
    const bool changed = after.holder && after.holder != before.holder;
    const bool barge = after.holder && after.holder != Foreign && !fair(machineOf(after.holder));
    const Waiter *const served = changed ? place(before, after.holder) : nullptr;
    const Byte turn = served                                   ? served->arrival
            : after.holder == command.token && command.arrival ? command.arrival
                                                               : Byte(Now);
    bool waits = false;
    for (const Waiter &w : before.queue) {
        const bool live = heard(s, w.token) && w.token != command.token;
        if (w.wakeOnly || !live)
            continue;
        if (changed && !barge && w.token != after.holder && w.arrival < turn)
            fail("a waiter that is heard is overtaken");
        if (!place(after, w.token) && after.holder != w.token)
            fail("a waiter that is heard loses its place");
        waits = waits || place(after, w.token);
    }
    if ((command.kind == Cancel || (command.kind == Release && m_config.killsFormer))
        && (after.holder == command.token || place(after, command.token)))
        fail("a token that was given back keeps the lock or a place");
    for (const Waiter &w : after.queue) {
        if (w.wakeOnly && !place(before, w.token) && w.token != after.queue.back().token)
            fail("one that was woken comes back before those whose turn it is");
    }
    const bool woken = std::any_of(e.messages.begin(), e.messages.end(),
                                   [this](const Message &m) { return m.kind == 'g' && !fair(machineOf(m.token)); });
    if (waits && own && before.holder && !after.holder && !woken && !isMute(command))
        fail("the lock is free while somebody waits");
}

void Model::checkState(const State &s) const
{
    // forceRelease() is meant for a holder that is known to be dead.
    if (m_config.forced > 0)
        return;
    int holders = s.server.holder == Foreign;
    for (int m = 0; m < Machines; ++m) {
        const Machine &x = s.machines[std::size_t(m)];
        const int sure = x.phase == Held ? x.belief - x.allowance : 0;
        if (sure <= 0)
            continue;
        ++holders;
        if (s.server.holder != tokenOf(m, x.epoch) || s.server.ttl < sure)
            throw Violation("a client believes it holds the lock, but not as long as the key");
    }
    if (holders > 1)
        throw Violation("two clients believe they hold the lock");
}

void Model::checkRest(const State &s) const
{
    if (s.server.holder)
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
