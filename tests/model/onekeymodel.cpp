// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Explores every interleaving of a few clients of a Redis Cluster with the move of their lock's slot from one node to
// another and back, key by key: the real scripts of src/engine/redis/scripts, on two small Redis that refuse commands
// as nodes of a cluster do. docs/protocol.md, "In a cluster", describes what is checked. Time advances in ticks of
// 1.5 s.

#include "scriptrunner.h"

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>

namespace {

using Byte = std::uint8_t;

constexpr int Tick = 1500; // ms
constexpr Byte Lease = 3;  ///< ticks
constexpr int Clients = 3;
constexpr Byte Oldest = Lease; ///< ticks; older ages make no difference
constexpr int FirstFence = 100;

const std::string Key = "lock:k";
const std::string Queue = "{lock:k}:queue";
const std::string Fence = "{lock:k}:fence";

/// Deliberate errors in the clients.
struct Behaviour
{
    const char *name = "";
    bool claimsAtTarget = false; ///< after a refusal, without asking the source for the key first
    bool fenceAtTarget = false;  ///< the same for the fence
    bool joinsAtTarget = false;  ///< joins a queue there
    bool keepsPlace = false;     ///< stays in the queue when it has claimed the lock
    bool lateReplyAccepted = false;
    bool fenceNotAwaited = false;    ///< believes the claim, and takes the former fencing token
    bool scriptsAtTarget = false;    ///< follows ASK with whole scripts
    bool ageFromRedirection = false; ///< the lease counts from the last time a command was sent
};

struct Config
{
    std::string name;
    int clients = 2;
    int acquisitions = 2; ///< of each client
    int moves = 1;
    bool oldRedis = false; ///< a missing key among others is ASK, not TRYAGAIN, at the source
    bool full = false;     ///< only in a full run, and for the errors
    std::array<bool, Clients> readers{};
};

enum Phase : Byte { Idle, Acquiring, Held, Releasing, GivingUp };
enum Kind : Byte { Nothing, Acquire, Claim, LeaveQueue, DrawFence, JoinQueue, Release, ReleaseOne, Renew };
enum Outcome : Byte { None, Granted, Claimed, Taken, Queued, Done, Failed, Moved, Ask, TryAgain };

struct Reading
{
    Byte token, left; ///< ticks; 0: the lease has ended
};

struct Node
{
    Byte holder = 0, ttl = 0;     ///< 0 = no key, or that of readers
    std::vector<Reading> readers; ///< the key is a sorted set
    Byte fence = 0;               ///< minus FirstFence, plus 1; 0 = no key
    std::vector<Byte> queue;
};

struct Client
{
    Byte phase = Idle, left = 0, epoch = 0;
    Byte knows = 0;  ///< the owner of the slot, in its view
    Byte belief = 0; ///< ticks for which it believes that it holds the lock
    Byte age = 0;    ///< ticks since the first command of the attempt was sent
    Byte command = Nothing, to = 0, asking = 0;
    Byte outcome = None, fence = 0;               ///< of the reply that it has not read
    Byte listensAt = 0;                           ///< node + 1; 0 = nowhere
    Byte grant = 0, grantFence = 0, grantAge = 0; ///< a message: the epoch
};

struct State
{
    std::array<Node, 2> nodes;
    Byte owner = 0, migrating = 0, movesLeft = 0;
    Byte told = 0; ///< the greatest fencing token that a client was told, as in Node
    Byte toldToWriter = 0;
    std::array<Client, Clients> clients;
};

std::string encode(const State &s)
{
    std::string bytes;
    const auto add = [&bytes](Byte value) { bytes += char(value); };
    for (const Node &n : s.nodes) {
        add(n.holder), add(n.ttl), add(n.fence), add(Byte(n.readers.size())), add(Byte(n.queue.size()));
        for (const Reading &r : n.readers)
            add(r.token), add(r.left);
        for (const Byte token : n.queue)
            add(token);
    }
    add(s.owner), add(s.migrating), add(s.movesLeft), add(s.told), add(s.toldToWriter);
    for (const Client &c : s.clients) {
        for (const Byte value : {c.phase, c.left, c.epoch, c.knows, c.belief, c.age, c.command, c.to, c.asking,
                                 c.outcome, c.fence, c.listensAt, c.grant, c.grantFence, c.grantAge})
            add(value);
    }
    return bytes;
}

State decode(const std::string &bytes)
{
    State s;
    std::size_t at = 0;
    const auto take = [&] { return Byte(bytes[at++]); };
    for (Node &n : s.nodes) {
        n.holder = take(), n.ttl = take(), n.fence = take();
        n.readers.resize(take());
        n.queue.resize(take());
        for (Reading &r : n.readers)
            r.token = take(), r.left = take();
        for (Byte &token : n.queue)
            token = take();
    }
    s.owner = take(), s.migrating = take(), s.movesLeft = take(), s.told = take();
    s.toldToWriter = take();
    for (Client &c : s.clients) {
        for (Byte *value : {&c.phase, &c.left, &c.epoch, &c.knows, &c.belief, &c.age, &c.command, &c.to, &c.asking,
                            &c.outcome, &c.fence, &c.listensAt, &c.grant, &c.grantFence, &c.grantAge})
            *value = take();
    }
    return s;
}

Byte tokenOf(int client, Byte epoch)
{
    return Byte((client + 1) << 4 | epoch);
}

Byte tokenOf(std::string text)
{
    if (text[0] == 'r')
        text.erase(0, 1);
    return Byte((text[0] - 'a' + 1) << 4 | std::atoi(text.c_str() + 2));
}

class Model
{
public:
    Model(const Config &config, const Behaviour &behaviour, const std::string &scripts, const Mutation *mutation)
        : m_config(config)
        , m_behaviour(behaviour)
        , m_scripts(scripts, mutation,
                    {"acquire", "release", "renew", "onekey_claim", "onekey_fence", "onekey_release"})
    {
    }

