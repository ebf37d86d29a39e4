// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Runs a script on the small Redis, in several circumstances, and keeps what it does.

#include "protocolmodel.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <utility>

namespace ProtocolModel {

/// See SLOT_PARTS in constants.lua.
constexpr double SlotParts = 2048;

static signed char ticksIn(double score)
{
    return static_cast<signed char>(std::ceil(std::floor(score) / Tick));
}

static signed char slotIn(double score)
{
    return static_cast<signed char>((score - std::floor(score)) * SlotParts - 1);
}

std::string Model::slotsText(Byte token)
{
    std::string text;
    const auto &sets = m_scripts.redis.sets;
    const auto set = sets.find("K");
    for (const std::string &member : set == sets.end() ? std::vector<std::string>() : members(token)) {
        for (const auto &[score, name] : set->second) {
            if (name == member && slotIn(score) >= 0)
                text += (text.empty() ? ' ' : ',') + std::to_string(int(slotIn(score)));
        }
    }
    return text;
}

const Model::Execution &Model::execute(const State &s, const std::string &script, const Command &command)
{
    Writer key;
    key(script == "force_release"), key(script == "set_permits"), key(s.server.permits), key(command.kind),
            key(command.token), key(command.queue), key(command.arrival), key(m_isSecond);
    key(s.server.holder), key(s.server.ttl), key(s.server.sharers.size());
    for (const Sharer &sharer : s.server.sharers)
        key(sharer.token), key(sharer.left), key(sharer.slots[0]), key(sharer.slots[1]);
    for (const Client &client : s.clients)
        key(client.subscribed);
    for (const Waiter &w : s.server.queue)
        key(w.token), key(w.wakeOnly), key(w.arrival);
    const auto known = m_executions.find(key.bytes());
    if (known != m_executions.end())
        return known->second;

    const Execution result = execute(s, script, command, Usual);
    const auto &queue = s.server.queue;
    const bool isShared = (command.token && canShare(command.token)) || !s.server.sharers.empty()
            || std::any_of(queue.begin(), queue.end(), [this](const Waiter &w) { return canShare(w.token); });
    for (const Circumstances &other : Others) {
        // Without the time nothing can be acquired, and no fencing token drawn for a waiter of the same client. Whether
        // the lease of one that shares it has ended is not known, nor when that of one that is served would end.
        if (!other.mayReadTime && (command.kind == Acquire || result.reply.handedTo || isShared))
            continue;
        const Execution same = execute(s, script, command, other);
        if (same.summary != result.summary)
            throw Violation(script + " does another thing " + other.name);
    }
    return m_executions.emplace(key.bytes(), result).first->second;
}

void Model::load(const Server &server, const std::string &key, const Circumstances &how)
{
    FakeRedis &redis = m_scripts.redis;
    redis.strings[key + "fence"] = {FakeRedis::digits(how.lastFence), 1000000};
    if (server.holder)
        redis.strings[key] = {name(server.holder), server.ttl == NoTtl ? -1 : server.ttl * Tick};
    // The clock is so near to 0 that the end of a lease, in ms, is the time left.
    for (const Sharer &sharer : server.sharers) {
        std::size_t permit = 0;
        for (const std::string &member : members(sharer.token))
            redis.sets[key].emplace_back(sharer.left * Tick + (sharer.slots[permit++] + 1) / SlotParts, member);
    }
    if (!server.sharers.empty()) {
        std::sort(redis.sets[key].begin(), redis.sets[key].end());
        redis.sets[key].ttl = server.ttl * Tick;
    }
    if (server.permits)
        redis.strings[key + "permits"] = {std::to_string(int(server.permits)), 1000000};
    for (const Waiter &w : server.queue)
        redis.sets[key + "queue"].emplace_back(w.arrival, (w.wakeOnly ? "*" : "") + name(w.token));
    if (!server.queue.empty())
        redis.sets[key + "queue"].ttl = 1000000;
}

Server Model::loaded(const std::string &key)
{
    FakeRedis &redis = m_scripts.redis;
    Server server;
    if (const auto it = redis.strings.find(key); it != redis.strings.end()) {
        server.holder = number(it->second.value);
        server.ttl = it->second.ttl < 0 ? NoTtl : Byte((it->second.ttl + Tick - 1) / Tick);
    }
    if (const auto it = redis.sets.find(key); it != redis.sets.end()) {
        server.sharers = decodeSharers(it->second);
        server.ttl = it->second.ttl < 0 ? NoTtl : Byte((it->second.ttl + Tick - 1) / Tick);
    }
    if (const auto it = redis.strings.find(key + "permits"); it != redis.strings.end()) {
        server.permits = Byte(std::atoi(it->second.value.c_str()));
        if (it->second.ttl < 0)
            throw Violation("the number of permits has no time to live");
    }
    if (const auto it = redis.sets.find(key + "queue"); it != redis.sets.end() && it->second.ttl < 0)
        throw Violation("the queue has no time to live");
    for (const auto &[score, member] : redis.sets[key + "queue"]) {
        const bool wakeOnly = member[0] == '*';
        if (member.substr(wakeOnly) != name(number(member)))
            throw Violation("a waiter is of another kind in the queue");
        server.queue.push_back({number(member.substr(wakeOnly)), wakeOnly, Byte(score)});
    }
    return server;
}

Model::Execution Model::execute(const State &s, const std::string &script, const Command &command,
                                const Circumstances &how)
{
    FakeRedis &redis = m_scripts.redis;
    redis.strings.clear();
    redis.sets.clear();
    redis.now = how.now;
    redis.mayReadTime = how.mayReadTime;
    load(s.server, "K", how);
    const bool shares = sharesFence(s.server, script, command);
    Execution result;
    std::vector<long long> granted; // fencing tokens
    std::string wrong;              // an exception must not pass through Lua
    const auto timeLeft = [&redis, this](Byte token) {
        if (const auto key = redis.strings.find("K"); key != redis.strings.end())
            return key->second.value == name(token) ? key->second.ttl : 0;
        int left = int(Never) * Tick;
        for (const std::string &member : members(token)) {
            const auto &set = redis.sets["K"];
            const auto it = std::find_if(set.begin(), set.end(), [&](const auto &m) { return m.second == member; });
            left = it == set.end() ? 0 : std::min(left, int(it->first));
        }
        return left;
    };
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
            const std::string slots = slotsText(message.token);
            if (!slots.empty()) {
                if (' ' + proof != slots)
                    wrong = "a grant says other slots";
                words >> proof;
            }
            std::string hold = payload.substr(0, payload.rfind(' '));
            hold.erase(0, hold.find(' ', hold.find(' ') + 1));
            const bool isReader = this->isReader(message.token);
            const int left = timeLeft(message.token);
            if (!wrong.empty())
                return 1;
            if (proof != FakeRedis::hash(token + hold))
                wrong = "a grant is not proven";
            else if (isReader && (shares ? fence != how.lastFence : !granted.empty() && fence != granted.back()))
                wrong = "readers that hold the lock together have different fencing tokens";
            else if (!(isReader && shares) && fence <= how.lastFence)
                wrong = "the fencing token of a grant does not rise";
            else if (!isReader && !granted.empty() && fence <= granted.back())
                wrong = "the fencing token of a grant does not rise";
            else if (fence != std::atoll(redis.strings["Kfence"].value.c_str()))
                wrong = "the fencing token of a grant is not the last one";
            else if (time != how.now)
                wrong = "a grant has another time";
            else if (left < ms)
                wrong = "a waiter is the holder by its message, but not on the server";
            granted.push_back(fence);
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
    if (script == "set_permits" || (script != "renew" && command.token && take(command.token)))
        keys.push_back("Kpermits");
    if (script == "acquire") {
        const std::string flags = std::string(command.queue ? "rq" : "r") + (fair(m) ? "" : "b")
                + (isReader(command.token) ? "s" : "")
                + (take(command.token) ? 'p' + std::to_string(m_config.serverSays ? 0 : m_config.permits) : "");
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
    } else if (script == "set_permits") {
        arguments = {std::to_string(int(command.queue))};
    }
    lua_State *const lua = m_scripts.run(how.longWay ? Scripts::longWayOf(script) : script, keys, arguments);
    if (!wrong.empty())
        throw Violation(wrong);
    decodeReply(lua, script, command, how, shares, granted, &result.reply);
    if (shares && std::atoll(redis.strings["Kfence"].value.c_str()) != how.lastFence)
        throw Violation("the fencing token is changed while readers hold the lock");

    result.after = loaded("K");
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
    // The key of those that share the lock may live on for one that has left.
    Byte ttl = result.after.sharers.empty() ? result.after.ttl : Byte(0);
    for (const Sharer &sharer : result.after.sharers)
        ttl |= Byte(sharer.left > result.after.ttl || result.after.ttl == NoTtl);
    for (const Byte part : {r.kind, r.token, r.age, r.outcome, r.ttl, r.rank, r.foreign, r.handedTo,
                            result.after.holder, ttl, result.after.permits})
        summary(part);
    summary(place(r.arrival));
    for (const Sharer &sharer : result.after.sharers)
        summary(sharer.token), summary(sharer.left), summary(sharer.slots[0]), summary(sharer.slots[1]);
    for (const Waiter &w : result.after.queue)
        summary(w.token), summary(w.wakeOnly), summary(place(w.arrival));
    // The order of the messages does not matter, nor does a message to a waiter that is served anyway.
    std::vector<std::array<Byte, 3>> messages;
    for (const Message &message : result.messages) {
        const bool served = result.after.isKept(message.token)
                || std::any_of(result.messages.begin(), result.messages.end(),
                               [&](const Message &other) { return other.kind == 'g' && other.token == message.token; });
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

std::vector<Sharer> Model::decodeSharers(const FakeRedis::Set &members) const
{
    std::vector<Sharer> sharers;
    for (const auto &[score, member] : members) {
        if (member.find('#') == std::string::npos)
            sharers.push_back({number(member), ticksIn(score)});
    }
    std::size_t count = 0;
    for (Sharer &sharer : sharers) {
        std::size_t permit = 0;
        for (const std::string &member : this->members(sharer.token)) {
            const auto it = std::find_if(members.begin(), members.end(),
                                         [&](const auto &m) { return m.second == member; });
            if (it == members.end() || ticksIn(it->first) != sharer.left)
                throw Violation("a holder of permits has not as many members as it takes, with one lease");
            sharer.slots[permit++] = slotIn(it->first);
            ++count;
        }
        if (!areOfOneKind(sharer.token, sharers.front().token))
            throw Violation("readers and holders of permits hold the lock together");
    }
    if (count != members.size())
        throw Violation("a member of the key is no holder's");
    std::sort(sharers.begin(), sharers.end(), [](const Sharer &a, const Sharer &b) { return a.token < b.token; });
    return sharers;
}

bool Model::sharesFence(const Server &before, const std::string &script, const Command &command) const
{
    const bool givesBack = command.kind == Release || command.kind == Cancel;
    return script != "force_release" && std::any_of(before.sharers.begin(), before.sharers.end(), [&](const Sharer &r) {
               return r.lives() && isReader(r.token) && !(givesBack && r.token == command.token);
           });
}

void Model::decodeReply(lua_State *lua, const std::string &script, const Command &command, const Circumstances &how,
                        bool shares, const std::vector<long long> &granted, Reply *reply)
{
    reply->kind = command.kind;
    reply->token = command.token;
    reply->ttl = command.kind == Renew ? command.queue : Byte(0);
    if (script == "force_release" || script == "set_permits")
        return;
    lua_rawgeti(lua, -1, 1);
    if (lua_type(lua, -1) == LUA_TNUMBER) {
        reply->outcome = Byte(lua_tointeger(lua, -1));
        return;
    }
    const auto fence = [&](double value) {
        const bool isShared = shares && script == "acquire" && isReader(command.token);
        if (isShared ? value != how.lastFence : !(value > how.lastFence))
            throw Violation(isShared ? "a reader has another fencing token than those beside it"
                                     : "the fencing token does not rise");
        // Those that take permits may be served together with the caller, and each has its own; so has a dead one that
        // was tried.
        const bool takesPermits = script == "acquire" && take(command.token) > 0;
        double last = value;
        for (const long long other : granted) {
            if (takesPermits && double(other) == value)
                throw Violation("two that take permits have the same fencing token");
            last = takesPermits ? std::max(last, double(other)) : last;
        }
        const double drawn = std::atof(m_scripts.redis.strings["Kfence"].value.c_str());
        if (takesPermits ? last > drawn : last != drawn)
            throw Violation("the fencing token in the reply is not the last one");
    };
    if (lua_type(lua, -1) == LUA_TSTRING && script == "acquire") {
        const std::string text = lua_tostring(lua, -1);
        reply->outcome = text == "NOPERM" ? Refused : std::isdigit(text[0]) ? 1 : Rejected;
        if (reply->outcome == 1)
            fence(std::atof(text.c_str()));
        const std::size_t end = std::min(text.find(' '), text.size());
        if (reply->outcome == 1 && text.substr(end) != slotsText(command.token))
            throw Violation("the reply says other slots");
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

Reply Model::serve(State &s, const Command &command)
{
    const Lock lock = lockOf(machineOf(command.token));
    if (lock == Both && command.kind == Acquire)
        return serveTogether(s, command);
    Reply reply{};
    if (lock != Second)
        reply = serveOne(s, command);
    if (lock != First) {
        turn(s);
        const Reply second = serveOne(s, command);
        turn(s);
        if (lock == Second || second.outcome != 1)
            reply = second;
    }
    return reply;
}

Reply Model::serveTogether(State &s, const Command &command)
{
    const Together &e = executeTogether(s, command);
    checkTogether(s, command, e);
    s.server = e.after[0];
    s.second = e.after[1];
    deliver(s, e.messages);
    Reply reply{};
    reply.kind = command.kind;
    reply.token = command.token;
    reply.outcome = e.outcomes[0] == Together::Acquired;
    return reply;
}

const Model::Together &Model::executeTogether(State &s, const Command &command)
{
    Writer key;
    for (const Server *server : {&s.server, &s.second}) {
        key(server->holder), key(server->ttl);
        key.list(server->sharers, [&key](const Sharer &r) { key(r.token), key(r.left); });
        key.list(server->queue, [&key](const Waiter &w) { key(w.token), key(w.wakeOnly), key(w.arrival); });
    }
    for (const Client &client : s.clients)
        key(client.subscribed);
    key(command.token);
    const auto known = m_together.find(key.bytes());
    if (known != m_together.end())
        return known->second;
    const Together result = executeTogether(s, command, Usual);
    for (const Circumstances &other : Others) {
        if (other.mayReadTime && executeTogether(s, command, other).summary != result.summary)
            throw Violation(std::string("acquire does another thing with two locks ") + other.name);
    }
    return m_together.emplace(key.bytes(), result).first->second;
}

Model::Together Model::executeTogether(State &s, const Command &command, const Circumstances &how)
{
    FakeRedis &redis = m_scripts.redis;
    redis.strings.clear();
    redis.sets.clear();
    redis.now = how.now;
    redis.mayReadTime = how.mayReadTime;
    std::array<std::string, 2> tokens;
    const std::array<std::string, 2> keys{"K", "L"};
    for (std::size_t i = 0; i < 2; ++i) {
        load(s.server, keys[i], how);
        tokens[i] = name(command.token);
        turn(s);
    }
    Together result;
    redis.publish = [&](const std::string &channel, const std::string &payload) {
        const std::size_t client = std::size_t(channel.back() - 'a');
        if (client >= Machines || !s.clients[client].subscribed)
            return 0;
        std::istringstream words(payload);
        std::string kind;
        int sequence = 0, ms = 0;
        words >> kind >> sequence >> ms;
        result.messages.push_back(
                {kind[0], Byte(sequence), Byte(std::min((ms + Tick - 1) / Tick, int(Never) - 1)), false, 0, 0, 0});
        return 1;
    };
    lua_State *const lua = m_scripts.run(
            how.longWay ? Scripts::longWayOf("acquire") : "acquire", {"K", "L", "Kqueue", "Lqueue", "Kfence", "Lfence"},
            {std::to_string(lease(machineOf(command.token)) * Tick), "rt", tokens[0], tokens[1]});
    Writer summary;
    for (std::size_t i = 0; i < 2; ++i) {
        const bool shares = isReader(command.token) && sharesFence(s.server, "acquire", command);
        lua_rawgeti(lua, 1, int(i) + 1);
        const int drawn = std::atoi(redis.strings[keys[i] + "fence"].value.c_str());
        if (lua_type(lua, -1) == LUA_TTABLE) {
            lua_rawgeti(lua, -1, 2);
            result.outcomes[i] = lua_tonumber(lua, -1) == -2 ? Together::Free : Together::Taken;
            if (drawn != how.lastFence)
                throw Violation("the fencing token of a lock changes that is not acquired");
        } else {
            result.outcomes[i] = Together::Acquired;
            const int fence = std::atoi(lua_tostring(lua, -1));
            if (fence != drawn || (shares ? fence != how.lastFence : fence <= how.lastFence))
                throw Violation("the fencing token of one of two locks is wrong");
        }
        lua_settop(lua, 1);
        result.after[i] = loaded(keys[i]);
        summary(result.outcomes[i]), summary(result.after[i].holder), summary(result.after[i].ttl);
        summary.list(result.after[i].sharers, [&summary](const Sharer &r) { summary(r.token), summary(r.left); });
        summary.list(result.after[i].queue, [&summary](const Waiter &w) { summary(w.token), summary(w.arrival); });
        turn(s);
    }
    summary.list(result.messages,
                 [&summary](const Message &m) { summary(m.kind), summary(m.token), summary(m.ticks); });
    result.summary = summary.bytes();
    return result;
}

Reply Model::serveOne(State &s, const Command &command)
{
    static const char *const names[] = {"acquire", "renew", "release", "cancel"};
    const Execution &e = execute(s, names[command.kind], command);
    check(s, command, e);
    s.server = e.after;
    deliver(s, e.messages);
    return e.reply;
}

void Model::deliver(State &s, const std::vector<Message> &messages)
{
    for (const Message &m : messages) {
        clientOf(s, machineOf(m.token)).messages.push_back(m);
        if (m.proven && m_config.kinds.find('r') != std::string::npos)
            s.overheard.push_back(m);
    }
}

} // namespace ProtocolModel
