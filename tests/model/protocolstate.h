// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace ProtocolModel {

using Byte = std::uint8_t;

constexpr int Tick = 1500; // ms
constexpr Byte Never = 15;
constexpr Byte LongAgo = 8;   ///< ticks; longer than any lease
constexpr Byte Foreign = 255; ///< as a token
constexpr Byte NoTtl = 255;
constexpr int Machines = 3;
constexpr int ClaimTime = 2; ///< ticks
constexpr int Now = 100;     ///< in µs; later than every arrival kept in a state

/// A script is run under several of these, and must give the same result under each.
struct Circumstances
{
    const char *name;
    int now;       ///< what TIME returns
    int lastFence; ///< the last fencing token that was drawn
    bool longWay = false;
    bool mayReadTime = true;
};
constexpr Circumstances Usual{"", Now, 50};
constexpr Circumstances Others[]{
        {"the long way", Now, 50, true},
        {"with a clock that was set back behind the last fencing token", Now, 200},
        {"with a clock that was set back behind the arrivals", 1, 50},
        {"without the right to read the time", Now, 50, false, false},
};

enum Lock : Byte { First, Second, Both };

struct Config
{
    std::string name;
    std::array<int, Machines> client{0, 1, 2}; ///< of each lock object
    /// Who wants both acquires them with one command, once. If it is a reader, then of the second lock.
    std::array<Lock, Machines> lock{First, First, First};
    std::array<int, Machines> lease{3, 3, 3}; ///< ticks
    std::array<bool, Machines> fair{true, true, true};
    std::array<bool, Machines> reader{false, false, false};
    std::array<int, Machines> take{0, 0, 0};                  ///< permits; a writer has none, and is no reader
    std::array<bool, Machines> wantsSlots{true, true, false}; ///< of those that take permits
    std::array<int, Machines> acquisitions{1, 1, 1};
    int faults = 0;
    /// The kinds of faults: c crash, f freeze, d disconnect, s subscription lost, m message lost, r grant repeated,
    /// x grant forged, w wait: time passes although a client or the server has something to do at once, + and - the
    /// server's clock is set forward or back by a tick.
    std::string kinds;
    bool cancels = true;
    bool renews = true;
    bool killsFormer = true; ///< whether a new connection may end the old one
    int foreign = 0;         ///< acquisitions by another library
    int forced = 0;
    int permits = 0;         ///< of the semaphore
    bool serverSays = false; ///< how many permits there are; otherwise the clients do
    int changes = 0;         ///< of the number of permits, by an operator
    std::string changesTo{}; ///< digits
    int mute = -1;           ///< the client whose user may not publish
    int sharersAtMost = 0;   ///< served in one call; 0 = as the scripts say
    bool thorough = false;   ///< takes too long for every test run
    int idleAtMost = 0;      ///< ticks for which the lock may be free, or have room, while a live client waits for it

    bool hasReaders() const { return reader[0] || reader[1] || reader[2]; }
    bool hasPermits() const { return permits > 0; }
    bool hasTwoLocks() const { return lock[0] == Both; }
    int mostPermits() const
    {
        int most = permits;
        for (const char digit : changesTo)
            most = std::max(most, digit - '0');
        return most;
    }
};

/// Deliberate errors in the clients.
struct Behaviour
{
    bool deadlineFromReply = false;
    bool lateReplyAccepted = false;
    bool handoverUnchecked = false;   ///< handed over although an attempt is in flight or the lease is too long
    bool nextForgotten = false;       ///< while an attempt is in flight
    bool subscribedForgotten = false; ///< while an attempt is in flight
    bool neverCancels = false;
    bool proofUnchecked = false;
    bool deadlineFromArrival = false; ///< of the grant, instead of the bound for its time
    bool sampleFromReply = false;     ///< the bound counts from the time the reply was received
    bool laterBoundKept = false;      ///< from an older sample
    bool believesOutdated = false;    ///< a grant is believed though a later reply said that somebody else holds it
    bool believesUnwanted = false;    ///< a grant is believed after the acquire was cancelled
    bool believesFormer = false;      ///< a grant for a former token is believed
    bool neverExtends = false;
    bool noAllowance = false; ///< not in the client: the check does without the documented limit
};

