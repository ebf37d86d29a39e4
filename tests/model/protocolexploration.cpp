// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Every state that can follow another one, breadth first.

#include "protocolmodel.h"

#include <algorithm>
#include <utility>

namespace ProtocolModel {

Model::Result Model::explore(std::size_t atMost)
{
    m_atMost = atMost;
    State first;
    first.faults = Byte(m_config.faults);
    first.foreign = Byte(m_config.foreign);
    first.forced = Byte(m_config.forced);
    first.changes = Byte(m_config.changes);
    first.server.permits = Byte(m_config.serverSays ? m_config.permits : 0);
    for (int m = 0; m < Machines; ++m)
        first.machines[std::size_t(m)].left = Byte(m_config.acquisitions[std::size_t(m)]);
    for (int c = 0; c < Machines; ++c) {
        if (std::find(m_config.client.begin(), m_config.client.end(), c) == m_config.client.end())
            first.clients[std::size_t(c)].life = Dead;
    }
    for (auto &client : first.clients)
        client.subscribed = client.listening = client.life == Running;
    Result result;
    try {
        m_from = 0;
        add(first, "begin");
        for (m_from = 0; m_from < m_nodes.size(); ++m_from)
            expand(decode(*m_nodes[m_from].bytes));
        checkProgress(&result);
    } catch (const Violation &violation) {
        result.violation = violation.what();
        for (std::size_t node = m_from;; node = m_nodes[node].parent) {
            result.trace.insert(result.trace.begin(), m_labels[m_nodes[node].label]);
            if (node == 0)
                break;
        }
        result.trace.push_back(m_step);
    }
    result.states = m_nodes.size();
    result.steps = m_steps;
    result.scriptRuns = m_scripts.runs;
    return result;
}

bool Model::hasRoom(const State &s, Byte token) const
{
    if (!s.server.isShared() || !canShare(token) || s.server.left(token)
        || !areOfOneKind(token, s.server.sharers.front().token))
        return false;
    int permits = taken(s.server) + take(token);
    for (const Waiter &w : s.server.queue) {
        if (w.token == token)
            break;
        if (!heard(s, w.token))
            continue;
        if (!areOfOneKind(w.token, token))
            return false;
        permits += take(w.token);
    }
    return isReader(token) || permits <= s.server.permits;
}

bool Model::isIdle(const State &s)
{
    if (isFirstIdle(s) || !m_config.hasTwoLocks())
        return isFirstIdle(s);
    State other = s;
    turn(other);
    const bool isOtherIdle = isFirstIdle(other);
    turn(other);
    return isOtherIdle;
}

bool Model::isFirstIdle(const State &s) const
{
    for (int m = 0; m < Machines; ++m) {
        const Machine &x = s.machines[std::size_t(m)];
        const int client = m_config.client[std::size_t(m)];
        const bool waits = x.phase == Acquiring && s.clients[std::size_t(client)].life == Running;
        if (lockOf(m) != Both && concerns(m) && waits && (s.server.isFree() || hasRoom(s, tokenOf(m, x.epoch))))
            return true;
    }
    return false;
}

bool Model::isPresent(const State &s, Byte token) const
{
    const Machine &x = s.machines[std::size_t(machineOf(token))];
    return token == tokenOf(machineOf(token), x.epoch) && x.traces;
}

bool Model::matters(const State &s, const Message &m) const
{
    if (m.proven && (m_behaviour.believesFormer || m_behaviour.believesUnwanted))
        return true;
    const Machine &x = s.machines[std::size_t(machineOf(m.token))];
    return isPresent(s, m.token) && (m.kind == 'f' ? x.phase == Held : x.phase == Acquiring);
}

void Model::reduce(const State &s, std::vector<Message> &messages) const
{
    const auto isSame = [](const Message &a, const Message &b) {
        return a.kind == b.kind && a.token == b.token && a.proven == b.proven && (a.kind != 'g' || a.ticks == b.ticks)
                && (!a.proven || (a.age == b.age && a.shift == b.shift && a.forward == b.forward));
    };
    std::vector<Message> kept;
    for (Message m : messages) {
        const auto isGrant = [&](const Message &k) { return k.proven && k.token == m.token; };
        if (!matters(s, m) && !(m.kind == 'f' && std::any_of(kept.begin(), kept.end(), isGrant)))
            continue;
        if (m.kind == 'g' && (m.proven ? m.age >= m.ticks + m_clockSteps : !m_behaviour.proofUnchecked))
            becomeHint(&m); // nobody believes it
        if (m.kind != 'g')
            m.age = 0, m.shift = 0, m.forward = 0;
        // Of several messages of one kind only the last one counts.
        kept.erase(std::remove_if(kept.begin(), kept.end(), [&](const Message &k) { return isSame(k, m); }),
                   kept.end());
        kept.push_back(m);
    }
    messages = std::move(kept);
}

void Model::reduce(State &s) const
{
    for (Client &c : s.clients) {
        if (c.life == Dead || !c.listening)
            c.messages.clear();
        else if (!c.messages.empty())
            reduce(s, c.messages);
        for (Reply &reply : c.replies) {
            if (reply.kind != Acquire)
                reply.waited = 0;
        }
        for (Command &late : c.late)
            late.age = 0;
    }
    if (s.faults == 0)
        s.overheard.clear();
    else if (!s.overheard.empty())
        reduce(s, s.overheard);
    // The attempt with which an acquisition begins brings a sample.
    std::array<bool, Machines> acquires{};
    for (int m = 0; m < Machines; ++m) {
        Machine &x = machine(s, m);
        acquires[std::size_t(m_config.client[std::size_t(m)])] |= x.phase == Acquiring;
        if (x.phase == Idle && !m_behaviour.believesUnwanted)
            x.epoch = 0;
    }
    for (int c = 0; c < Machines; ++c) {
        if (!acquires[std::size_t(c)])
            forgetClock(s.clients[std::size_t(c)]);
    }
    std::vector<Byte *> arrivals;
    arrivals.reserve(32);
    for (Server *server : {&s.server, &s.second}) {
        for (Waiter &w : server->queue)
            arrivals.push_back(&w.arrival);
    }
    for (Machine &x : s.machines)
        arrivals.push_back(&x.arrival);
    for (Client &c : s.clients) {
        for (auto *list : {&c.sent, &c.late}) {
            for (Command &command : *list)
                arrivals.push_back(&command.arrival);
        }
        for (Reply &reply : c.replies)
            arrivals.push_back(&reply.arrival);
    }
    std::array<Byte, Now + 1> place{};
    for (const Byte *arrival : arrivals)
        place[*arrival] = 1;
    Byte next = 0;
    for (std::size_t i = 1; i < place.size(); ++i)
        place[i] = place[i] ? ++next : Byte(0);
    place[0] = 0;
    for (Byte *arrival : arrivals)
        *arrival = place[*arrival];
}

std::uint32_t Model::add(State &s, const std::string &label)
{
    m_step = label;
    ++m_steps;
    checkState(s);
    reduce(s);
    const auto [it, added] = m_index.try_emplace(encode(s), std::uint32_t(m_nodes.size()));
    if (added) {
        if (m_nodes.size() >= m_atMost)
            throw Violation("more states than the model may have");
        const auto known = m_labelIndex.try_emplace(label, m_labels.size());
        if (known.second)
            m_labels.push_back(label);
        bool waiting = false;
        for (int m = 0; m < Machines; ++m)
            waiting = waiting || (s.machines[std::size_t(m)].phase == Acquiring && clientOf(s, m).life == Running);
        m_nodes.push_back(
                {&it->first, std::uint32_t(m_from), 0, std::uint16_t(known.first->second), waiting, isIdle(s), false});
    }
    return it->second;
}

void Model::expand(const State &s)
{
    // The calm step is the first of these in order: live clients act at once, then time passes.
    int calmRank = 100;
    std::uint32_t calm = std::uint32_t(m_from);
    const auto step = [&](int rank, const std::string &label, const auto &change) {
        State next = s;
        m_step = label;
        change(next);
        const std::uint32_t node = add(next, label);
        if (rank < calmRank && node != m_from) {
            calmRank = rank;
            calm = node;
        }
    };
    constexpr int NotCalm = 100;
    for (int c = 0; c < Machines; ++c) {
        const Client &client = s.clients[std::size_t(c)];
        const std::string who(1, char('A' + c));
        const auto of = [c](State &next) -> Client & { return next.clients[std::size_t(c)]; };
        const bool running = client.life == Running;
        if (!client.sent.empty())
            step(1, "server runs " + described(client.sent.front()) + " of " + who, [&](State &next) {
                const Command command = of(next).sent.front();
                of(next).sent.erase(of(next).sent.begin());
                Reply reply = serve(next, command);
                reply.age = command.age;
                if (command.kind == Acquire && reply.outcome == 0)
                    outdate(next, command.token);
                of(next).replies.push_back(reply);
            });
        if (!client.late.empty())
            step(1, "server runs late " + described(client.late.front()) + " of " + who, [&](State &next) {
                const Command command = of(next).late.front();
                of(next).late.erase(of(next).late.begin());
                serve(next, command);
            });
        if (client.life == Dead && client.subscribed)
            step(1, "server notices the end of " + who, [&](State &next) { of(next).subscribed = false; });
        if (running && !client.replies.empty())
            step(0, who + " reads a reply", [&](State &next) { processReply(next, c); });
        if (running && !client.messages.empty())
            step(0, who + " reads a message", [&](State &next) { processMessage(next, c); });
        if (running && !client.connected)
            step(2, who + " connects again", [&](State &next) { reconnect(next, c); });
        if (running && !client.subscribed && client.listening)
            step(2, who + " notices that its subscription is lost", [&](State &next) {
                of(next).listening = false;
                wakeableChanged(next, c);
            });
        if (running && !client.listening)
            step(2, who + " is subscribed again", [&](State &next) {
                of(next).subscribed = of(next).listening = true;
                wakeableChanged(next, c);
            });
        if (client.life == Frozen)
            step(NotCalm, who + " continues", [&](State &next) { of(next).life = Running; });
        const auto fault = [&](char kind, bool possible, const char *what, const auto &change) {
            if (s.faults == 0 || !possible || m_config.kinds.find(kind) == std::string::npos)
                return;
            step(NotCalm, who + what, [&](State &next) {
                --next.faults;
                change(next);
            });
        };
        fault('c', client.life != Dead, " is killed", [&](State &next) { die(next, c); });
        fault('f', running, " is stopped", [&](State &next) { of(next).life = Frozen; });
        fault('d', running && client.connected, " loses its connection", [&](State &next) { disconnect(next, c); });
        fault('s', running && client.subscribed, " loses its subscription", [&](State &next) {
            of(next).subscribed = false;
            of(next).messages.clear();
        });
        fault('m', !client.messages.empty(), " loses a message",
              [&](State &next) { of(next).messages.erase(of(next).messages.begin()); });
    }
    const auto fault = [&](char kind, const std::string &label, const auto &change) {
        if (s.faults == 0 || m_config.kinds.find(kind) == std::string::npos)
            return;
        step(NotCalm, label, [&](State &next) {
            --next.faults;
            change(next);
        });
    };
    fault('+', "the server's clock is set forward", [&](State &next) { setClock(next, 1); });
    fault('-', "the server's clock is set back", [&](State &next) { setClock(next, -1); });
    for (std::size_t i = 0; i < s.overheard.size(); ++i) {
        const int m = machineOf(s.overheard[i].token);
        if (s.clients[std::size_t(m_config.client[std::size_t(m)])].subscribed)
            fault('r', "a grant to lock " + std::to_string(m + 1) + " is repeated",
                  [&](State &next) { clientOf(next, m).messages.push_back(s.overheard[i]); });
    }
    for (int m = 0; m < Machines; ++m) {
        const Machine &x = s.machines[std::size_t(m)];
        const Client &client = s.clients[std::size_t(m_config.client[std::size_t(m)])];
        if (client.life != Running)
            continue;
        const std::string who = "lock " + std::to_string(m + 1);
        const int c = m_config.client[std::size_t(m)];
        if (x.phase == Held && x.belief == 0) {
            if (x.mustExtend && s.faults == m_config.faults && s.forced == m_config.forced)
                throw Violation("a lock that was handed over is lost before its lease ends");
            step(0, who + " is lost", [&](State &next) { lookAtClock(next, c); });
            continue;
        }
        if (x.phase == Idle && x.left > 0 && client.connected)
            step(NotCalm, who + " acquires", [&](State &next) {
                --machine(next, m).left;
                begin(next, m);
            });
        if (x.phase == Acquiring && !x.inFlight && x.timer == 0 && client.connected)
            step(3, who + " looks", [&](State &next) { attempt(next, m); });
        if (x.phase == Acquiring && x.traces && client.subscribed)
            fault('x', "a grant to " + who + " is forged", [&](State &next) {
                clientOf(next, m).messages.push_back({'g', tokenOf(m, x.epoch), ClaimTime, false, 0, 0, 0});
            });
        if (x.phase == Acquiring && m_config.cancels)
            step(NotCalm, who + " is cancelled", [&](State &next) {
                abandon(next, m);
                end(machine(next, m));
            });
        if (x.phase == Held) {
            step(4, who + " releases", [&](State &next) {
                machine(next, m).phase = Releasing;
                machine(next, m).belief = machine(next, m).allowance = 0;
                machine(next, m).inFlight = machine(next, m).mustExtend = false;
                send(next, m, Release, tokenOf(m, x.epoch));
            });
            const bool extends = x.mustExtend && !m_behaviour.neverExtends;
            if ((extends || (m_config.renews && x.belief == 1)) && !x.inFlight && client.connected)
                step(extendsNow(x) ? 3 : NotCalm, who + (extends ? " extends" : " renews"), [&](State &next) {
                    machine(next, m).inFlight = true;
                    send(next, m, Renew, tokenOf(m, x.epoch));
                });
        }
    }
    if (s.foreign > 0 && s.server.holder == 0 && s.server.sharers.empty())
        step(NotCalm, "another library acquires", [&](State &next) {
            --next.foreign;
            next.server.holder = Foreign;
            next.server.ttl = 3;
        });
    if (s.server.holder == Foreign)
        step(NotCalm, "the other library releases", [&](State &next) { next.server.holder = next.server.ttl = 0; });
    if (s.forced > 0 && !s.server.isFree())
        step(NotCalm, "it is released by force", [&](State &next) {
            --next.forced;
            const Execution &e = execute(next, "force_release", {});
            checkForce(next, e);
            next.server = e.after;
            deliver(next, e.messages);
        });
    for (const char digit : s.changes > 0 ? m_config.changesTo : std::string()) {
        if (s.server.permits != digit - '0')
            step(NotCalm, std::string("the number of permits becomes ") + digit, [&](State &next) {
                --next.changes;
                Command command{};
                command.queue = Byte(digit - '0');
                const Execution &e = execute(next, "set_permits", command);
                checkChange(next, e);
                next.server = e.after;
                deliver(next, e.messages);
            });
    }
    if (!isUrgent(s))
        step(9, "tick", [&](State &next) { tick(next); });
    else
        fault('w', "tick, while something is left to do", [&](State &next) { tick(next); });
    m_nodes[m_from].calm = calm;
    m_nodes[m_from].calmTick = calmRank == 9;
    // At rest only time passes, until everything has expired.
    if (calm == m_from)
        checkRest(s);
}

bool Model::isUrgent(const State &s) const
{
    for (const Client &c : s.clients) {
        if (!c.sent.empty() || (c.life == Running && (!c.replies.empty() || !c.messages.empty())))
            return true;
        if (c.life == Running && c.listening && !c.subscribed)
            return true;
    }
    for (int m = 0; m < Machines; ++m) {
        const Machine &x = s.machines[std::size_t(m)];
        const Client &c = s.clients[std::size_t(m_config.client[std::size_t(m)])];
        if (c.life != Running)
            continue;
        if ((x.phase == Held && x.belief == 0) || (x.phase == Acquiring && !x.inFlight && x.timer == 0 && c.connected)
            || (x.phase == Held && extendsNow(x) && !x.inFlight && c.connected))
            return true;
    }
    return false;
}

std::string Model::described(const Command &command)
{
    static const char *const names[] = {"acquire", "renew", "release", "cancel"};
    return std::string(names[command.kind]) + " (lock " + std::to_string(machineOf(command.token) + 1) + ", token "
            + std::to_string(command.token & 15) + ')';
}

} // namespace ProtocolModel