    struct Result
    {
        std::size_t states = 0, steps = 0;
        std::string violation;
        std::vector<std::string> trace;
    };

    Result explore()
    {
        State first;
        first.movesLeft = Byte(m_config.moves);
        for (int c = 0; c < m_config.clients; ++c)
            first.clients[std::size_t(c)].left = Byte(m_config.acquisitions);
        Result result;
        add(first, -1, "");
        try {
            for (std::size_t i = 0; i < m_order.size(); ++i) {
                m_present = int(i);
                expand(decode(*m_order[i]), &result);
            }
        } catch (const Violation &violation) {
            result.violation = violation.what();
            for (int i = m_present; i > 0; i = m_from[std::size_t(i)].first)
                result.trace.insert(result.trace.begin(), m_from[std::size_t(i)].second);
            result.trace.push_back(m_step);
        }
        result.states = m_order.size();
        return result;
    }

private:
    bool isReader(int c) const { return m_config.readers[std::size_t(c)]; }

    std::string textOf(Byte token) const
    {
        const int c = (token >> 4) - 1;
        return (isReader(c) ? "r" : "") + std::string(1, char('a' + c)) + ':' + std::to_string(token & 15) + ":f";
    }

    void add(const State &state, int from, const std::string &step)
    {
        const auto [it, isNew] = m_states.try_emplace(encode(canonical(state)), int(m_order.size()));
        if (!isNew)
            return;
        m_order.push_back(&it->first);
        m_from.emplace_back(from, step);
    }

    /// Without what makes no difference any more.
    static State canonical(State s)
    {
        for (Client &client : s.clients) {
            if (client.command == Nothing)
                client.to = client.asking = 0;
            if (client.phase == Idle)
                client.age = 0;
            if (client.phase == Idle && client.left == 0)
                client.knows = 0;
        }
        return s;
    }