enum Kind : Byte { Acquire, Renew, Release, Cancel };
enum Life : Byte { Running, Frozen, Dead };
enum Phase : Byte { Idle, Acquiring, Held, Releasing };

struct Command
{
    Byte kind, token;
    Byte queue; ///< acquire: whether to join it; renew: ticks
    Byte arrival, age;
};

struct Reply
{
    Byte kind, token, age;
    Byte outcome; ///< acquire: 1 = granted, Refused; renew, release: the script's result; 4 = handed over
    Byte ttl;     ///< renew: that of the command
    Byte rank, arrival, foreign, handedTo;
    Byte waited;       ///< acquire: ticks since the server ran it
    signed char shift; ///< ticks by which the server's clock was set back since then, minus those forward
    Byte forward;      ///< only those forward
};
constexpr Byte Refused = 9;  ///< the server's user lacks a right
constexpr Byte Rejected = 8; ///< another number of permits, or readers beside holders of permits

struct Message
{
    char kind; ///< g, n, f
    Byte token, ticks;
    // Of a grant that makes the waiter the holder, for `ticks`; without them it is a hint.
    bool proven; ///< otherwise it is forged
    Byte age;    ///< ticks since the server ran the script
    signed char shift;
    Byte forward;
};

/// A client's bound for the time that the server's clock shows 0, in ticks after the true one: negative if it is early.
/// It may be late only after the server's clock was set.
using Bound = signed char;
constexpr Bound NoBound = 100;

struct Client
{
    Byte life = Running;
    bool connected = true;
    bool subscribed = true; ///< as the server sees it
    bool listening = true;  ///< as the client sees it
    std::vector<Command> sent, late;
    std::vector<Reply> replies;
    std::vector<Message> messages;
    Bound bound = NoBound;
    Byte forward = 0, back = 0; ///< ticks by which the server's clock was set since then
};

struct Machine
{
    Byte phase = Idle;
    Byte left = 0; ///< acquisitions to begin
    Byte epoch = 0;
    bool inFlight = false, grantNoticed = false;
    Byte arrival = 0, timer = Never, lookBy = Never, belief = 0;
    /// Ticks by which the belief may outlast the key, because the server's clock was set.
    Byte allowance = 0;
    bool mustExtend = false;
    Byte abandoned = 0;  ///< bit = epoch whose cancel was not confirmed
    bool traces = false; ///< the server may know the present token
};

struct Waiter
{
    Byte token, wakeOnly, arrival;
};

/// A reader or a holder of permits, until it is removed: its lease may have ended before.
struct Sharer
{
    Byte token;
    signed char left; ///< ticks; 0 or less: the lease has ended, and may begin again if the clock is set back
    std::array<signed char, 2> slots{-1, -1}; ///< of its permits; -1 = none

    bool lives() const { return left > 0; }
};

struct Server
{
    Byte holder = 0;             ///< the key is a string
    Byte ttl = 0;                ///< of the key
    std::vector<Sharer> sharers; ///< the key is a sorted set
    std::vector<Waiter> queue;
    Byte permits = 0; ///< of the semaphore; 0 = there is no such key

