// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Runs the scripts of src/engine/redis/scripts in the Lua that Redis embeds, on a small Redis.

#pragma once

#include <lua.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

/// A violation that was found in a step.
struct Violation : std::runtime_error
{
    using std::runtime_error::runtime_error;
};

struct FakeRedis
{
    struct Text
    {
        std::string value;
        int ttl; ///< ms, -1 = none
    };
    struct Set : std::vector<std::pair<double, std::string>>
    {
        int ttl = -1;
    };
    std::map<std::string, Text> strings;
    std::map<std::string, Set> sets; ///< none of them empty
    int now = 0;                     ///< in µs, less than a millisecond
    bool mayReadTime = true;
    /// Returns the number of receivers; negative if the user may not publish.
    std::function<int(const std::string &, const std::string &)> publish;
    std::vector<std::string> declared; ///< the KEYS of the script: managed services and Dragonfly refuse any other key
    std::string derived; ///< the name of this key is made from that of another one: it need not be one of KEYS
    /// If set: why a key may not be used here, as the text of an error; empty if it may.
    std::function<std::string(const std::string &)> refuse;
    std::string error; ///< of the last command

    /// Not SHA-1, but different for different texts, too.
    static std::string hash(std::string text)
    {
        std::replace(text.begin(), text.end(), ' ', '_');
        return '#' + text;
    }

    static int sha1hex(lua_State *lua)
    {
        const std::string result = hash(luaL_checkstring(lua, 1));
        lua_pushlstring(lua, result.data(), result.size());
        return 1;
    }

    static int call(lua_State *lua) { return run(lua, false); }
    static int pcall(lua_State *lua) { return run(lua, true); }

    static int run(lua_State *lua, bool catchesErrors)
    {
        auto *const self = static_cast<FakeRedis *>(lua_touserdata(lua, lua_upvalueindex(1)));
        std::vector<std::string> arguments;
        for (int i = 1; i <= lua_gettop(lua); ++i) {
            std::size_t length = 0;
            // Converts numbers to text as Redis does.
            if (lua_type(lua, i) == LUA_TNUMBER) {
                char buffer[64];
                std::snprintf(buffer, sizeof buffer, "%.17g", lua_tonumber(lua, i));
                arguments.emplace_back(buffer);
                continue;
            }
            const char *const text = lua_tolstring(lua, i, &length);
            if (!text)
                return luaL_error(lua, "argument %d is no text", i);
            arguments.emplace_back(text, length);
        }
        const bool hasKey = arguments[0] != "TIME" && arguments[0] != "PUBLISH";
        const auto &declared = self->declared;
        if (hasKey && arguments.at(1) != self->derived
            && std::find(declared.begin(), declared.end(), arguments.at(1)) == declared.end())
            return luaL_error(lua, "the script uses the key %s, which is none of KEYS", arguments[1].c_str());
        self->error = self->refuse && hasKey ? self->refuse(arguments.at(1)) : std::string();
        if (self->error.empty() && !self->run(lua, arguments))
            return luaL_error(lua, "the model's Redis does not know this use of %s", arguments[0].c_str());
        if (!self->error.empty()) {
            lua_newtable(lua);
            lua_pushlstring(lua, self->error.data(), self->error.size()), lua_setfield(lua, -2, "err");
            return catchesErrors ? 1 : lua_error(lua);
        }
        return 1;
    }

    /// As many digits as the time in µs has, for the next three hundred years.
    static std::string digits(double number)
    {
        char buffer[64];
        std::snprintf(buffer, sizeof buffer, std::floor(number) == number ? "%07.0f" : "%.17g", number);
        return buffer;
    }