    /// Makes the step \a name from \a state.
    template<typename Change>
    void step(const State &state, const std::string &name, Result *result, Change change)
    {
        State next = state;
        m_step = name;
        ++result->steps;
        change(next);
        check(next);
        add(next, m_present, name);
    }

    void expand(const State &s, Result *result)
    {
        for (int c = 0; c < m_config.clients; ++c)
            expandClient(s, c, result);
        if (!s.migrating && s.movesLeft > 0) {
            step(s, "the slot begins to move", result, [](State &n) {
                n.migrating = 1;
                --n.movesLeft;
            });
        }
        if (s.migrating) {
            for (const char *key : {"key", "fence", "queue"}) {
                if (exists(s.nodes[s.owner], key))
                    step(s, std::string("the ") + key + " moves", result, [&](State &n) { migrate(n, key); });
            }
            const Node &source = s.nodes[s.owner];
            if (!exists(source, "key") && source.fence == 0 && source.queue.empty()) {
                step(s, "the slot has moved", result, [](State &n) {
                    n.migrating = 0;
                    for (Client &client : n.clients) {
                        if (client.listensAt == n.owner + 1)
                            client.listensAt = 0; // it is sent sunsubscribe
                    }
                    n.owner = Byte(1 - n.owner);
                });
            }
        }
        if (!isOver(s))
            step(s, "time passes", result, [](State &n) { tick(n); });
    }

    static bool isOver(const State &s)
    {
        for (const Client &c : s.clients) {
            if (c.phase != Idle || c.left > 0 || c.grant != 0)
                return false;
        }
        return true;
    }

    void expandClient(const State &s, int c, Result *result)
    {
        const Client &client = s.clients[std::size_t(c)];
        const std::string who = std::string("client ") + char('a' + c);
        const auto now = [c](State &n) -> Client & { return n.clients[std::size_t(c)]; };
        if (client.grant != 0)
            step(s, who + " reads the grant", result, [&](State &n) { readGrant(n, c); });
        if (client.outcome != None) {
            step(s, who + " reads its reply", result, [&](State &n) { readReply(n, c); });
            return;
        }
        if (client.command != Nothing) {
            step(s,
                 who + "'s " + nameOf(client.command) + " runs at node " + std::to_string(client.to)
                         + (client.asking ? ", asked" : ""),
                 result, [&](State &n) { execute(n, c); });
            return;
        }
        // Whether it takes the slot for moving depends on when it heard of that last.
        for (const bool isOneKey : {false, true}) {
            const std::string how = isOneKey ? ", one key" : "";
            if (client.phase == Idle && client.left > 0) {
                step(s, who + " begins to acquire" + how, result, [&](State &n) {
                    --now(n).left;
                    ++now(n).epoch;
                    now(n).phase = Acquiring;
                    attempt(n, c, isOneKey);
                });
            }
            if (client.phase == Acquiring) {
                step(s, who + " tries again" + how, result, [&](State &n) { attempt(n, c, isOneKey); });
                step(s, who + " gives up" + how, result, [&](State &n) { giveBack(n, c, isOneKey); });
            }
            if (client.phase == Held)
                step(s, who + " releases" + how, result, [&](State &n) { giveBack(n, c, isOneKey); });
        }
        if (client.phase == Held && client.belief < Lease) {
            step(s, who + " renews", result, [&](State &n) {
                now(n).age = 0;
                send(n, c, Renew);
            });
        }
    }

    static const char *nameOf(Byte kind)
    {
        constexpr const char *names[] = {"nothing", "acquire", "onekey_claim",   "ZREM", "onekey_fence",
                                         "join",    "release", "onekey_release", "renew"};
        return names[kind];
    }

    // The clients

    static void send(State &s, int c, Byte kind)
    {
        Client &client = s.clients[std::size_t(c)];
        client.command = kind;
        client.to = client.knows;
        client.asking = 0;
    }

    void attempt(State &s, int c, bool isOneKey)
    {
        s.clients[std::size_t(c)].age = 0;
        send(s, c, isOneKey ? Claim : Acquire);
    }

