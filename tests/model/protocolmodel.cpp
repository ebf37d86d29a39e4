// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Explores every interleaving of a few clients with the real scripts of src/engine/redis/scripts, breadth first: a
// small Redis with a controlled clock, clients that behave as LeaseMachine and ServerClock do, and faults.
// docs/protocol.md describes what it checks. Time advances in ticks of 1.5 s, so that the claim time has two of them.

#include "scriptrunner.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

using Byte = std::uint8_t;

constexpr int Tick = 1500; // ms
constexpr Byte Never = 15;
constexpr Byte LongAgo = 8;   ///< ticks; longer than any lease
constexpr Byte Foreign = 255; ///< as a token
constexpr Byte NoTtl = 255;
constexpr int Machines = 3;
constexpr int ClaimTime = 2; ///< ticks
constexpr int Now = 100;     ///< in µs; later than every arrival kept in a state

/// What the result of a script must not depend on.
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

struct Config
{
    std::string name;
    std::array<int, Machines> client{0, 1, 2}; ///< of each lock object
    std::array<int, Machines> lease{3, 3, 3};  ///< ticks
    std::array<bool, Machines> fair{true, true, true};
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
    int mute = -1;         ///< the client whose user may not publish
    bool thorough = false; ///< takes too long for every test run
    int idleAtMost = 0;    ///< ticks for which the lock may be free while a live client waits for it
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

// ---- the state -----------------------------------------------------------------------------------------

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
constexpr Byte Refused = 9; ///< the server's user lacks a right

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

struct Server
{
    Byte holder = 0, ttl = 0;
    std::vector<Waiter> queue;
};

struct State
{
    Server server;
    std::array<Client, Machines> clients;
    std::array<Machine, Machines> machines;
    Byte faults = 0, foreign = 0, forced = 0;
    std::vector<Message> overheard; ///< grants that may be repeated
};

Byte tokenOf(int machine, int epoch)
{
    return Byte(machine << 4 | epoch);
}

int machineOf(Byte token)
{
    return token >> 4;
}

// The list of fields, for both writing and reading.
template<typename Archive, typename T>
void fields(Archive &a, T &s)
{
    a(s.server.holder), a(s.server.ttl), a(s.faults), a(s.foreign), a(s.forced);
    a.list(s.server.queue, [&a](auto &w) { a(w.token), a(w.wakeOnly), a(w.arrival); });
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

std::string encode(const State &state)
{
    Writer writer;
    fields(writer, state);
    return writer.bytes();
}

State decode(const std::string &bytes)
{
    State state;
    Reader reader{bytes.data()};
    fields(reader, state);
    return state;
}

// ---- the system ------------------------------------------------------------------------------------------

class Model
{
public:
    Model(const Config &config, const Behaviour &behaviour, const std::string &scripts, const Mutation *mutation)
        : m_config(config)
        , m_behaviour(behaviour)
        , m_clockSteps(config.kinds.find_first_of("+-") == std::string::npos ? 0 : config.faults)
        , m_scripts(scripts, mutation, {"acquire", "renew", "release", "cancel", "force_release"})
    {
    }

    struct Result
    {
        std::size_t states = 0, steps = 0;
        long scriptRuns = 0;
        int slowest = 0; ///< ticks until all live waiters were served
        int idle = 0;    ///< those of these ticks in which the lock was free
        std::string violation;
        std::vector<std::string> trace;
    };

    Result explore(std::size_t atMost)
    {
        m_atMost = atMost;
        State first;
        first.faults = Byte(m_config.faults);
        first.foreign = Byte(m_config.foreign);
        first.forced = Byte(m_config.forced);
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

private:
    struct Node
    {
        const std::string *bytes;
        std::uint32_t parent, calm; ///< calm: the next state if no fault happens and no client is slow
        std::uint16_t label;
        bool waiting;  ///< a live client waits
        bool idle;     ///< the lock is free
        bool calmTick; ///< in the calm step time passes
    };

    Machine &machine(State &s, int m) const { return s.machines[std::size_t(m)]; }
    Client &clientOf(State &s, int m) const { return s.clients[std::size_t(m_config.client[std::size_t(m)])]; }
    Byte lease(int m) const { return Byte(m_config.lease[std::size_t(m)]); }
    bool fair(int m) const { return m_config.fair[std::size_t(m)]; }

    std::string name(Byte token) const
    {
        if (token == Foreign)
            return "foreign";
        return std::string(1, char('a' + m_config.client[std::size_t(machineOf(token))])) + ':'
                + std::to_string(int(token)) + ":aa";
    }

    static Byte number(const std::string &token)
    {
        if (token == "foreign")
            return Foreign;
        const std::size_t at = token.find(':');
        return at == std::string::npos ? Byte(0) : Byte(std::atoi(token.c_str() + at + 1));
    }

    bool heard(const State &s, Byte token) const
    {
        return token != Foreign && s.clients[std::size_t(m_config.client[std::size_t(machineOf(token))])].subscribed;
    }

    // -- the server

    struct Execution
    {
        Server after;
        Reply reply{};
        std::vector<Message> messages;
        std::string summary; ///< the whole result, for comparison
    };

    const Execution &execute(const State &s, const std::string &script, const Command &command)
    {
        Writer key;
        key(script == "force_release"), key(command.kind), key(command.token), key(command.queue), key(command.arrival);
        key(s.server.holder), key(s.server.ttl);
        for (const Client &client : s.clients)
            key(client.subscribed);
        for (const Waiter &w : s.server.queue)
            key(w.token), key(w.wakeOnly), key(w.arrival);
        const auto known = m_executions.find(key.bytes());
        if (known != m_executions.end())
            return known->second;

        const Execution result = execute(s, script, command, Usual);
        for (const Circumstances &other : Others) {
            // Without the time nothing can be acquired, and no fencing token drawn for a waiter of the same client.
            if (!other.mayReadTime && (command.kind == Acquire || result.reply.handedTo))
                continue;
            const Execution same = execute(s, script, command, other);
            if (same.summary != result.summary)
                throw Violation(script + " does another thing " + other.name);
        }
        return m_executions.emplace(key.bytes(), result).first->second;
    }

    Execution execute(const State &s, const std::string &script, const Command &command, const Circumstances &how)
    {
        FakeRedis &redis = m_scripts.redis;
        redis.strings.clear();
        redis.sets.clear();
        redis.now = how.now;
        redis.mayReadTime = how.mayReadTime;
        redis.strings["Kfence"] = {FakeRedis::digits(how.lastFence), 1000000};
        if (s.server.holder)
            redis.strings["K"] = {name(s.server.holder), s.server.ttl == NoTtl ? -1 : s.server.ttl * Tick};
        for (const Waiter &w : s.server.queue)
            redis.sets["Kqueue"].emplace_back(w.arrival, (w.wakeOnly ? "*" : "") + name(w.token));
        if (!s.server.queue.empty())
            redis.sets["Kqueue"].ttl = 1000000;
        Execution result;
        std::string wrong; // an exception must not pass through Lua
        redis.publish = [&](const std::string &channel, const std::string &payload) {
            const std::size_t client = std::size_t(channel.back() - 'a');
            if (isMute(command))
                return -1;
            if (client >= Machines || !s.clients[client].subscribed)
                return 0;
            std::istringstream words(payload);
            std::string kind, proof;
            int sequence = 0, ms = 0;
            long long fence = 0, time = 0;
            words >> kind >> sequence;
            Message message{kind[0], Byte(sequence), 0, false, 0, 0, 0};
            if (kind == "grant" && words >> fence >> time >> ms >> proof) {
                const std::string token = name(message.token);
                std::string hold = payload.substr(0, payload.rfind(' '));
                hold.erase(0, hold.find(' ', hold.find(' ') + 1));
                const auto key = redis.strings.find("K");
                if (proof != FakeRedis::hash(token + hold))
                    wrong = "a grant is not proven";
                else if (fence <= how.lastFence || fence != std::atoll(redis.strings["Kfence"].value.c_str()))
                    wrong = "the fencing token of a grant does not rise";
                else if (time != how.now)
                    wrong = "a grant has another time";
                else if (key == redis.strings.end() || key->second.value != token || key->second.ttl < ms)
                    wrong = "a waiter is the holder by its message, but not on the server";
                message.proven = true;
            } else if (kind == "next") {
                words >> ms;
            }
            message.ticks = Byte(std::min((ms + Tick - 1) / Tick, int(Never) - 1));
            result.messages.push_back(message);
            return 1;
        };
        const int m = command.token ? machineOf(command.token) : 0;
        const std::string leaseMs = std::to_string(m_config.lease[std::size_t(m)] * Tick);
        const std::string token = name(command.token);
        std::vector<std::string> keys{"K"}, arguments{token, leaseMs};
        if (script != "renew")
            keys.insert(keys.end(), {"Kqueue", "Kfence"});
        if (script == "acquire") {
            const std::string flags = std::string(command.queue ? "rq" : "r") + (fair(m) ? "" : "b");
            arguments = {leaseMs, flags + (command.arrival ? "a" : ""), token};
            if (command.arrival)
                arguments.push_back(std::to_string(int(command.arrival)));
        } else if (script == "release") {
            arguments = {leaseMs, "0", token};
        } else if (script == "renew") {
            arguments = {token, std::to_string(command.queue * Tick)};
        } else if (script == "cancel") {
            arguments.push_back("0");
        } else if (script == "force_release") {
            arguments = {"3000"};
        }
        lua_State *const lua = m_scripts.run(how.longWay ? Scripts::longWayOf(script) : script, keys, arguments);
        if (!wrong.empty())
            throw Violation(wrong);
        decodeReply(lua, script, command, how, &result.reply);

        if (const auto it = redis.strings.find("K"); it != redis.strings.end()) {
            result.after.holder = number(it->second.value);
            result.after.ttl = it->second.ttl < 0 ? NoTtl : Byte((it->second.ttl + Tick - 1) / Tick);
        }
        if (const auto it = redis.sets.find("Kqueue"); it != redis.sets.end() && it->second.ttl < 0)
            throw Violation("the queue has no time to live");
        for (const auto &[score, member] : redis.sets["Kqueue"]) {
            const bool wakeOnly = member[0] == '*';
            result.after.queue.push_back({number(member.substr(wakeOnly)), wakeOnly, Byte(score)});
        }
        // Only the order of the arrivals matters.
        std::vector<Byte> arrivals{0, fair(m) ? command.arrival : Byte(0), result.reply.arrival};
        for (const Waiter &w : result.after.queue)
            arrivals.push_back(w.arrival);
        std::sort(arrivals.begin(), arrivals.end());
        arrivals.erase(std::unique(arrivals.begin(), arrivals.end()), arrivals.end());
        const auto place = [&arrivals](Byte arrival) {
            return std::lower_bound(arrivals.begin(), arrivals.end(), arrival) - arrivals.begin();
        };
        Writer summary;
        const Reply &r = result.reply;
        for (const Byte part : {r.kind, r.token, r.age, r.outcome, r.ttl, r.rank, r.foreign, r.handedTo,
                                result.after.holder, result.after.ttl})
            summary(part);
        summary(place(r.arrival));
        for (const Waiter &w : result.after.queue)
            summary(w.token), summary(w.wakeOnly), summary(place(w.arrival));
        // The order of the messages does not matter, nor does a message to a waiter that is served anyway.
        std::vector<std::array<Byte, 3>> messages;
        for (const Message &message : result.messages) {
            const bool served = message.token == result.after.holder
                    || std::any_of(result.messages.begin(), result.messages.end(), [&](const Message &other) {
                                    return other.kind == 'g' && other.token == message.token;
                                });
            if (message.kind == 'g') // without the time it is only a hint
                messages.push_back({Byte(message.kind), message.token, 0});
            else if (!served)
                messages.push_back({Byte(message.kind), message.token, message.ticks});
        }
        std::sort(messages.begin(), messages.end());
        for (const auto &message : messages)
            summary(message[0]), summary(message[1]), summary(message[2]);
        result.summary = summary.bytes();
        return result;
    }

    bool isMute(const Command &command) const
    {
        return command.token && m_config.client[std::size_t(machineOf(command.token))] == m_config.mute;
    }

    void decodeReply(lua_State *lua, const std::string &script, const Command &command, const Circumstances &how,
                     Reply *reply)
    {
        reply->kind = command.kind;
        reply->token = command.token;
        reply->ttl = command.kind == Renew ? command.queue : Byte(0);
        if (script == "force_release")
            return;
        lua_rawgeti(lua, -1, 1);
        if (lua_type(lua, -1) == LUA_TNUMBER) {
            reply->outcome = Byte(lua_tointeger(lua, -1));
            return;
        }
        const auto fence = [&how](double value) {
            if (!(value > how.lastFence))
                throw Violation("the fencing token does not rise");
        };
        if (lua_type(lua, -1) == LUA_TSTRING && script == "acquire") {
            const std::string text = lua_tostring(lua, -1);
            reply->outcome = text == "NOPERM" ? Refused : 1;
            if (reply->outcome != Refused)
                fence(std::atof(text.c_str()));
            return;
        }
        if (lua_type(lua, -1) != LUA_TTABLE)
            throw Violation(script + " answers with something else");
        const auto element = [lua](int i) {
            lua_rawgeti(lua, 2, i);
            const double value = lua_tonumber(lua, -1);
            lua_pop(lua, 1);
            return value;
        };
        if (script == "release") {
            lua_rawgeti(lua, 2, 1);
            // The waiter's token, or the sequence number in it.
            const char *const to = lua_tostring(lua, -1);
            reply->handedTo = std::strchr(to, ':') ? number(to) : Byte(std::atoi(to));
            lua_pop(lua, 1);
            reply->outcome = 4;
            fence(element(2));
        } else {
            reply->ttl = element(2) < 0 ? NoTtl : Byte((element(2) + Tick - 1) / Tick);
            reply->foreign = element(3) == 0;
            reply->rank = Byte(element(4) < 0 ? 255 : element(4));
            reply->arrival = Byte(element(5));
            if (int(element(6)) != how.now)
                throw Violation("the reply has another time");
        }
    }

    /// Runs a command and checks its effects.
    Reply serve(State &s, const Command &command)
    {
        static const char *const names[] = {"acquire", "renew", "release", "cancel"};
        const Execution &e = execute(s, names[command.kind], command);
        check(s, command, e);
        s.server = e.after;
        deliver(s, e.messages);
        return e.reply;
    }

    void deliver(State &s, const std::vector<Message> &messages)
    {
        for (const Message &m : messages) {
            clientOf(s, machineOf(m.token)).messages.push_back(m);
            if (m.proven && m_config.kinds.find('r') != std::string::npos)
                s.overheard.push_back(m);
        }
    }

    void check(const State &s, const Command &command, const Execution &e) const
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

    // -- the clients, which behave as LeaseMachine does

    void send(State &s, int m, Kind kind, Byte token)
    {
        Client &c = clientOf(s, m);
        if (!c.connected)
            return;
        const Machine &x = machine(s, m);
        const Byte queue = kind == Acquire ? c.listening : kind == Renew ? renewal(x, m) : 0;
        c.sent.push_back({kind, token, queue, kind == Acquire ? x.arrival : Byte(0), 0});
    }

    /// For how many ticks a lock is renewed: without automatic renewals, for the rest of the lease.
    Byte renewal(const Machine &x, int m) const
    {
        const int given = std::min<int>(lease(m), ClaimTime);
        return m_config.renews ? lease(m) : Byte(x.mustExtend ? x.belief + lease(m) - given : x.belief);
    }

    void attempt(State &s, int m)
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

    /// A token that is not in use any more may be used again. This keeps the number of states finite.
    Byte freeEpoch(const State &s, int m) const
    {
        std::array<bool, 256> used{};
        used[s.server.holder] = true;
        for (const Waiter &w : s.server.queue)
            used[w.token] = true;
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

    void begin(State &s, int m)
    {
        Machine &x = machine(s, m);
        x.phase = Acquiring;
        x.traces = false;
        x.arrival = 0;
        attempt(s, m);
    }

    void abandon(State &s, int m)
    {
        Machine &x = machine(s, m);
        if (!m_behaviour.neverCancels && x.traces) {
            x.abandoned |= Byte(1 << x.epoch);
            send(s, m, Cancel, tokenOf(m, x.epoch));
        }
        x.traces = false;
    }

    void end(Machine &x)
    {
        x.phase = Idle;
        x.inFlight = x.grantNoticed = false;
        x.arrival = 0;
        x.belief = x.allowance = 0;
        x.mustExtend = false;
        x.timer = x.lookBy = Never;
        x.traces = false;
    }

    /// A client reads the clock before anything else.
    void lookAtClock(State &s, int client)
    {
        for (int m = 0; m < Machines; ++m) {
            Machine &x = machine(s, m);
            if (m_config.client[std::size_t(m)] == client && x.phase == Held && x.belief == 0) {
                abandon(s, m);
                end(x);
            }
        }
    }

    void granted(State &s, int m, int left, Byte allowance)
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

    /// The lock was given to this waiter so many ticks ago, as far as its client knows.
    void handedOver(State &s, int m, int ticks, int age, Byte allowance)
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

    /// As ServerClock::sample().
    void sample(Client &c, const Reply &r) const
    {
        const int sentAt = -(r.age - r.waited) - r.shift;
        const int receivedAt = r.waited - r.shift;
        const int bound = m_behaviour.sampleFromReply ? receivedAt : sentAt;
        if (c.bound == NoBound || bound > c.bound || !m_behaviour.laterBoundKept)
            c.bound = Bound(bound);
        c.forward = r.forward;
        c.back = Byte(r.shift + r.forward);
    }

    int confirmed(int ticks, Byte age) const { return m_behaviour.deadlineFromReply ? ticks : ticks - age; }

    void grantNoticed(State &s, int m)
    {
        Machine &x = machine(s, m);
        if (x.phase != Acquiring)
            return;
        x.grantNoticed = x.inFlight;
        if (!x.inFlight)
            attempt(s, m);
    }

    void processReply(State &s, int client)
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

    /// The user lacks a right. A waiter that was in the queue keeps trying.
    void refused(State &s, int m)
    {
        Machine &x = machine(s, m);
        if (x.arrival) {
            x.timer = 1;
            return;
        }
        abandon(s, m);
        end(x);
    }

    void taken(State &s, int m, const Reply &r)
    {
        Machine &x = machine(s, m);
        const Client &c = clientOf(s, m);
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

    void processMessage(State &s, int client)
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

    /// By how many ticks the belief in a grant may outlast the key, as documented: if the server's clock is set forward
    /// after the grant, as with any lease; and if it is set forward between sample and grant, or back between grant and
    /// sample, and the message is late.
    Byte allowanceFor(const Client &c, const Message &grant) const
    {
        const int wrong = std::max(0, c.forward - grant.forward) + std::max(0, grant.shift + grant.forward - c.back);
        return Byte(std::min<int>(m_behaviour.noAllowance ? 0 : wrong, grant.age) + grant.forward);
    }

    static void becomeHint(Message *grant) { *grant = {'g', grant->token, 0, false, 0, 0, 0}; }

    /// The client learns from the reply that the grants that were published before are over.
    void outdate(State &s, Byte token) const
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

    void setClock(State &s, int ticks) const
    {
        const bool isForward = ticks > 0;
        Server &server = s.server;
        if (server.ttl != NoTtl && server.holder) {
            server.ttl = Byte(server.ttl - ticks);
            if (server.ttl == 0)
                server.holder = 0;
        }
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

    static void forgetClock(Client &c)
    {
        c.bound = NoBound;
        c.forward = c.back = 0;
    }

    void disconnect(State &s, int client)
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

    void reconnect(State &s, int client)
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

    void wakeableChanged(State &s, int client)
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

    void die(State &s, int client)
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

    static Byte older(Byte age) { return age < LongAgo ? Byte(age + 1) : age; }

    void tick(State &s) const
    {
        if (s.server.ttl != NoTtl && s.server.ttl > 0 && --s.server.ttl == 0)
            s.server.holder = 0;
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

    // -- exploration

    bool isPresent(const State &s, Byte token) const
    {
        const Machine &x = s.machines[std::size_t(machineOf(token))];
        return token == tokenOf(machineOf(token), x.epoch) && x.traces;
    }

    bool matters(const State &s, const Message &m) const
    {
        if (m.proven && (m_behaviour.believesFormer || m_behaviour.believesUnwanted))
            return true;
        const Machine &x = s.machines[std::size_t(machineOf(m.token))];
        return isPresent(s, m.token) && (m.kind == 'f' ? x.phase == Held : x.phase == Acquiring);
    }

    /// Makes messages equal that differ only in what has no effect.
    void reduce(const State &s, std::vector<Message> &messages) const
    {
        const auto isSame = [](const Message &a, const Message &b) {
            return a.kind == b.kind && a.token == b.token && a.proven == b.proven
                    && (a.kind != 'g' || a.ticks == b.ticks)
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

    /// Makes states equal that differ only in what has no effect.
    void reduce(State &s) const
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
        for (Waiter &w : s.server.queue)
            arrivals.push_back(&w.arrival);
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

    void checkState(const State &s) const
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

    std::uint32_t add(State &s, const std::string &label)
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
            m_nodes.push_back({&it->first, std::uint32_t(m_from), 0, std::uint16_t(known.first->second), waiting,
                               s.server.holder == 0, false});
        }
        return it->second;
    }

    void expand(const State &s)
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
        if (s.foreign > 0 && s.server.holder == 0)
            step(NotCalm, "another library acquires", [&](State &next) {
                --next.foreign;
                next.server.holder = Foreign;
                next.server.ttl = 3;
            });
        if (s.server.holder == Foreign)
            step(NotCalm, "the other library releases", [&](State &next) { next.server.holder = next.server.ttl = 0; });
        if (s.forced > 0 && s.server.holder != 0)
            step(NotCalm, "it is released by force", [&](State &next) {
                --next.forced;
                const Execution &e = execute(next, "force_release", {});
                next.server = e.after;
                deliver(next, e.messages);
            });
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

    /// Whether a client or the server has something to do at once.
    bool isUrgent(const State &s) const
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
            if ((x.phase == Held && x.belief == 0)
                || (x.phase == Acquiring && !x.inFlight && x.timer == 0 && c.connected)
                || (x.phase == Held && extendsNow(x) && !x.inFlight && c.connected))
                return true;
        }
        return false;
    }

    /// The renewal that follows a hand-over is sent when a third of the time that this gave has passed, or before.
    bool extendsNow(const Machine &x) const { return x.mustExtend && x.belief == 1 && !m_behaviour.neverExtends; }

    void checkRest(const State &s) const
    {
        if (s.server.holder)
            throw Violation("the lock stays taken with nobody to give it back");
        for (const Waiter &w : s.server.queue) {
            const std::size_t c = std::size_t(m_config.client[std::size_t(machineOf(w.token))]);
            if (s.clients[c].life == Running && m_config.killsFormer)
                throw Violation("a waiter that nobody wants is left in the queue");
        }
    }

    static std::string described(const Command &command)
    {
        static const char *const names[] = {"acquire", "renew", "release", "cancel"};
        return std::string(names[command.kind]) + " (lock " + std::to_string(machineOf(command.token) + 1) + ", token "
                + std::to_string(command.token & 15) + ')';
    }

    /// From every state: follow the calm steps until no live client waits.
    void checkProgress(Result *result)
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
                    fail(at, "the lock is free for too long while somebody waits",
                         std::to_string(left.idle) + " ticks");
            }
        }
    }

    const Config m_config;
    const Behaviour m_behaviour;
    const int m_clockSteps; ///< at most
    Scripts m_scripts;
    std::unordered_map<std::string, Execution> m_executions;
    std::unordered_map<std::string, std::uint32_t> m_index;
    std::vector<Node> m_nodes;
    std::vector<std::string> m_labels;
    std::unordered_map<std::string, std::size_t> m_labelIndex;
    std::string m_step;
    std::size_t m_from = 0, m_steps = 0, m_atMost = 0;
};

// ---- what is explored ------------------------------------------------------------------------------------

std::vector<Config> configurations()
{
    std::vector<Config> all;
    const auto make = [&all](const char *name) -> Config & {
        all.emplace_back().name = name;
        return all.back();
    };
    make("three clients, no fault");
    {
        Config &c = make("one that barges, two that wait, one of them twice");
        c.fair = {false, true, true}, c.acquisitions = {1, 2, 1}, c.cancels = false, c.renews = false;
    }
    {
        Config &c = make("one that barges, two that wait, another library");
        c.fair = {false, true, true}, c.cancels = false, c.renews = false, c.foreign = 1, c.idleAtMost = 2;
    }
    {
        Config &c = make("two clients, each twice, slow");
        c.acquisitions = {2, 2, 0}, c.faults = 2, c.kinds = "w", c.cancels = false, c.idleAtMost = 2;
    }
    {
        Config &c = make("one that may not publish, two that may");
        c.mute = 0, c.acquisitions = {2, 1, 1}, c.renews = false, c.idleAtMost = 3;
    }
    {
        Config &c = make("two clients, the server's clock is set");
        c.acquisitions = {2, 1, 0}, c.faults = 2, c.kinds = "+-wf", c.cancels = false, c.renews = false;
        c.idleAtMost = 2;
    }
    {
        Config &c = make("two locks in one client, one in another, other leases");
        c.client = {0, 0, 1}, c.lease = {3, 2, 3}, c.faults = 1, c.kinds = "cdw", c.cancels = false, c.renews = false;
        c.idleAtMost = 1;
    }
    {
        Config &c = make("three clients, one killed or stopped");
        c.faults = 1, c.kinds = "cf", c.cancels = false, c.renews = false;
    }
    {
        Config &c = make("two clients, old connections live on");
        c.acquisitions = {1, 1, 0}, c.faults = 2, c.kinds = "cd", c.killsFormer = false;
    }
    {
        Config &c = make("released by force, one killed or stopped");
        c.acquisitions = {1, 1, 0}, c.forced = 1, c.faults = 1, c.kinds = "cf";
    }
    {
        Config &c = make("another library, one killed or stopped");
        c.acquisitions = {1, 1, 0}, c.foreign = 1, c.faults = 1, c.kinds = "cf", c.idleAtMost = 2;
    }
    {
        Config &c = make("two that barge, one that waits, one killed or stopped");
        c.fair = {false, false, true}, c.faults = 1, c.kinds = "cf", c.cancels = false, c.renews = false,
        c.idleAtMost = 2;
    }
    {
        Config &c = make("two clients, two faults of any kind");
        c.acquisitions = {1, 1, 0}, c.faults = 2, c.kinds = "cfdsmw", c.renews = false, c.idleAtMost = 2;
    }
    {
        Config &c = make("three clients, a fault of any kind");
        c.faults = 1, c.kinds = "cfdsmw", c.cancels = false, c.renews = false, c.idleAtMost = 2;
    }
    {
        Config &c = make("two clients, grants late, forged and repeated");
        c.acquisitions = {2, 1, 0}, c.faults = 2, c.kinds = "xrwf", c.cancels = false, c.renews = false;
        c.idleAtMost = 2;
    }
    {
        Config &c = make("two locks in one client, the server's clock is set");
        c.client = {0, 0, 1}, c.lease = {2, 2, 2}, c.faults = 2, c.kinds = "-f", c.cancels = false, c.renews = false;
        c.idleAtMost = 3, c.thorough = true;
    }
    {
        Config &c = make("three clients, long leases, one stopped");
        c.lease = {6, 6, 6}, c.faults = 1, c.kinds = "f", c.cancels = false, c.renews = false;
    }
    {
        Config &c = make("three clients, cancelled, one killed or stopped");
        c.faults = 1, c.kinds = "cf", c.thorough = true;
    }
    {
        Config &c = make("two clients, each twice, cancelled, slow");
        c.acquisitions = {2, 2, 0}, c.faults = 2, c.kinds = "w", c.idleAtMost = 2, c.thorough = true;
    }
    {
        Config &c = make("two locks in one client, one in another, one stopped");
        c.client = {0, 0, 1}, c.faults = 1, c.kinds = "cf", c.thorough = true;
    }
    {
        Config &c = make("two clients, renewing, two faults of any kind");
        c.acquisitions = {1, 1, 0}, c.faults = 2, c.kinds = "cfdsmw", c.idleAtMost = 2, c.thorough = true;
    }
    return all;
}

const std::vector<Mutation> &mutations()
{
    static const std::vector<Mutation> all{
            {"release without token check", "release", "elseif holder ~= token then", "elseif false then"},
            {"release at once without token check", "release", "if holders[i] == ARGV[2 + i] then", "if true then"},
            {"acquired at once though others wait", "acquire",
             "and redis.pcall('EXISTS', unpack(KEYS, n + 1, 2 * n)) == 0 then", "then"},
            {"released at once though others wait", "release",
             "and redis.pcall('EXISTS', unpack(KEYS, n + 1, 2 * n)) == 0 then", "then"},
            {"a fencing token of a clock that was set back", "acquire", "and last < fence)", ")"},
            {"release that serves nobody", "release", "serve(key, queue, lease, caller)", "'free'"},
            {"a waiter joins at once by a clock that was set back", "acquire", "#last[2] == #t and last[2] < t and",
             "#last[2] == #t and"},
            {"a served waiter stays in the queue", "common",
             "    redis.call('ZREM', queue, member)\n    if client == caller", "    if client == caller"},
            {"a hint without a time to live", "common", "redis.call('SET', key, member, 'PX', claim)",
             "redis.call('SET', key, member)"},
            {"a grant without a time to live", "common", ", 'PXAT', string.sub(now(), 1, -4) + claim)", ")"},
            {"a grant at once without a time to live", "release", ", 'PXAT', string.sub(t, 1, -4) + claim)", ")"},
            {"a grant published without the key", "common",
             "  redis.call('SET', key, member, 'PXAT', string.sub(now(), 1, -4) + claim)\n", ""},
            {"a grant published at once without the key", "release",
             "      redis.call('SET', key, member, 'PXAT', string.sub(t, 1, -4) + claim)\n", ""},
            {"a grant published before the key is set", "common",
             "local receivers, err = tell(queue, client, message)\n",
             "redis.call('DEL', key) local receivers, err = tell(queue, client, message)\n"
             "      redis.call('SET', key, member, 'PX', claim)\n"},
            {"the key of a grant is not the waiter's token", "common", "redis.call('SET', key, member, 'PXAT'",
             "redis.call('SET', key, fence, 'PXAT'"},
            {"the key of a grant at once is not the waiter's token", "release", "redis.call('SET', key, member, 'PXAT'",
             "redis.call('SET', key, token, 'PXAT'"},
            {"a grant for longer than the key", "common", "now() .. ' ' .. claim", "now() .. ' ' .. claim + 1500"},
            {"a grant at once for longer than the key", "release", "t .. ' ' .. claim", "t .. ' ' .. claim + 1500"},
            {"the proof of a grant is made without the token", "common", "redis.sha1hex(member ..",
             "redis.sha1hex(fence .."},
            {"the proof of a grant at once is made without the token", "release", "redis.sha1hex(member ..",
             "redis.sha1hex(client .."},
            {"a grant at once with a former fencing token", "release", "local hold = t ..", "local hold = last .."},
            {"served at once by a clock that was set back", "release", "and last < t)", ")"},
            {"dead waiters are served", "common", "receivers and receivers > 0", "receivers and receivers >= 0"},
            {"a dead waiter keeps the key", "common", "        redis.call('DEL', key)\n", ""},
            {"a dead waiter that was served at once keeps the key", "release",
             "      redis.call('SET', key, token, 'PX', claim) --", "--"},
            {"a waiter loses its place because publishing is refused", "common",
             "        redis.call('ZADD', queue, first[2], member)\n", ""},
            {"a waiter loses its place at once because publishing is refused", "release",
             "      redis.call('ZADD', queue, waiters[2], member)\n", ""},
            {"a queue that is made again stays for ever", "common",
             "        redis.call('PEXPIRE', queue, QUEUE_TTL)\n        return 'mute'", "        return 'mute'"},
            {"a claim that does not check the holder", "acquire",
             "if holder == token and not onlyWaits then\n    return", "if holder then\n    return"},
            {"served at once without a check of the holder", "release",
             "and redis.pcall('GET', KEYS[1]) == ARGV[3] then", "then"},
            {"a dead waiter is served at once", "release", "and receivers > 0 then", "then"},
            {"one served at once stays in the queue", "release", "      redis.call('ZREM', queue, member)\n", ""},
            {"the next waiter cannot be notified at once, and no other is", "release", "~= 0) then", "~= -1) then"},
            {"a newcomer gets a free lock before the waiters", "acquire", "if barge or first == nil",
             "if true or first == nil"},
            {"a waiter's poll renews the holder", "acquire", "if ttl == -1 and", "if true and"},
            {"the old place is not given back", "acquire", "if arrival == '' then", "if true then"},
            {"a waiter that was woken too late keeps its place", "acquire", "'*' .. token, ''",
             "'*' .. token, arrival"},
            {"the fencing token does not rise", "common", "number + 1)", "number)"},
            {"renewal without token check", "renew", "elseif holder ~= ARGV[2 * i - 1] then", "elseif false then"},
            {"cancel without token check", "cancel", "if holder and holder ~= token then", "if false then"},
            {"cancel that leaves the queue entry", "cancel", "redis.pcall('ZREM', queue, token, '*' .. token)", "0"},
            {"cancel that keeps what it holds", "cancel", "redis.call('DEL', key)", ""},
            {"the next waiter is not notified", "common", "for _ = 1, SERVED_AT_MOST do", "for _ = 1, 0 do"},
            {"a client that finds other waiters woken gets the lock", "acquire",
             "first == nil or first == token or string", "true or string"},
    };
    return all;
}

struct BehaviourMutation
{
    const char *name;
    bool Behaviour::*flag;
};

constexpr BehaviourMutation behaviourMutations[]{
        {"deadline counted from the reply", &Behaviour::deadlineFromReply},
        {"late reply accepted", &Behaviour::lateReplyAccepted},
        {"hand-over of a longer lease taken while an attempt is in flight", &Behaviour::handoverUnchecked},
        {"a grant is believed without a proof", &Behaviour::proofUnchecked},
        {"the deadline of a grant counted from its arrival", &Behaviour::deadlineFromArrival},
        {"a sample of the server's clock counted from the reply", &Behaviour::sampleFromReply},
        {"an older sample with a later bound is kept", &Behaviour::laterBoundKept},
        {"a grant is believed though a later reply contradicts it", &Behaviour::believesOutdated},
        {"a grant is believed after the acquire was cancelled", &Behaviour::believesUnwanted},
        {"a grant for a former token is believed", &Behaviour::believesFormer},
        {"a lock that was handed over is not extended", &Behaviour::neverExtends},
        {"the server's clock is set, and the check does not allow for it", &Behaviour::noAllowance},
        {"abandoned without a cancel", &Behaviour::neverCancels},
        {"a notification while an attempt is in flight is forgotten", &Behaviour::nextForgotten},
        {"a subscription while an attempt is in flight is forgotten", &Behaviour::subscribedForgotten},
};

bool report(const Config &config, const Model::Result &result, double seconds)
{
    std::printf("%-58s %8zu states %9zu steps %6ld script runs, served within %2d ticks, idle %d, %.1f s\n",
                config.name.c_str(), result.states, result.steps, result.scriptRuns, result.slowest, result.idle,
                seconds);
    if (result.violation.empty())
        return true;
    std::printf("  WRONG: %s\n", result.violation.c_str());
    for (const std::string &step : result.trace)
        std::printf("    %s\n", step.c_str());
    return false;
}

} // namespace

/// protocolmodel <folder of the scripts> [check | mutants | thorough] [part of a name]
int main(int argc, char **argv)
{
    const std::string scripts = argc > 1 ? argv[1] : ".";
    const std::string what = argc > 2 ? argv[2] : "check";
    const std::string only = argc > 3 ? argv[3] : "";
    constexpr std::size_t AtMost = 10'000'000;
    auto configs = configurations();
    if (what != "thorough")
        configs.erase(std::remove_if(configs.begin(), configs.end(), [](const Config &c) { return c.thorough; }),
                      configs.end());
    try {
        bool well = true;
        if (what != "mutants") {
            std::size_t states = 0, steps = 0;
            for (const Config &config : configs) {
                if (config.name.find(only) == std::string::npos)
                    continue;
                const auto begin = std::chrono::steady_clock::now();
                const Model::Result result = Model(config, {}, scripts, nullptr).explore(AtMost);
                const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
                well = report(config, result, taken.count()) && well;
                std::fflush(stdout);
                states += result.states, steps += result.steps;
            }
            std::printf("%zu states, %zu steps\n", states, steps);
            return well ? 0 : 1;
        }
        // One of the configurations must find each deliberate error.
        const auto found = [&](const std::string &name, const Behaviour &behaviour, const Mutation *mutation) {
            if (name.find(only) == std::string::npos)
                return;
            for (const Config &config : configs) {
                const Model::Result result = Model(config, behaviour, scripts, mutation).explore(AtMost);
                if (result.violation.empty())
                    continue;
                std::printf("%-62s found in \"%s\" after %zu states: %s\n", name.c_str(), config.name.c_str(),
                            result.states, result.violation.c_str());
                std::fflush(stdout);
                return;
            }
            std::printf("%-62s NOT FOUND\n", name.c_str());
            well = false;
        };
        for (const Mutation &mutation : mutations())
            found(mutation.name, {}, &mutation);
        for (const BehaviourMutation &mutation : behaviourMutations) {
            Behaviour behaviour;
            behaviour.*mutation.flag = true;
            found(mutation.name, behaviour, nullptr);
        }
        return well ? 0 : 1;
    } catch (const std::exception &exception) {
        std::fprintf(stderr, "%s\n", exception.what());
        return 2;
    }
}