    bool isShared() const
    {
        return std::any_of(sharers.begin(), sharers.end(), [](const Sharer &r) { return r.lives(); });
    }
    bool isFree() const { return holder == 0 && !isShared(); }
    /// For how many ticks the lock is held under this token.
    int left(Byte token) const
    {
        for (const Sharer &r : sharers) {
            if (r.token == token)
                return std::max<int>(r.left, 0);
        }
        return token && holder == token ? ttl : 0;
    }
    bool isKept(Byte token) const
    {
        return holder == token
                || std::any_of(sharers.begin(), sharers.end(), [token](const Sharer &r) { return r.token == token; });
    }
    bool isWaiting(Byte token) const
    {
        return std::any_of(queue.begin(), queue.end(), [token](const Waiter &w) { return w.token == token; });
    }
    /// Time passes, or the clock is set.
    void age(int ticks, int oldest)
    {
        for (Sharer &r : sharers)
            r.left = static_cast<signed char>(std::max(r.left - ticks, oldest));
        if (ttl == NoTtl || ttl == 0)
            return;
        ttl = Byte(ttl - ticks);
        if (ttl == 0) {
            holder = 0;
            sharers.clear();
        }
    }
};

struct State
{
    Server server;
    Server second; ///< the other lock; without permits
    std::array<Client, Machines> clients;
    std::array<Machine, Machines> machines;
    Byte faults = 0, foreign = 0, forced = 0, changes = 0;
    std::vector<Message> overheard; ///< grants that may be repeated
};

inline Byte tokenOf(int machine, int epoch)
{
    return Byte(machine << 4 | epoch);
}

inline int machineOf(Byte token)
{
    return token >> 4;
}

// The list of fields, for both writing and reading.
template<typename Archive, typename T>
void fields(Archive &a, T &s)
{
    a(s.server.holder), a(s.server.ttl), a(s.server.permits), a(s.faults), a(s.foreign), a(s.forced), a(s.changes);
    a(s.second.holder), a(s.second.ttl);
    for (auto *server : {&s.server, &s.second}) {
        a.list(server->sharers, [&a](auto &r) { a(r.token), a(r.left), a(r.slots[0]), a(r.slots[1]); });
        a.list(server->queue, [&a](auto &w) { a(w.token), a(w.wakeOnly), a(w.arrival); });
    }
    const auto message = [&a](auto &m) {
        a(m.kind), a(m.token), a(m.ticks), a(m.proven), a(m.age), a(m.shift), a(m.forward);
    };
    a.list(s.overheard, message);
    for (auto &c : s.clients) {
        a(c.life), a(c.connected), a(c.subscribed), a(c.listening), a(c.bound), a(c.forward), a(c.back);
        const auto command = [&a](auto &x) { a(x.kind), a(x.token), a(x.queue), a(x.arrival), a(x.age); };
        a.list(c.sent, command), a.list(c.late, command);
        a.list(c.replies, [&a](auto &r) {
            a(r.kind), a(r.token), a(r.age), a(r.outcome), a(r.ttl), a(r.rank), a(r.arrival), a(r.foreign),
                    a(r.handedTo), a(r.waited), a(r.shift), a(r.forward);
        });
        a.list(c.messages, message);
    }
    for (auto &m : s.machines) {
        a(m.phase), a(m.left), a(m.epoch), a(m.inFlight), a(m.grantNoticed), a(m.arrival), a(m.timer);
        a(m.lookBy), a(m.belief), a(m.allowance), a(m.mustExtend), a(m.abandoned), a(m.traces);
    }
}

struct Writer
{
    std::array<char, 1024> buffer;
    std::size_t size = 0;

    std::string bytes() const { return {buffer.data(), size}; }
    template<typename T>
    void operator()(T value)
    {
        buffer[size++] = char(value);
    }
    template<typename List, typename Each>
    void list(List &items, Each each)
    {
        operator()(items.size());
        for (auto &item : items)
            each(item);
    }
};

struct Reader
{
    const char *next;
    template<typename T>
    void operator()(T &value)
    {
        value = T(Byte(*next++));
    }
    template<typename List, typename Each>
    void list(List &items, Each each)
    {
        items.resize(Byte(*next++));
        for (auto &item : items)
            each(item);
    }
};

inline std::string encode(const State &state)
{
    Writer writer;
    fields(writer, state);
    return writer.bytes();
}

inline State decode(const std::string &bytes)
{
    State state;
    Reader reader{bytes.data()};
    fields(reader, state);
    return state;
}

} // namespace ProtocolModel