    static void giveBack(State &s, int c, bool isOneKey)
    {
        Client &client = s.clients[std::size_t(c)];
        client.phase = client.phase == Held ? Releasing : GivingUp;
        client.belief = 0;
        send(s, c, isOneKey ? ReleaseOne : Release);
    }

    void readGrant(State &s, int c)
    {
        Client &client = s.clients[std::size_t(c)];
        constexpr int ClaimTime = 2; // ticks
        const bool isProven = client.grantFence != 0 && client.grant == client.epoch && client.phase == Acquiring
                && client.command == Nothing && client.outcome == None && client.grantAge < ClaimTime;
        if (isProven)
            hold(s, c, Byte(ClaimTime - client.grantAge), client.grantFence);
        client.grant = client.grantFence = client.grantAge = 0;
    }

    void hold(State &s, int c, Byte belief, Byte fence)
    {
        Client &client = s.clients[std::size_t(c)];
        if (isReader(c) ? fence < s.told || fence <= s.toldToWriter : fence <= s.told)
            throw Violation("a fencing token is not greater than the one before");
        s.told = fence;
        if (!isReader(c))
            s.toldToWriter = fence;
        client.phase = Held;
        client.belief = belief;
    }

    void readReply(State &s, int c)
    {
        Client &client = s.clients[std::size_t(c)];
        const Byte kind = client.command;
        const Byte outcome = client.outcome;
        const Byte fence = client.fence;
        client.outcome = None;
        client.fence = 0;
        client.command = Nothing;
        if (outcome == Moved || outcome == Ask || outcome == TryAgain)
            return redirected(s, c, kind, outcome);
        const bool isLate = client.age >= Lease && !m_behaviour.lateReplyAccepted;
        const Byte left = client.age >= Lease ? Lease : Byte(Lease - client.age);
        if (kind == Release || kind == ReleaseOne) {
            if (client.phase == Releasing && outcome == Done)
                checkForgotten(s, tokenOf(c, client.epoch));
            client.phase = Idle;
        } else if (kind == Renew) {
            if (outcome == Done && !isLate && client.belief > 0)
                client.belief = left;
            else if (outcome != Done || client.belief == 0)
                client.phase = Idle, client.belief = 0;
        } else if (outcome == Claimed && !m_behaviour.keepsPlace) {
            send(s, c, LeaveQueue);
        } else if ((outcome == Claimed || kind == LeaveQueue) && m_behaviour.fenceNotAwaited) {
            hold(s, c, left, std::max<Byte>(s.nodes[client.to].fence, 1));
        } else if (outcome == Claimed || kind == LeaveQueue) {
            send(s, c, DrawFence);
            if (m_behaviour.fenceAtTarget && s.migrating) {
                client.to = Byte(1 - s.owner);
                client.asking = 1;
            }
        } else if (outcome == Granted) {
            if (isLate)
                giveBack(s, c, kind != Acquire);
            else
                hold(s, c, left, fence);
        } else if (outcome == Taken && kind == Claim && m_behaviour.joinsAtTarget && s.migrating) {
            send(s, c, JoinQueue);
            client.to = Byte(1 - s.owner);
            client.asking = 1;
        }
    }

    void redirected(State &s, int c, Byte kind, Byte outcome)
    {
        Client &client = s.clients[std::size_t(c)];
        const bool isScript = kind == Acquire || kind == Release;
        if (m_behaviour.ageFromRedirection)
            client.age = 0;
        if (outcome == Moved) {
            client.knows = s.owner; // the reply names it
            send(s, c, kind);
        } else if (isScript && !(m_behaviour.scriptsAtTarget && outcome == Ask)) {
            send(s, c, kind == Acquire ? Claim : ReleaseOne);
            if (m_behaviour.claimsAtTarget && kind == Acquire) {
                client.to = Byte(1 - client.knows);
                client.asking = 1;
            }
        } else if (outcome == TryAgain && !m_behaviour.scriptsAtTarget) {
            throw Violation("TRYAGAIN for a command with one key");
        } else {
            const Byte from = client.to;
            send(s, c, kind);
            client.to = outcome == Ask ? Byte(1 - from) : from;
            client.asking = outcome == Ask;
        }
    }

