// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "protocolstate.h"
#include "scriptrunner.h"

#include <functional>
#include <unordered_map>
#include <utility>

namespace ProtocolModel {

class Model
{
public:
    Model(const Config &config, const Behaviour &behaviour, const std::string &scripts, const Mutation *mutation)
        : m_config(config)
        , m_behaviour(behaviour)
        , m_clockSteps(config.kinds.find_first_of("+-") == std::string::npos ? 0 : config.faults)
        , m_variant{"SHARERS_AT_MOST", "constants", "SHARERS_AT_MOST = 64",
                    "SHARERS_AT_MOST = " + std::to_string(config.sharersAtMost)}
        , m_scripts(scripts, mutation, {"acquire", "renew", "release", "cancel", "force_release", "set_permits"},
                    config.sharersAtMost ? &m_variant : nullptr)
    {
        m_scripts.redis.derived = "Kpermits";
    }

    struct Result
    {
        std::size_t states = 0, steps = 0;
        long scriptRuns = 0;
        int slowest = 0; ///< ticks until all live waiters were served
        int idle = 0;    ///< those of these ticks in which the lock was free, or had room
        std::string violation;
        std::vector<std::string> trace;
    };

    Result explore(std::size_t atMost);

private:
    struct Node
    {
        const std::string *bytes;
        std::uint32_t parent, calm; ///< calm: the next state if no fault happens and no client is slow
        std::uint16_t label;
        bool waiting;  ///< a live client waits
        bool idle;     ///< the lock is free, or has room for one that waits
        bool calmTick; ///< in the calm step time passes
    };

    Machine &machine(State &s, int m) const { return s.machines[std::size_t(m)]; }
    Client &clientOf(State &s, int m) const { return s.clients[std::size_t(m_config.client[std::size_t(m)])]; }
    Byte lease(int m) const { return Byte(m_config.lease[std::size_t(m)]); }
    bool fair(int m) const { return m_config.fair[std::size_t(m)]; }
    Lock lockOf(int m) const { return m_config.lock[std::size_t(m)]; }
    bool isReader(Byte token) const
    {
        return token != Foreign && m_config.reader[std::size_t(machineOf(token))]
                && (m_isSecond || lockOf(machineOf(token)) != Both);
    }
    /// Whether the lock object concerns the lock that State::server is now.
    bool concerns(int m) const { return lockOf(m) == Both || (lockOf(m) == Second) == m_isSecond; }
    /// Makes the second lock State::server, or the first one again.
    void turn(State &s)
    {
        std::swap(s.server, s.second);
        m_isSecond = !m_isSecond;
    }

    /// The number of permits that it takes; 0 = it takes none.
    int take(Byte token) const { return token == Foreign ? 0 : m_config.take[std::size_t(machineOf(token))]; }
    bool wantsSlots(Byte token) const { return take(token) > 0 && m_config.wantsSlots[std::size_t(machineOf(token))]; }
    bool canShare(Byte token) const { return isReader(token) || take(token) > 0; }
    bool areOfOneKind(Byte a, Byte b) const { return isReader(a) == isReader(b) && (take(a) > 0) == (take(b) > 0); }
    int taken(const Server &server) const;

    std::string name(Byte token) const
    {
        if (token == Foreign)
            return "foreign";
        const std::string permits = take(token) ? 'p' + std::to_string(take(token)) + (wantsSlots(token) ? "@/" : "/")
                                                : std::string();
        return (isReader(token) ? "r" : permits)
                + std::string(1, char('a' + m_config.client[std::size_t(machineOf(token))])) + ':'
                + std::to_string(int(token)) + ":aa";
    }

    /// The slots that the small Redis keeps for \a token, as they follow its fencing token in a reply or a message.
    std::string slotsText(Byte token);