    bool run(lua_State *lua, const std::vector<std::string> &a)
    {
        const auto integer = [lua](long long value) { lua_pushnumber(lua, lua_Number(value)); };
        const auto bulk = [lua](const std::string &value) { lua_pushlstring(lua, value.data(), value.size()); };
        const auto nil = [lua] { lua_pushboolean(lua, 0); };
        const auto refused = [this] { return error = "NOPERM", true; };
        const std::string &name = a[0];
        if (name == "TIME") {
            if (!mayReadTime)
                return refused();
            lua_newtable(lua);
            bulk("0"), lua_rawseti(lua, -2, 1);
            bulk(std::to_string(now)), lua_rawseti(lua, -2, 2);
            return true;
        }
        if (name == "PUBLISH") {
            const int receivers = publish(a[1], a[2]);
            return receivers < 0 ? refused() : (integer(receivers), true);
        }
        const std::string &key = a[1];
        const auto string = strings.find(key);
        const auto set = sets.find(key);
        const bool known = string != strings.end();
        const bool isSet = set != sets.end();
        const bool setsOnly = name[0] == 'Z';
        if (setsOnly ? known : isSet && (name == "GET" || (name == "SET" && a.back() == "GET")))
            return error = "WRONGTYPE", true;
        if (name == "MGET") {
            lua_newtable(lua);
            known ? bulk(string->second.value) : nil();
            lua_rawseti(lua, -2, 1);
            return a.size() == 2;
        }
        if (name == "GET")
            return known ? bulk(string->second.value) : nil(), true;
        if (name == "SET") {
            int ttl = -1;
            bool get = false;
            bool onlyNew = false;
            for (std::size_t i = 3; i < a.size(); ++i) {
                if (a[i] == "PX" && i + 1 < a.size())
                    ttl = std::atoi(a[++i].c_str());
                else if (a[i] == "PXAT" && i + 1 < a.size())
                    ttl = std::atoi(a[++i].c_str()) - now / 1000;
                else if (a[i] == "GET")
                    get = true;
                else if (a[i] == "NX")
                    onlyNew = true;
                else
                    return false;
            }
            if (onlyNew && (known || isSet))
                return nil(), true;
            if (!get) {
                lua_newtable(lua);
                bulk("OK"), lua_setfield(lua, -2, "ok");
            } else {
                known ? bulk(string->second.value) : nil();
            }
            sets.erase(key);
            strings[key] = {a[2], ttl};
            return true;
        }
        if (name == "EXISTS") {
            const auto exists = [this](const std::string &one) { return strings.count(one) || sets.count(one); };
            return integer(std::count_if(a.begin() + 1, a.end(), exists)), true;
        }
        if (name == "DEL")
            return integer(long(strings.erase(key) + sets.erase(key))), true;
        if (name == "PTTL")
            return integer(known ? string->second.ttl : isSet ? set->second.ttl : -2), true;
        if (name == "PEXPIRE" || name == "PEXPIREAT") {
            const int ttl = std::atoi(a[2].c_str()) - (name == "PEXPIREAT" ? now / 1000 : 0);
            if (ttl <= 0)
                strings.erase(key), sets.erase(key);
            else if (known)
                string->second.ttl = ttl;
            else if (isSet)
                set->second.ttl = ttl;
            return integer(known || isSet), true;
        }
        const auto find = [&](const std::string &member) {
            auto &members = set->second;
            return std::find_if(members.begin(), members.end(), [&](auto &m) { return m.second == member; });
        };
        if (name == "ZADD" && a.size() >= 4) {
            auto &members = sets[key];
            const bool isNew = a[2] == "NX";
            long added = 0;
            for (std::size_t i = isNew ? 3 : 2; i + 1 < a.size(); i += 2) {
                const double score = std::atof(a[i].c_str());
                const auto has = [&](auto &m) { return m.second == a[i + 1]; };
                const auto it = std::find_if(members.begin(), members.end(), has);
                if (it == members.end())
                    members.emplace_back(score, a[i + 1]), ++added;
                else if (!isNew)
                    it->first = score;
            }
            std::sort(members.begin(), members.end());
            return integer(added), true;
        }
        if (name == "ZREM") {
            long removed = 0;
            for (std::size_t i = 2; i < a.size() && isSet; ++i) {
                if (const auto it = find(a[i]); it != set->second.end())
                    set->second.erase(it), ++removed;
            }
            if (isSet && set->second.empty())
                sets.erase(set);
            return integer(removed), true;
        }
        if (name == "ZREMRANGEBYSCORE" && a[2] == "-inf") {
            const double atMost = std::atof(a[3].c_str());
            long removed = 0;
            while (isSet && !set->second.empty() && set->second.front().first <= atMost)
                set->second.erase(set->second.begin()), ++removed;
            if (isSet && set->second.empty())
                sets.erase(set);
            return integer(removed), true;
        }
        if (name == "ZRANGE" && (a[2] == "0" || (a[2] == "-1" && a[3] == "-1"))) {
            lua_newtable(lua);
            if (!isSet)
                return true;
            const auto &members = set->second;
            const std::size_t first = a[2] == "0" ? 0 : members.size() - 1;
            const std::size_t end = a[3] == "-1"
                    ? members.size()
                    : std::min<std::size_t>(std::size_t(std::atoi(a[3].c_str())) + 1, members.size());
            int index = 0;
            for (std::size_t i = first; i < end; ++i) {
                bulk(members[i].second), lua_rawseti(lua, -2, ++index);
                if (a.size() == 5)
                    bulk(digits(members[i].first)), lua_rawseti(lua, -2, ++index);
            }
            return a.size() == 4 || a[4] == "WITHSCORES";
        }
        if (name == "ZCARD")
            return integer(isSet ? long(set->second.size()) : 0), true;
        if (name == "ZRANK" || name == "ZSCORE") {
            if (!isSet || find(a[2]) == set->second.end())
                nil();
            else if (name == "ZRANK")
                integer(find(a[2]) - set->second.begin());
            else
                bulk(digits(find(a[2])->first));
            return true;
        }
        return false;
    }
};