    // The nodes

    static bool exists(const Node &node, const std::string &key)
    {
        return key == "key" || key == Key        ? node.holder != 0 || !node.readers.empty()
                : key == "fence" || key == Fence ? node.fence != 0
                                                 : !node.queue.empty();
    }

    static void migrate(State &s, const std::string &key)
    {
        Node &source = s.nodes[s.owner];
        Node &target = s.nodes[std::size_t(1 - s.owner)];
        if (exists(target, key))
            throw Violation("BUSYKEY: the " + key + " is at the target already");
        if (key == "key") {
            target.holder = std::exchange(source.holder, Byte(0)), target.ttl = std::exchange(source.ttl, Byte(0));
            target.readers = std::exchange(source.readers, {});
        } else if (key == "fence") {
            target.fence = std::exchange(source.fence, Byte(0));
        } else {
            target.queue = std::exchange(source.queue, {});
        }
    }

    /// How a node of a cluster answers to a command with these keys; None = it runs the command.
    template<typename Exists>
    Outcome verdict(const State &s, int node, bool isAsking, const std::vector<std::string> &keys, Exists has) const
    {
        const auto missing = std::count_if(keys.begin(), keys.end(), [&](const std::string &key) { return !has(key); });
        if (node == s.owner) {
            if (!s.migrating || missing == 0)
                return None;
            return missing == long(keys.size()) || m_config.oldRedis ? Ask : TryAgain;
        }
        if (!s.migrating || !isAsking)
            return Moved;
        return keys.size() > 1 && missing > 0 ? TryAgain : None;
    }

    void execute(State &s, int c)
    {
        Client &client = s.clients[std::size_t(c)];
        const std::string token = textOf(tokenOf(c, client.epoch));
        const std::string lease = std::to_string(Lease * Tick);
        std::vector<std::string> keys, arguments;
        switch (client.command) {
        case Acquire:
            keys = {Key, Queue, Fence};
            arguments = {lease, isReader(c) ? "rqs" : "rq", token};
            break;
        case Claim:
            keys = {Key};
            arguments = {token, lease, isReader(c) ? "rs" : "r"};
            break;
        case DrawFence:
            keys = {Fence};
            break;
        case LeaveQueue:
        case JoinQueue:
            keys = {Queue};
            break;
        case Release:
            keys = {Key, Queue, Fence};
            arguments = {lease, "0", token};
            break;
        case ReleaseOne:
            keys = {Key};
            arguments = {token, "0"};
            break;
        default:
            keys = {Key};
            arguments = {token, lease};
        }
        const int index = client.to;
        Node &node = s.nodes[std::size_t(index)];
        const Outcome refusal = verdict(s, index, client.asking, keys,
                                        [&node](const std::string &key) { return exists(node, key); });
        if (refusal != None) {
            client.outcome = refusal;
            return;
        }
        if (client.command == JoinQueue) {
            node.queue.push_back(tokenOf(c, client.epoch));
            client.outcome = Queued;
            return;
        }
        if (client.command == LeaveQueue) {
            node.queue.erase(std::remove(node.queue.begin(), node.queue.end(), tokenOf(c, client.epoch)),
                             node.queue.end());
            client.outcome = Done;
            return;
        }
        load(node);
        FakeRedis &redis = m_scripts.redis;
        redis.refuse = [&](const std::string &key) -> std::string {
            const auto has = [&redis](const std::string &one) {
                return redis.strings.count(one) || redis.sets.count(one);
            };
            return verdict(s, index, client.asking, {key}, has) == None
                    ? std::string()
                    : "ERR Script attempted to access a non local key in a cluster node";
        };
        redis.publish = [&](const std::string &channel, const std::string &message) {
            return publish(s, index, channel, message);
        };
        run(nameOf(client.command), keys, arguments, &client);
        store(&node);
        if (client.outcome == Queued)
            client.listensAt = Byte(index + 1);
    }

