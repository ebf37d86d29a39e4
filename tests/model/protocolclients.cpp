// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// The clients, which behave as LeaseMachine and ServerClock do, their connections, and the time.

#include "protocolmodel.h"

#include <algorithm>
#include <utility>

namespace ProtocolModel {

void Model::send(State &s, int m, Kind kind, Byte token)
{
    Client &c = clientOf(s, m);
    if (!c.connected)
        return;
    const Machine &x = machine(s, m);
    const Byte queue = kind == Acquire ? c.listening && lockOf(m) != Both : kind == Renew ? renewal(x, m) : 0;
    c.sent.push_back({kind, token, queue, kind == Acquire ? x.arrival : Byte(0), 0});
}

Byte Model::renewal(const Machine &x, int m) const
{
    const int given = std::min<int>(lease(m), ClaimTime);
    return m_config.renews ? lease(m) : Byte(x.mustExtend ? x.belief + lease(m) - given : x.belief);
}

void Model::attempt(State &s, int m)
{
    Machine &x = machine(s, m);
    x.timer = Never;
    x.lookBy = Never;
    x.grantNoticed = false;
    if (!clientOf(s, m).connected)
        return;
    if (x.epoch == 0 || !x.traces)
        x.epoch = freeEpoch(s, m);
    x.traces = true;
    x.inFlight = true;
    send(s, m, Acquire, tokenOf(m, x.epoch));
}

Byte Model::freeEpoch(const State &s, int m) const
{
    std::array<bool, 256> used{};
    for (const Server *server : {&s.server, &s.second}) {
        used[server->holder] = true;
        for (const Sharer &r : server->sharers)
            used[r.token] = true;
        for (const Waiter &w : server->queue)
            used[w.token] = true;
    }
    for (const Client &c : s.clients) {
        for (const auto *list : {&c.sent, &c.late}) {
            for (const Command &command : *list)
                used[command.token] = true;
        }
        for (const Reply &reply : c.replies)
            used[reply.token] = used[reply.handedTo] = true;
        for (const Message &message : c.messages)
            used[message.token] = true;
    }
    for (const Message &message : s.overheard)
        used[message.token] = true;
    for (Byte epoch = 1; epoch < 8; ++epoch) {
        if (!used[tokenOf(m, epoch)] && !(s.machines[std::size_t(m)].abandoned & (1 << epoch)))
            return epoch;
    }
    throw Violation("the model has too few tokens");
}

void Model::begin(State &s, int m)
{
    Machine &x = machine(s, m);
    x.phase = Acquiring;
    x.traces = false;
    x.arrival = 0;
    attempt(s, m);
}

void Model::abandon(State &s, int m)
{
    Machine &x = machine(s, m);
    if (!m_behaviour.neverCancels && x.traces) {
        x.abandoned |= Byte(1 << x.epoch);
        send(s, m, Cancel, tokenOf(m, x.epoch));
    }
    x.traces = false;
}

void Model::end(Machine &x)
{
    x.phase = Idle;
    x.inFlight = x.grantNoticed = false;
    x.arrival = 0;
    x.belief = x.allowance = 0;
    x.mustExtend = false;
    x.timer = x.lookBy = Never;
    x.traces = false;
}

void Model::lookAtClock(State &s, int client)
{
    for (int m = 0; m < Machines; ++m) {
        Machine &x = machine(s, m);
        if (m_config.client[std::size_t(m)] == client && x.phase == Held && x.belief == 0) {
            abandon(s, m);
            end(x);
        }
    }
}

void Model::granted(State &s, int m, int left, Byte allowance)
{
    Machine &x = machine(s, m);
    x.inFlight = false;
    if (left <= 0 && !m_behaviour.lateReplyAccepted) {
        abandon(s, m);
        x.timer = 0;
        return;
    }
    x.phase = Held;
    x.belief = Byte(std::max(left, 1));
    x.allowance = allowance;
    x.mustExtend = false;
    x.timer = x.lookBy = Never;
    x.arrival = 0;
}

void Model::handedOver(State &s, int m, int ticks, int age, Byte allowance)
{
    Machine &x = machine(s, m);
    if (x.phase != Acquiring && !m_behaviour.believesUnwanted)
        return;
    const int held = std::min<int>(ticks, lease(m));
    const bool isTooLong = ticks > std::max<int>(lease(m), ClaimTime);
    const bool isLate = 3 * (held - age) <= held;
    if (isLate || (!m_behaviour.handoverUnchecked && (x.inFlight || isTooLong))) {
        grantNoticed(s, m);
    } else {
        granted(s, m, held - age, allowance);
        x.mustExtend = ticks != lease(m);
    }
}

void Model::sample(Client &c, const Reply &r) const
{
    const int sentAt = -(r.age - r.waited) - r.shift;
    const int receivedAt = r.waited - r.shift;
    const int bound = m_behaviour.sampleFromReply ? receivedAt : sentAt;
    if (c.bound == NoBound || bound > c.bound || !m_behaviour.laterBoundKept)
        c.bound = Bound(bound);
    c.forward = r.forward;
    c.back = Byte(r.shift + r.forward);
}

void Model::grantNoticed(State &s, int m)
{
    Machine &x = machine(s, m);
    if (x.phase != Acquiring)
        return;
    x.grantNoticed = x.inFlight;
    if (!x.inFlight)
        attempt(s, m);
}

void Model::processReply(State &s, int client)
{
    lookAtClock(s, client);
    Client &c = s.clients[std::size_t(client)];
    const Reply r = c.replies.front();
    c.replies.erase(c.replies.begin());
    const int m = machineOf(r.token);
    Machine &x = machine(s, m);
    if (r.kind == Acquire && r.outcome != Refused)
        sample(c, r);
    if (r.kind == Cancel) {
        x.abandoned &= Byte(~(1 << (r.token & 15)));
        return;
    }
    if (r.kind == Release && r.outcome == 4) {
        const int to = machineOf(r.handedTo);
        Machine &y = machine(s, to);
        if (y.phase == Acquiring && y.traces && r.handedTo == tokenOf(to, y.epoch))
            handedOver(s, to, lease(m), m_behaviour.deadlineFromReply ? 0 : r.age, r.forward);
    }
    if (r.token != tokenOf(m, x.epoch))
        return;
    if (r.kind == Acquire && x.phase == Acquiring && x.inFlight) {
        x.inFlight = false;
        if (r.outcome == 1)
            granted(s, m, confirmed(lease(m), r.age), r.forward);
        else if (r.outcome == Refused)
            refused(s, m);
        else if (r.outcome == Rejected)
            rejected(s, m);
        else
            taken(s, m, r);
    } else if (r.kind == Renew && x.phase == Held && x.inFlight) {
        x.inFlight = false;
        if (r.outcome != 1) {
            end(x);
        } else if (const int left = confirmed(r.ttl, r.age); left >= x.belief) {
            x.belief = Byte(left);
            x.allowance = r.forward;
        }
        x.mustExtend = false;
    } else if (r.kind == Release && x.phase == Releasing) {
        end(x);
    }
}

void Model::refused(State &s, int m)
{
    Machine &x = machine(s, m);
    if (x.arrival) {
        x.timer = 1;
        return;
    }
    abandon(s, m);
    end(x);
}

void Model::rejected(State &s, int m)
{
    abandon(s, m);
    end(machine(s, m));
}

void Model::taken(State &s, int m, const Reply &r)
{
    Machine &x = machine(s, m);
    const Client &c = clientOf(s, m);
    if (lockOf(m) == Both) { // one attempt, after which the server knows nothing of it
        end(x);
        return;
    }
    if (r.rank != 255) {
        if (fair(m) && x.arrival && r.arrival != x.arrival)
            throw Violation("a waiter that came back has lost its place");
        x.arrival = r.arrival;
    }
    if (x.grantNoticed) {
        attempt(s, m);
        return;
    }
    int pause = 1;
    if (r.rank != 255 && c.listening && !(r.foreign && r.rank == 0))
        pause = 2 * (r.foreign ? r.rank : r.rank + 1);
    if (r.ttl != NoTtl)
        pause = std::min(pause, int(r.ttl));
    x.timer = Byte(std::min(pause, int(x.lookBy)));
    x.lookBy = Never;
}

void Model::processMessage(State &s, int client)
{
    lookAtClock(s, client);
    Client &c = s.clients[std::size_t(client)];
    const Message message = c.messages.front();
    c.messages.erase(c.messages.begin());
    const int m = machineOf(message.token);
    Machine &x = machine(s, m);
    const bool isPresent = message.token == tokenOf(m, x.epoch) && x.traces;
    if (!isPresent && !(message.proven && (m_behaviour.believesFormer || m_behaviour.believesUnwanted)))
        return;
    if (message.kind == 'g' && (message.proven || (message.ticks && m_behaviour.proofUnchecked))) {
        const bool fromArrival = m_behaviour.deadlineFromArrival;
        if (c.bound == NoBound && !fromArrival)
            grantNoticed(s, m);
        else
            handedOver(s, m, message.ticks, fromArrival ? 0 : std::max(0, message.age - (c.bound + message.shift)),
                       allowanceFor(c, message));
    } else if (message.kind == 'g') {
        grantNoticed(s, m);
    } else if (message.kind == 'n' && x.phase == Acquiring) {
        if (!x.inFlight)
            x.timer = std::min(x.timer, message.ticks);
        else if (!m_behaviour.nextForgotten)
            x.lookBy = std::min(x.lookBy, message.ticks);
    } else if (message.kind == 'f' && x.phase == Held && !x.inFlight) {
        x.inFlight = true;
        send(s, m, Renew, message.token);
    }
}

Byte Model::allowanceFor(const Client &c, const Message &grant) const
{
    const int wrong = std::max(0, c.forward - grant.forward) + std::max(0, grant.shift + grant.forward - c.back);
    return Byte(std::min<int>(m_behaviour.noAllowance ? 0 : wrong, grant.age) + grant.forward);
}

void Model::outdate(State &s, Byte token) const
{
    const auto outdate = [token](std::vector<Message> &messages) {
        for (Message &m : messages) {
            // The client compares two times of the server's clock.
            const bool isOlder = m.shift <= 0 || m.age > m.shift;
            if (m.proven && m.token == token && isOlder)
                becomeHint(&m);
        }
    };
    if (m_behaviour.believesOutdated)
        return;
    outdate(clientOf(s, machineOf(token)).messages);
    outdate(s.overheard);
}

void Model::setClock(State &s, int ticks) const
{
    const bool isForward = ticks > 0;
    s.server.age(ticks, -m_clockSteps);
    s.second.age(ticks, -m_clockSteps);
    const auto changed = [&](auto &m) {
        m.shift = static_cast<signed char>(m.shift - ticks);
        m.forward = Byte(m.forward + isForward);
    };
    for (Client &c : s.clients) {
        if (c.bound != NoBound) {
            c.bound = Bound(c.bound + ticks);
            c.forward = Byte(c.forward + isForward);
            c.back = Byte(c.back + !isForward);
        }
        for (Reply &reply : c.replies)
            changed(reply);
        for (Message &message : c.messages)
            changed(message);
    }
    for (Message &message : s.overheard)
        changed(message);
    for (Machine &x : s.machines)
        x.allowance = Byte(x.allowance + (isForward && x.belief > 0));
}

void Model::forgetClock(Client &c)
{
    c.bound = NoBound;
    c.forward = c.back = 0;
}

void Model::disconnect(State &s, int client)
{
    Client &c = s.clients[std::size_t(client)];
    c.connected = false;
    c.late.insert(c.late.end(), c.sent.begin(), c.sent.end());
    c.sent.clear();
    c.replies.clear();
    forgetClock(c);
    for (int m = 0; m < Machines; ++m) {
        if (m_config.client[std::size_t(m)] == client)
            machine(s, m).inFlight = machine(s, m).grantNoticed = false;
    }
}

void Model::reconnect(State &s, int client)
{
    lookAtClock(s, client);
    Client &c = s.clients[std::size_t(client)];
    c.connected = true;
    if (m_config.killsFormer)
        c.late.clear();
    for (int m = 0; m < Machines; ++m) {
        Machine &x = machine(s, m);
        if (m_config.client[std::size_t(m)] != client)
            continue;
        for (int epoch = 0; epoch < 8; ++epoch) {
            if (x.abandoned & (1 << epoch))
                send(s, m, Cancel, tokenOf(m, epoch));
        }
        if (x.phase == Acquiring)
            attempt(s, m);
        else if (x.phase == Releasing)
            send(s, m, Release, tokenOf(m, x.epoch));
    }
}

void Model::wakeableChanged(State &s, int client)
{
    const Client &c = s.clients[std::size_t(client)];
    for (int m = 0; m < Machines; ++m) {
        Machine &x = machine(s, m);
        if (m_config.client[std::size_t(m)] != client || x.phase != Acquiring)
            continue;
        if (x.inFlight)
            x.grantNoticed = x.grantNoticed || (c.listening && !m_behaviour.subscribedForgotten);
        else if (c.connected)
            x.timer = c.listening ? Byte(0) : std::min(x.timer, Byte(1));
    }
}

void Model::die(State &s, int client)
{
    disconnect(s, client);
    Client &c = s.clients[std::size_t(client)];
    c.life = Dead;
    c.listening = false;
    for (int m = 0; m < Machines; ++m) {
        if (m_config.client[std::size_t(m)] == client)
            machine(s, m) = Machine();
    }
}

void Model::tick(State &s) const
{
    s.server.age(1, -m_clockSteps);
    s.second.age(1, -m_clockSteps);
    for (Client &c : s.clients) {
        for (Command &command : c.sent)
            command.age = older(command.age);
        for (Reply &reply : c.replies) {
            if (reply.age < LongAgo)
                ++reply.waited, ++reply.age;
        }
        for (Message &message : c.messages)
            message.age = older(message.age);
    }
    for (Message &message : s.overheard)
        message.age = older(message.age);
    for (Machine &x : s.machines) {
        for (Byte *timer : {&x.timer, &x.lookBy}) {
            if (*timer != Never && *timer > 0)
                --*timer;
        }
        if (x.belief > 0 && --x.belief == 0)
            x.allowance = 0;
    }
}

} // namespace ProtocolModel