    /// Of the sorted set, if \a token shares the lock.
    std::vector<std::string> members(Byte token) const
    {
        std::vector<std::string> all{name(token)};
        for (int i = 2; i <= take(token); ++i)
            all.push_back(all.front() + '#' + std::to_string(i));
        return all;
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

    const Execution &execute(const State &s, const std::string &script, const Command &command);
    Execution execute(const State &s, const std::string &script, const Command &command, const Circumstances &how);
    bool isMute(const Command &command) const
    {
        return command.token && m_config.client[std::size_t(machineOf(command.token))] == m_config.mute;
    }
    /// Whether a reader that is served, or acquires, gets the fencing token of others that hold the lock.
    bool sharesFence(const Server &before, const std::string &script, const Command &command) const;
    /// \a granted are the fencing tokens of the grants that the script has published.
    void decodeReply(lua_State *lua, const std::string &script, const Command &command, const Circumstances &how,
                     bool shares, const std::vector<long long> &granted, Reply *reply);
    /// Those that hold the key, a sorted set, together.
    std::vector<Sharer> decodeSharers(const FakeRedis::Set &members) const;
    /// Writes a lock into the small Redis; its keys begin with \a key.
    void load(const Server &server, const std::string &key, const Circumstances &how);
    Server loaded(const std::string &key);

    /// Of an acquire of both locks with one command.
    struct Together
    {
        enum Outcome : Byte { Acquired, Taken, Free };
        std::array<Server, 2> after;
        std::array<Outcome, 2> outcomes;
        std::vector<Message> messages;
        std::string summary;
    };
    const Together &executeTogether(State &s, const Command &command);
    Together executeTogether(State &s, const Command &command, const Circumstances &how);

    /// Runs a command and checks its effects.
    Reply serve(State &s, const Command &command);
    Reply serveTogether(State &s, const Command &command);
    Reply serveOne(State &s, const Command &command); ///< of the lock that State::server is now
    void deliver(State &s, const std::vector<Message> &messages);

    // -- the clients, which behave as LeaseMachine does

    void send(State &s, int m, Kind kind, Byte token);
    /// For how many ticks a lock is renewed: without automatic renewals, for the rest of the lease.
    Byte renewal(const Machine &x, int m) const;
    void attempt(State &s, int m);
    /// A token that is not in use any more may be used again. This keeps the number of states finite.
    Byte freeEpoch(const State &s, int m) const;
    void begin(State &s, int m);
    void abandon(State &s, int m);
    void end(Machine &x);
    /// A client reads the clock before anything else.
    void lookAtClock(State &s, int client);
    void granted(State &s, int m, int left, Byte allowance);
    /// The client of waiter \a m learns that it was handed the lock, \a age ticks ago by what the client knows.
    void handedOver(State &s, int m, int ticks, int age, Byte allowance);
    /// As ServerClock::sample().
    void sample(Client &c, const Reply &r) const;
    int confirmed(int ticks, Byte age) const { return m_behaviour.deadlineFromReply ? ticks : ticks - age; }
    void grantNoticed(State &s, int m);
    void processReply(State &s, int client);
    /// The user lacks a right. A waiter that was in the queue keeps trying.
    void refused(State &s, int m);
    /// It does not fit the semaphore: the acquire ends.
    void rejected(State &s, int m);
    void taken(State &s, int m, const Reply &r);
    void processMessage(State &s, int client);
    /// By how many ticks the belief in a grant may outlast the key, as documented: if the server's clock is set forward
    /// after the grant, as with any lease; and if it is set forward between sample and grant, or back between grant and
    /// sample, and the message is late.
    Byte allowanceFor(const Client &c, const Message &grant) const;
    static void becomeHint(Message *grant) { *grant = {'g', grant->token, 0, false, 0, 0, 0}; }
    /// The client learns from the reply that the grants that were published before are over.
    void outdate(State &s, Byte token) const;
    void setClock(State &s, int ticks) const;
    static void forgetClock(Client &c);
    void disconnect(State &s, int client);
    void reconnect(State &s, int client);
    void wakeableChanged(State &s, int client);
    void die(State &s, int client);
    static Byte older(Byte age) { return age < LongAgo ? Byte(age + 1) : age; }
    void tick(State &s) const;

    // -- exploration

    /// Whether \a token, which waits, could share the lock with those that hold it and those that are before it.
    bool hasRoom(const State &s, Byte token) const;
    /// Whether \a token could share the lock if nobody else waited.
    bool couldShare(const Server &server, Byte token) const
    {
        return isReader(token)
                || (take(token) && taken(server) + (server.left(token) ? 0 : take(token)) <= server.permits);
    }
    /// Whether a live client waits for a lock that it could have.
    bool isIdle(const State &s);
    bool isFirstIdle(const State &s) const;
    bool isPresent(const State &s, Byte token) const;
    bool matters(const State &s, const Message &m) const;
    /// Makes messages equal that differ only in what has no effect.
    void reduce(const State &s, std::vector<Message> &messages) const;
    /// Makes states equal that differ only in what has no effect.
    void reduce(State &s) const;
    std::uint32_t add(State &s, const std::string &label);
    void expand(const State &s);
    /// Whether a client or the server has something to do at once.
    bool isUrgent(const State &s) const;
    /// The renewal that follows a hand-over is sent when a third of the time that this gave has passed, or before.
    bool extendsNow(const Machine &x) const { return x.mustExtend && x.belief == 1 && !m_behaviour.neverExtends; }
    static std::string described(const Command &command);

    // -- what must hold

    void check(const State &s, const Command &command, const Execution &e) const;
    void checkForce(const State &s, const Execution &e) const;
    /// Of a change of the number of permits.
    void checkChange(const State &s, const Execution &e) const;
    /// Of those that share the lock before and after a command of \a token.
    void checkSharers(const Server &before, const Server &after, Byte token) const;
    /// Of those that hold the lock after a command.
    void checkHolders(const Server &after) const;
    void checkSlots(const Server &before, const Server &after) const;
    /// Of an acquire that was rejected.
    void checkRejected(const Server &before, const Server &after, const Command &command) const;
    /// Whether the first living waiter could share the lock with those that hold it.
    bool keepsFirstWaiting(const State &s, const Server &after) const;
    /// Whether one that only wants to be woken was notified: it has not tried yet.
    bool isWoken(const Execution &e) const;
    void checkTogether(State &s, const Command &command, const Together &e);
    void checkState(const State &s);
    void checkBeliefs(const State &s) const;
    void checkRest(const State &s);
    void checkLockAtRest(const State &s) const;
    /// From every state: follow the calm steps until no live client waits.
    void checkProgress(Result *result);

    const Config m_config;
    const Behaviour m_behaviour;
    const int m_clockSteps; ///< at most
    const Mutation m_variant;
    Scripts m_scripts;
    bool m_isSecond = false; ///< State::server is the second lock now
    std::unordered_map<std::string, Execution> m_executions;
    std::unordered_map<std::string, Together> m_together;
    std::unordered_map<std::string, std::uint32_t> m_index;
    std::vector<Node> m_nodes;
    std::vector<std::string> m_labels;
    std::unordered_map<std::string, std::size_t> m_labelIndex;
    std::string m_step;
    std::size_t m_from = 0, m_steps = 0, m_atMost = 0;
};

} // namespace ProtocolModel