    void run(const std::string &name, const std::vector<std::string> &keys, const std::vector<std::string> &arguments,
             Client *client)
    {
        lua_State *const lua = m_scripts.tryRun(name, keys, arguments);
        if (!lua) { // it met a key that has moved
            client->outcome = Failed;
            return;
        }
        if (name == "acquire" || name == "release" || name == "renew")
            lua_rawgeti(lua, -1, 1); // the reply to the only lock
        if (lua_type(lua, -1) == LUA_TTABLE) {
            lua_rawgeti(lua, -1, 4); // rank
            const int rank = int(lua_tonumber(lua, -1));
            client->outcome = client->command == Release ? Done : rank >= 0 ? Queued : Taken;
        } else if (lua_type(lua, -1) == LUA_TSTRING) {
            const std::string text = lua_tostring(lua, -1);
            client->outcome = text[0] == 'E' || text[0] == 'T' ? Failed : Granted; // T: TRYAGAIN
            if (client->outcome == Granted)
                client->fence = Byte(std::atoi(text.c_str()) - FirstFence + 1);
        } else {
            client->outcome = lua_tonumber(lua, -1) != 1 ? Failed : client->command == Claim ? Claimed : Done;
        }
    }

    /// A client is notified if it listens at the node.
    static int publish(State &s, int node, const std::string &channel, const std::string &message)
    {
        const auto c = std::size_t(channel[channel.rfind(':') + 1] - 'a');
        Client &client = s.clients[c];
        if (client.listensAt != node + 1)
            return 0;
        std::istringstream words(message);
        std::string kind;
        int epoch = 0;
        int fence = 0;
        words >> kind >> epoch >> fence;
        if (kind == "grant") {
            client.grant = Byte(epoch);
            client.grantFence = Byte(fence == 0 ? 0 : fence - FirstFence + 1);
            client.grantAge = 0;
        }
        return 1;
    }

    void load(const Node &node)
    {
        // The clock is so near to 0 that the end of a lease, in ms, is the time left.
        FakeRedis &redis = m_scripts.redis;
        redis.strings.clear();
        redis.sets.clear();
        redis.now = FirstFence;
        if (node.holder != 0)
            redis.strings[Key] = {textOf(node.holder), node.ttl * Tick};
        for (const Reading &r : node.readers)
            redis.sets[Key].emplace_back(r.left * Tick, textOf(r.token));
        if (!node.readers.empty()) {
            std::sort(redis.sets[Key].begin(), redis.sets[Key].end());
            redis.sets[Key].ttl = node.ttl * Tick;
        }
        if (node.fence != 0)
            redis.strings[Fence] = {std::to_string(FirstFence + node.fence - 1), 604800000};
        double score = 1;
        for (const Byte token : node.queue)
            redis.sets[Queue].emplace_back(score++, textOf(token));
        if (!node.queue.empty())
            redis.sets[Queue].ttl = 172800000;
    }

    void store(Node *node)
    {
        const FakeRedis &redis = m_scripts.redis;
        const auto holder = redis.strings.find(Key);
        node->holder = holder == redis.strings.end() ? Byte(0) : tokenOf(holder->second.value);
        node->ttl = holder == redis.strings.end() ? Byte(0) : Byte(holder->second.ttl / Tick);
        node->readers.clear();
        if (const auto readers = redis.sets.find(Key); readers != redis.sets.end()) {
            if (readers->second.ttl < 0)
                throw Violation("the key has no time to live");
            for (const auto &[score, member] : readers->second)
                node->readers.push_back({tokenOf(member), Byte(score / Tick)});
            std::sort(node->readers.begin(), node->readers.end(),
                      [](const Reading &one, const Reading &other) { return one.token < other.token; });
            node->ttl = Byte(readers->second.ttl / Tick);
        }
        const auto fence = redis.strings.find(Fence);
        node->fence = fence == redis.strings.end() ? Byte(0)
                                                   : Byte(std::atoi(fence->second.value.c_str()) - FirstFence + 1);
        node->queue.clear();
        const auto queue = redis.sets.find(Queue);
        if (queue != redis.sets.end()) {
            for (const auto &[score, member] : queue->second)
                node->queue.push_back(tokenOf(member));
        }
    }