/// A deliberate error in a script.
struct Mutation
{
    std::string name, script, from, to;
};

class Scripts
{
public:
    /// Other values of constants are a variant, which is no error.
    Scripts(const std::string &directory, const Mutation *mutation, const std::vector<std::string> &names,
            const Mutation *variant = nullptr)
        : m_changes{mutation, variant}
    {
        m_lua = luaL_newstate();
        luaL_openlibs(m_lua);
        lua_newtable(m_lua);
        const std::pair<const char *, lua_CFunction> functions[]{
                {"call", &FakeRedis::call}, {"pcall", &FakeRedis::pcall}, {"sha1hex", &FakeRedis::sha1hex}};
        for (const auto &[name, function] : functions) {
            lua_pushlightuserdata(m_lua, &redis);
            lua_pushcclosure(m_lua, function, 1);
            lua_setfield(m_lua, -2, name);
        }
        lua_setglobal(m_lua, "redis");
        for (const std::string &name : names) {
            std::string text = read(directory, name);
            for (const std::string include : {"constants", "common", "slots"}) {
                const std::string mark = "--#include " + include + ".lua\n";
                for (auto at = text.find(mark); at != std::string::npos; at = text.find(mark))
                    text.replace(at, mark.size(), read(directory, include));
            }
            load(name, text);
            for (const std::string shortWay : {"if isUsual then", "if n == 1", "if string.find(ARGV[2], '^[^w]*[sp]"}) {
                if (const auto at = text.find(shortWay); at != std::string::npos)
                    text.replace(at, 3, "if false and ");
            }
            load(longWayOf(name), text);
        }
        for (const Mutation *change : m_changes) {
            if (change && m_made.count(change) == 0)
                throw std::runtime_error("mutation \"" + change->name + "\" changes nothing");
        }
    }
    ~Scripts() { lua_close(m_lua); }
    Scripts(const Scripts &) = delete;
    Scripts &operator=(const Scripts &) = delete;

    /// The script without its short cut for the common cases of one lock.
    static std::string longWayOf(const std::string &name) { return name + ", the long way"; }

    /// Leaves the reply on the stack.
    lua_State *run(const std::string &name, const std::vector<std::string> &keys,
                   const std::vector<std::string> &arguments)
    {
        if (!tryRun(name, keys, arguments))
            throw Violation(name + " raised: " + (lua_isstring(m_lua, -1) ? lua_tostring(m_lua, -1) : "NOPERM"));
        return m_lua;
    }

    /// The same; null if the script ends with an error of Redis.
    lua_State *tryRun(const std::string &name, const std::vector<std::string> &keys,
                      const std::vector<std::string> &arguments)
    {
        lua_settop(m_lua, 0);
        set("KEYS", keys);
        redis.declared = keys;
        set("ARGV", arguments);
        lua_rawgeti(m_lua, LUA_REGISTRYINDEX, m_chunks.at(name));
        ++runs;
        return lua_pcall(m_lua, 0, 1, 0) == 0 ? m_lua : nullptr;
    }

    FakeRedis redis;
    long runs = 0;

private:
    void load(const std::string &name, const std::string &text)
    {
        if (luaL_loadbuffer(m_lua, text.data(), text.size(), name.c_str()) != 0)
            throw std::runtime_error(lua_tostring(m_lua, -1));
        m_chunks[name] = luaL_ref(m_lua, LUA_REGISTRYINDEX);
    }

    std::string read(const std::string &directory, const std::string &name)
    {
        std::ifstream file(directory + '/' + name + ".lua");
        std::stringstream text;
        text << file.rdbuf();
        std::string script = text.str();
        if (script.empty())
            throw std::runtime_error("cannot read " + directory + '/' + name + ".lua");
        for (const Mutation *change : m_changes) {
            if (!change || change->script != name)
                continue;
            if (const auto at = script.find(change->from); at != std::string::npos) {
                script.replace(at, change->from.size(), change->to);
                m_made.insert(change);
            }
        }
        return script;
    }

    void set(const char *name, const std::vector<std::string> &values)
    {
        lua_createtable(m_lua, int(values.size()), 0);
        for (std::size_t i = 0; i < values.size(); ++i) {
            lua_pushlstring(m_lua, values[i].data(), values[i].size());
            lua_rawseti(m_lua, -2, int(i) + 1);
        }
        lua_setglobal(m_lua, name);
    }

    lua_State *m_lua;
    std::map<std::string, int> m_chunks;
    const std::vector<const Mutation *> m_changes; ///< or null
    std::set<const Mutation *> m_made;
};