    static void tick(State &s)
    {
        for (Node &node : s.nodes) {
            for (Reading &r : node.readers)
                r.left = Byte(std::max(r.left - 1, 0));
            if (node.ttl > 0 && --node.ttl == 0) {
                node.holder = 0;
                node.readers.clear();
            }
        }
        for (Client &c : s.clients) {
            if (c.belief > 0 && --c.belief == 0 && c.command == Nothing && c.outcome == None)
                c.phase = Idle; // lost
            if (c.phase != Idle)
                c.age = std::min<Byte>(Byte(c.age + 1), Oldest);
            if (c.grant != 0)
                c.grantAge = std::min<Byte>(Byte(c.grantAge + 1), Oldest);
            if (c.phase == Idle)
                c.age = 0;
        }
    }

    static bool isInQueue(const State &s, Byte token)
    {
        return std::any_of(s.nodes.begin(), s.nodes.end(), [token](const Node &node) {
            return std::find(node.queue.begin(), node.queue.end(), token) != node.queue.end();
        });
    }

    /// For how many ticks the key keeps a token; -1 = it does not.
    static int left(const Node &node, Byte token)
    {
        for (const Reading &r : node.readers) {
            if (r.token == token)
                return std::min(r.left, node.ttl);
        }
        return node.holder == token ? node.ttl : -1;
    }

    static void checkForgotten(const State &s, Byte token)
    {
        for (const Node &node : s.nodes) {
            if (left(node, token) >= 0)
                throw Violation("a client has released the lock, and the key holds its token");
        }
        if (isInQueue(s, token))
            throw Violation("a client has released the lock, and its token is in the queue");
    }

    void check(const State &s) const
    {
        int writers = 0, readers = 0;
        for (int c = 0; c < Clients; ++c) {
            const Client &client = s.clients[std::size_t(c)];
            if (client.belief == 0)
                continue;
            ++(isReader(c) ? readers : writers);
            const Byte token = tokenOf(c, client.epoch);
            const bool isKept = std::any_of(s.nodes.begin(), s.nodes.end(),
                                            [&](const Node &node) { return left(node, token) >= client.belief; });
            if (!isKept)
                throw Violation("a client believes, and the key does not hold its token for as long");
            if (isInQueue(s, token))
                throw Violation("a client believes, and is in the queue");
        }
        if (writers > 1 || (writers > 0 && readers > 0))
            throw Violation("two clients believe that they hold the lock");
        for (const std::string &key : {Key, Fence, Queue}) {
            if (exists(s.nodes[0], key) && exists(s.nodes[1], key))
                throw Violation(key + " is at both nodes");
        }
    }

    const Config m_config;
    const Behaviour m_behaviour;
    Scripts m_scripts;
    std::unordered_map<std::string, int> m_states;
    std::deque<const std::string *> m_order;
    std::deque<std::pair<int, std::string>> m_from;
    int m_present = 0;
    std::string m_step;
};

const std::vector<Config> &configurations()
{
    static const std::vector<Config> all{
            {"two clients, one move", 2, 1, 1, false},
            {"two clients, a Redis before 7.0", 2, 1, 1, true},
            {"two clients, there and back", 2, 1, 2, false, true},
            {"a reader and a writer, one move", 2, 1, 1, false, false, {true, false}},
            {"two readers, one move", 2, 1, 1, false, true, {true, true}},
            {"a reader and a writer, there and back", 2, 1, 2, false, true, {true, false}},
    };
    return all;
}

std::vector<Behaviour> wrongBehaviours()
{
    std::vector<Behaviour> all;
    const auto add = [&all](const char *name, bool Behaviour::*error) {
        Behaviour behaviour;
        behaviour.name = name;
        behaviour.*error = true;
        all.push_back(behaviour);
    };
    add("the key is claimed at the target, without asking the source", &Behaviour::claimsAtTarget);
    add("the fence is drawn at the target, without asking the source", &Behaviour::fenceAtTarget);
    add("a queue is made at the target", &Behaviour::joinsAtTarget);
    add("a holder stays in the queue", &Behaviour::keepsPlace);
    add("a late reply is accepted", &Behaviour::lateReplyAccepted);
    add("the fence is not awaited", &Behaviour::fenceNotAwaited);
    add("the lease counts from the redirection", &Behaviour::ageFromRedirection);
    return all;
}

const std::vector<Mutation> &mutations()
{
    static const std::vector<Mutation> all{
            {"a claim takes a lock that is held", "onekey_claim", "token, 'NX', 'PX'", "token, 'PX'"},
            {"a claim believes any holder", "onekey_claim", "holder == token", "holder"},
            {"a release without token check", "onekey_release", "holder ~= token", "false"},
            {"a fence that does not rise", "common", "number + 1)", "number)"},
    };
    return all;
}

/// Those that only readers show.
const std::vector<Mutation> &readerMutations()
{
    static const std::vector<Mutation> all{
            {"a claim takes a lock that readers hold", "onekey_claim", "elseif holder == false then",
             "elseif holder == false or shared then"},
            {"a reader's release takes the lock from the others", "onekey_release",
             "  return removeSharer(key, token) or 1\n", "  return redis.pcall('DEL', key)\n"},
    };
    return all;
}

bool report(const Config &config, const Model::Result &result, double seconds)
{
    std::printf("%-36s %8zu states, %9zu steps, %5.1f s: %s\n", config.name.c_str(), result.states, result.steps,
                seconds, result.violation.empty() ? "nothing found" : result.violation.c_str());
    for (const std::string &step : result.trace)
        std::printf("    %s\n", step.c_str());
    std::fflush(stdout);
    return result.violation.empty();
}

/// True if a violation is found in one of the configurations.
bool isFound(const char *name, const Behaviour &behaviour, const std::string &scripts, const Mutation *mutation,
             bool hasReaders = false)
{
    for (const Config &config : configurations()) {
        if (config.readers[0] != hasReaders)
            continue;
        const auto result = Model(config, behaviour, scripts, mutation).explore();
        if (!result.violation.empty()) {
            std::printf("%-66s %s\n", name, result.violation.c_str());
            return true;
        }
    }
    std::printf("%-66s NOT FOUND\n", name);
    return false;
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 3) {
        std::fprintf(stderr, "usage: onekeymodel <folder of the scripts> check|full|mutants\n");
        return 2;
    }
    const std::string scripts = argv[1];
    const std::string purpose = argv[2];
    bool ok = true;
    if (purpose != "mutants") {
        for (const Config &config : configurations()) {
            if (config.full && purpose != "full")
                continue;
            const auto begin = std::chrono::steady_clock::now();
            const auto result = Model(config, {}, scripts, nullptr).explore();
            ok &= report(config, result,
                         std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
        }
        return ok ? 0 : 1;
    }
    for (const Behaviour &behaviour : wrongBehaviours())
        ok &= isFound(behaviour.name, behaviour, scripts, nullptr);
    for (const Mutation &mutation : mutations())
        ok &= isFound(mutation.name.c_str(), {}, scripts, &mutation);
    for (const Mutation &mutation : readerMutations())
        ok &= isFound(mutation.name.c_str(), {}, scripts, &mutation, true);
    return ok ? 0 : 1;
}
