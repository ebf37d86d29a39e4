// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "protocolconfigurations.h"

#include <algorithm>

namespace ProtocolModel {

namespace {

Config &add(std::vector<Config> *all, const char *name)
{
    all->emplace_back().name = name;
    return all->back();
}

std::vector<Config> readerConfigurations()
{
    std::vector<Config> all;
    const auto make = [&all](const char *name, std::array<bool, Machines> reader) -> Config & {
        Config &c = add(&all, name);
        c.reader = reader;
        return c;
    };
    constexpr std::array<bool, Machines> RRW{true, true, false}, RWW{true, false, false}, RWR{true, false, true},
            WRR{false, true, true}, RRR{true, true, true};
    make("two readers, a writer, no fault", RRW);
    make("a reader, two writers, no fault", RWW);
    make("three readers, no fault", RRR);
    {
        Config &c = make("two readers, one of them twice, a writer", RRW);
        c.acquisitions = {2, 1, 1}, c.cancels = false, c.renews = false;
    }
    {
        Config &c = make("two readers, other leases, a writer, one killed", RRW);
        c.lease = {6, 3, 4}, c.faults = 1, c.kinds = "c", c.cancels = false, c.renews = false;
    }
    {
        Config &c = make("two readers that renew, a writer, one killed", RRW);
        c.faults = 1, c.kinds = "c", c.cancels = false;
    }
    {
        Config &c = make("two readers, a writer, cancelled, one killed", RRW);
        c.faults = 1, c.kinds = "c", c.renews = false;
    }
    {
        Config &c = make("a reader that barges, a reader, a writer twice", RRW);
        c.fair = {false, true, true}, c.acquisitions = {1, 1, 2}, c.cancels = false, c.renews = false;
    }
    {
        Config &c = make("a writer that barges, two readers, one of them twice", WRR);
        c.fair = {false, true, true}, c.acquisitions = {1, 2, 1}, c.cancels = false, c.renews = false;
    }
    {
        Config &c = make("a reader that may not publish, two that may", RRW);
        c.mute = 0, c.renews = false, c.idleAtMost = 3;
    }
    {
        Config &c = make("a writer that may not publish, two readers that may", WRR);
        c.mute = 0, c.renews = false, c.idleAtMost = 3;
    }
    {
        Config &c = make("two readers, a writer, the server's clock is set", RRW);
        c.faults = 1, c.kinds = "+-", c.cancels = false, c.renews = false, c.idleAtMost = 2;
    }
    {
        Config &c = make("two readers, a writer, released by force", RRW);
        c.forced = 1, c.cancels = false, c.renews = false;
    }
    {
        Config &c = make("a reader, a writer, another library, one killed", RWW);
        c.acquisitions = {1, 1, 0}, c.foreign = 1, c.faults = 1, c.kinds = "c", c.idleAtMost = 2;
    }
    {
        Config &c = make("a reader, a writer, a fault of any kind", RWW);
        c.acquisitions = {1, 1, 0}, c.faults = 1, c.kinds = "cfdsmw", c.idleAtMost = 2;
    }
    {
        // Nothing says that a writer which waits has died, until the reader behind it tries.
        Config &c = make("a reader and a writer in one client, another reader", RWR);
        c.client = {0, 0, 1}, c.faults = 1, c.kinds = "cd", c.cancels = false, c.renews = false, c.idleAtMost = 3;
    }
    {
        // The next reader is asked to try after 1 ms, which counts as a tick.
        Config &c = make("two readers, a writer, one reader in one call", RRW);
        c.sharersAtMost = 1, c.faults = 1, c.kinds = "c", c.cancels = false, c.renews = false, c.idleAtMost = 1;
    }
    {
        Config &c = make("two readers, a writer, by force, one in one call", RRW);
        c.sharersAtMost = 1, c.lease = {2, 2, 2}, c.forced = 1, c.cancels = false, c.renews = false, c.idleAtMost = 1;
    }
    const std::size_t first = all.size();
    {
        Config &c = make("a reader, a writer, each twice, slow", RWW);
        c.acquisitions = {2, 2, 0}, c.faults = 2, c.kinds = "w", c.idleAtMost = 2;
    }
    {
        Config &c = make("two readers, a writer, two slow steps", RRW);
        c.faults = 2, c.kinds = "w", c.cancels = false, c.renews = false, c.idleAtMost = 2;
    }
    {
        Config &c = make("two readers, a writer twice, cancelled", RRW);
        c.acquisitions = {1, 1, 2};
    }
    {
        Config &c = make("two readers, a writer, cancelled, one killed or stopped", RRW);
        c.faults = 1, c.kinds = "cf";
    }
    {
        Config &c = make("a reader, two writers, cancelled, one killed or stopped", RWW);
        c.faults = 1, c.kinds = "cf";
    }
    {
        Config &c = make("two readers, long leases, a writer, one stopped", RRW);
        c.lease = {6, 6, 6}, c.faults = 1, c.kinds = "f", c.cancels = false;
    }
    {
        Config &c = make("two readers in one client, a writer, slow", RRW);
        c.client = {0, 0, 1}, c.faults = 1, c.kinds = "cdw", c.cancels = false, c.renews = false, c.idleAtMost = 1;
    }
    {
        Config &c = make("a reader and a writer in one client, a writer, slow", RWW);
        c.client = {0, 0, 1}, c.faults = 1, c.kinds = "cdw", c.cancels = false, c.renews = false, c.idleAtMost = 1;
    }
    {
        Config &c = make("a reader and a writer in one client, a reader, stopped", RWR);
        c.client = {0, 0, 1}, c.faults = 1, c.kinds = "cfw", c.idleAtMost = 3;
    }
    {
        Config &c = make("two readers that barge, a writer, one killed or stopped", RRW);
        c.fair = {false, false, true}, c.faults = 1, c.kinds = "cf", c.cancels = false, c.renews = false;
        c.idleAtMost = 2;
    }
    {
        Config &c = make("a reader and a writer that barge, a reader, one stopped", RWR);
        c.fair = {false, false, true}, c.faults = 1, c.kinds = "cf", c.cancels = false, c.renews = false;
        c.idleAtMost = 2;
    }
    {
        Config &c = make("a reader that barges, a reader, a writer, one stopped", RRW);
        c.fair = {false, true, true}, c.faults = 1, c.kinds = "cf", c.renews = false, c.idleAtMost = 2;
    }
    {
        Config &c = make("a reader twice, a writer, the server's clock is set", RWW);
        c.acquisitions = {2, 1, 0}, c.faults = 2, c.kinds = "+-wf", c.cancels = false, c.renews = false;
        c.idleAtMost = 2;
    }
    {
        Config &c = make("two readers that renew, a writer, the clock is set", RRW);
        c.faults = 2, c.kinds = "+-c", c.cancels = false, c.idleAtMost = 3;
    }
    {
        Config &c = make("two readers, a writer, by force, one killed", RRW);
        c.forced = 1, c.faults = 1, c.kinds = "c", c.cancels = false, c.renews = false;
    }
    {
        Config &c = make("a reader, a writer, by force, one killed or stopped", RWW);
        c.acquisitions = {1, 1, 0}, c.forced = 1, c.faults = 1, c.kinds = "cf";
    }
    {
        Config &c = make("a reader, a writer, another library, one stopped", RWW);
        c.acquisitions = {1, 1, 0}, c.foreign = 1, c.faults = 1, c.kinds = "cf", c.idleAtMost = 2;
    }
    {
        Config &c = make("a reader, a writer, old connections live on", RWW);
        c.acquisitions = {1, 1, 0}, c.faults = 2, c.kinds = "cd", c.killsFormer = false;
    }
    {
        Config &c = make("a reader, a writer, two faults of any kind", RWW);
        c.acquisitions = {1, 1, 0}, c.faults = 2, c.kinds = "cfdsmw", c.idleAtMost = 2;
    }
    {
        Config &c = make("two readers, two faults of any kind", RRR);
        c.acquisitions = {1, 1, 0}, c.faults = 2, c.kinds = "cfdsmw", c.renews = false, c.idleAtMost = 2;
    }
    {
        Config &c = make("two readers, a writer, a fault of any kind", RRW);
        c.faults = 1, c.kinds = "cfdsmw", c.cancels = false, c.renews = false, c.idleAtMost = 2;
    }
    {
        Config &c = make("a reader twice, a writer, grants late and forged", RWW);
        c.acquisitions = {2, 1, 0}, c.faults = 2, c.kinds = "xrwf", c.cancels = false, c.renews = false;
        c.idleAtMost = 2;
    }
    {
        Config &c = make("a writer twice, a reader, grants late and forged", WRR);
        c.acquisitions = {2, 1, 0}, c.faults = 2, c.kinds = "xrwf", c.cancels = false, c.renews = false;
        c.idleAtMost = 2;
    }
    {
        Config &c = make("two readers, a writer, one reader in one call, killed", RRW);
        c.sharersAtMost = 1, c.faults = 1, c.kinds = "cf", c.renews = false, c.idleAtMost = 1;
    }
    std::for_each(all.begin() + std::ptrdiff_t(first), all.end(), [](Config &c) { c.thorough = true; });
    return all;
}

std::vector<Config> permitConfigurations()
{
    std::vector<Config> all;
    const auto make = [&all](const char *name, std::array<int, Machines> take) -> Config & {
        Config &c = add(&all, name);
        c.take = take;
        c.permits = 2;
        return c;
    };
    constexpr std::array<int, Machines> One{1, 1, 1}, Two{2, 1, 1}, Alone{1, 1, 0}, TwoAlone{2, 1, 0};
    make("three that take one of two permits, no fault", One);
    make("one that takes two permits, two that take one, no fault", Two);
    make("two that take a permit, one alone, no fault", Alone);
    make("one that takes two permits, one that takes one, one alone, no fault", TwoAlone);
    make("two that take a permit, a reader, no fault", Alone).reader = {false, false, true};
    make("one that takes a permit, a reader, one alone, no fault", {1, 0, 0}).reader = {false, true, false};
    {
        Config &c = make("one that takes two permits, twice, two that take one", Two);
        c.acquisitions = {2, 1, 1}, c.cancels = false, c.renews = false;
    }
    {
        Config &c = make("three that take permits, other leases, one killed", Two);
        c.lease = {3, 6, 4}, c.faults = 1, c.kinds = "c", c.cancels = false, c.renews = false;
    }
    {
        Config &c = make("two that take permits and renew, one alone, one killed", TwoAlone);
        c.faults = 1, c.kinds = "c", c.cancels = false;
    }
    {
        Config &c = make("three that take permits, cancelled, one killed", Two);
        c.faults = 1, c.kinds = "c", c.renews = false;
    }
    {
        Config &c = make("one that takes a permit and barges, two that wait", Two);
        c.fair = {true, false, true}, c.cancels = false, c.renews = false;
    }
    {
        Config &c = make("one that takes permits and may not publish, two that may", Two);
        c.mute = 0, c.renews = false, c.idleAtMost = 3;
    }
    {
        Config &c = make("three that take permits, the server's clock is set", Two);
        c.faults = 1, c.kinds = "+-", c.cancels = false, c.renews = false, c.idleAtMost = 2;
    }
    {
        Config &c = make("three that take permits, released by force", Two);
        c.forced = 1, c.cancels = false, c.renews = false;
    }
    {
        Config &c = make("two that take permits, one alone, released by force, one killed", TwoAlone);
        c.lease = {5, 2, 2}, c.forced = 1, c.faults = 1, c.kinds = "c", c.cancels = false, c.renews = false;
    }
    {
        Config &c = make("three that take a permit, the server says how many, more", One);
        c.permits = 1, c.serverSays = true, c.changes = 1, c.changesTo = "2", c.renews = false;
    }
    {
        Config &c = make("three that take permits, the server says how many, fewer", Two);
        c.serverSays = true, c.changes = 1, c.changesTo = "1", c.renews = false;
    }
    {
        Config &c = make("three that say two permits, the server's number changes", One);
        c.changes = 1, c.changesTo = "13", c.renews = false, c.cancels = false;
    }
    {
        Config &c = make("three that take a permit, one in one call", One);
        c.sharersAtMost = 1, c.renews = false;
    }
    {
        Config &c = make("three that take permits, a fault of any kind", Two);
        c.faults = 1, c.kinds = "cfdsmw", c.cancels = false, c.renews = false, c.idleAtMost = 2, c.thorough = true;
    }
    {
        Config &c = make("two that take permits, one alone, cancelled, one killed or stopped", TwoAlone);
        c.faults = 1, c.kinds = "cf", c.idleAtMost = 2, c.thorough = true;
    }
    return all;
}

/// The first client acquires two locks with one command.
std::vector<Config> twoLockConfigurations()
{
    std::vector<Config> all;
    const auto make = [&all](const char *name, std::array<Lock, Machines> lock) -> Config & {
        Config &c = add(&all, name);
        c.lock = lock;
        return c;
    };
    constexpr std::array<Lock, Machines> Alone{Both, First, Second}, Waiting{Both, First, First},
            Twice{Both, Both, Second}, Shared{Both, Second, Second};
    make("two locks together, each alone, no fault", Alone);
    {
        Config &c = make("two locks together twice, two that want the first, no fault", Waiting);
        c.acquisitions = {2, 1, 1}, c.cancels = false;
    }
    make("two locks together by two clients, one alone, no fault", Twice);
    make("two locks together as a reader of one, a reader, a writer, no fault", Shared).reader = {true, true, false};
    make("two locks together by two readers of one, a writer, no fault", Twice).reader = {true, true, false};
    {
        Config &c = make("two locks together, one alone, the other by a reader, one killed", Alone);
        c.reader = {false, false, true}, c.faults = 1, c.kinds = "c", c.cancels = false, c.renews = false;
    }
    {
        Config &c = make("two locks together, two that wait, one killed or cut off", Waiting);
        c.faults = 1, c.kinds = "cd", c.cancels = false, c.renews = false, c.idleAtMost = 1;
    }
    {
        Config &c = make("two locks together as a reader of one, one killed or cut off", Shared);
        c.reader = {true, true, false}, c.faults = 1, c.kinds = "cd", c.cancels = false, c.renews = false;
        c.idleAtMost = 1;
    }
    const std::size_t first = all.size();
    {
        Config &c = make("two locks together, each alone, one killed or stopped", Alone);
        c.faults = 1, c.kinds = "cf";
    }
    {
        Config &c = make("two locks together twice, each alone, a fault of any kind", Alone);
        c.acquisitions = {2, 1, 1}, c.faults = 1, c.kinds = "cfdsmw", c.cancels = false, c.renews = false;
        c.idleAtMost = 1;
    }
    {
        Config &c = make("two locks together, two that wait, a fault of any kind", Waiting);
        c.faults = 1, c.kinds = "cfdsmw", c.cancels = false, c.renews = false, c.idleAtMost = 1;
    }
    {
        Config &c = make("two locks together twice, one alone, two faults of any kind", Waiting);
        c.acquisitions = {2, 1, 0}, c.faults = 2, c.kinds = "cfdsmw", c.idleAtMost = 2;
    }
    {
        Config &c = make("two locks together as a reader of one, a fault of any kind", Shared);
        c.reader = {true, true, false}, c.faults = 1, c.kinds = "cfdsmw", c.cancels = false, c.renews = false;
        c.idleAtMost = 1;
    }
    std::for_each(all.begin() + std::ptrdiff_t(first), all.end(), [](Config &c) { c.thorough = true; });
    return all;
}

} // namespace

std::vector<Config> configurations()
{
    std::vector<Config> all;
    const auto make = [&all](const char *name) -> Config & { return add(&all, name); };
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
    const auto readers = readerConfigurations();
    all.insert(all.end(), readers.begin(), readers.end());
    const auto twoLocks = twoLockConfigurations();
    all.insert(all.end(), twoLocks.begin(), twoLocks.end());
    const auto permits = permitConfigurations();
    all.insert(all.end(), permits.begin(), permits.end());
    return all;
}

const std::vector<Mutation> &mutations()
{
    static const std::vector<Mutation> all{
            {"release without token check", "release", "elseif holder ~= token then", "elseif false then"},
            {"release at once without token check", "release", "if holders[i] == ARGV[2 + i] then", "if true then"},
            {"acquired at once though others wait", "acquire",
             "'[wsp]') and redis.pcall('EXISTS', unpack(KEYS, n + 1, 2 * n)) == 0", "'[wsp]')"},
            {"released at once though others wait", "release",
             "and redis.pcall('EXISTS', unpack(KEYS, n + 1, 2 * n)) == 0 then", "then"},
            {"a fencing token of a clock that was set back", "acquire", "and last < fence)", ")"},
            {"release that serves nobody", "release",
             "serve(key, queue, fenceKey, lease, caller, false, shared and membersOf(token))", "'free'"},
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
             "local receivers, err = tell(queue, client, message or hint)\n",
             "redis.call('DEL', key) local receivers, err = tell(queue, client, message or hint)\n"
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
             "        redis.call('PEXPIRE', queue, QUEUE_TTL)\n        return served", "        return served"},
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

const std::vector<Mutation> &readerMutations()
{
    static const std::vector<Mutation> all{
            {"readers whose leases have ended stay", "common", "while first and math.floor(ends)",
             "while false and math.floor(ends)"},
            {"a token of no reader counts as one", "common", "redis.call('ZSCORE', key, token) and token or true",
             "token or true"},
            {"a reader overtakes a writer that waits", "acquire", "if barge or first == nil",
             "if barge or shared or first == nil"},
            {"a reader acquires at once though others wait", "acquire",
             "'^[^w]*[sp][^w]*$') and redis.pcall('EXISTS', unpack(KEYS, n + 1, 2 * n)) == 0 then", "'[sp]') then"},
            {"a reader acquires at once beside one whose lease has ended", "acquire",
             "and tonumber(first[2]) > ms then", "then"},
            {"a reader that acquires at once does not prolong the key", "acquire",
             "redis.call('PEXPIREAT', key, ends)\n", "\n"},
            {"a reader acquires at once with the fencing token of a clock that was set back", "acquire",
             "and last < t) then\n        fence = t", ") then\n        fence = t"},
            {"a writer is served while readers hold the lock", "common", "local fits = not held or held == sharing",
             "local fits = served == 0 or held == sharing"},
            {"a writer is served together with the readers before it", "common",
             "local fits = not held or held == sharing", "local fits = not shared or held == sharing"},
            {"a writer acquires while readers hold the lock", "acquire", "if (holder == false or hasRoom)",
             "if (holder == false or shared)"},
            {"readers that are served get no new fencing token", "common",
             "pcall(shared == 'r' and readersFence or nextFence", "pcall(readersFence"},
            {"readers that acquire get no new fencing token", "acquire",
             "  if shared == 'r' then\n    fence, err = readersFence",
             "  if sharing == 'r' then\n    fence, err = readersFence"},
            {"a reader beside others gets a new fencing token", "acquire",
             "  if shared == 'r' then\n    fence, err = readersFence",
             "  if false then\n    fence, err = readersFence"},
            {"a reader that is served beside others gets a new fencing token", "common",
             "pcall(shared == 'r' and readersFence or nextFence", "pcall(nextFence"},
            {"each reader that is served gets a new fencing token", "common",
             "if isGrant and (drawn == nil or take) then", "if isGrant then"},
            {"a reader's claim gets a new fencing token", "acquire", "floor, shared)\n  end\n  local hasRoom",
             "floor)\n  end\n  local hasRoom"},
            {"a renewal revives a reader whose lease has ended", "renew", "if not ends or math.floor(ends) <= ms then",
             "if not ends then"},
            {"a renewal makes a reader", "renew", "if not ends or math.floor(ends) <= ms then", "if false then"},
            {"a renewal does not prolong the key of the readers", "renew",
             "  redis.call('PEXPIREAT', key, math.floor(last))\n", ""},
            {"an acquire does not prolong the key of the readers", "acquire",
             "    keepSharers(key)\n  else\n    redis.call('SET'", "  else\n    redis.call('SET'"},
            {"the key of readers that are served has no time to live", "common",
             "          keepSharers(key)\n        end\n        served", "        end\n        served"},
            {"the key of readers ends with the first lease", "common",
             "redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')", "redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')"},
            {"a reader's grant for longer than its lease", "common",
             "local err, slots = setLease(key, member, claim, permits, leaving)",
             "local err, slots = setLease(key, member, claim - 1500, permits, leaving)"},
            {"a reader's grant is published before its lease is set", "common",
             "local receivers, err = tell(queue, client, message or hint)\n",
             "redis.pcall('ZREM', key, member) local receivers, err = tell(queue, client, message or hint)\n"
             "      if kind == 'r' then setLease(key, member, claim) end\n"},
            {"a dead reader stays", "common", "        removeSharer(key, member)\n", ""},
            {"a reader's release at once deletes the key", "release", "redis.pcall('ZREM', KEYS[i], token) == 1",
             "redis.pcall('DEL', KEYS[i]) == 1"},
            {"a reader's release deletes the key", "release", "local err = removeSharer(key, token) -- first",
             "do return redis.call('DEL', key) end local err --"},
            {"a reader's release serves nobody", "release", "local outcome, member = serve(",
             "local outcome, member = shared and 'free' or serve("},
            {"the last reader stays when it is released", "release",
             "    local err = removeSharer(key, token)\n    if err then\n      return err\n    end\n  elseif",
             "  elseif"},
            {"the last reader stays when it is cancelled", "cancel", "    removeSharer(key, token)\n  elseif",
             "  elseif"},
            {"a reader leaves, and the writer is not sent the end of the last lease", "release",
             "    serve(key, queue, fenceKey, lease, caller, shared)\n    return 1\n", "    return 1\n"},
            {"a reader that leaves counts among those that stay", "release",
             "    local err = removeSharer(key, token) -- first: the waiters are sent the end of the last lease\n"
             "    if err then\n      return err\n    end\n"
             "    serve(key, queue, fenceKey, lease, caller, shared)\n",
             "    serve(key, queue, fenceKey, lease, caller, shared) removeSharer(key, token)\n"},
            {"a writer waits for a reader that has left", "acquire", "ttl = tonumber(keepSharers(key)) --", "--"},
            {"the cancel of a writer admits no readers", "cancel",
             "serve(key, queue, fenceKey, lease, caller, shared) -- those", "--"},
            {"a reader that enters admits none behind it", "acquire",
             "serve(key, queue, fenceKey, lease, caller, sharing) -- those behind it", ""},
            {"readers stay when the lock is released by force", "force_release", "'', false, shared and holders)",
             "'')"},
            {"readers that were served lose the lock when another is woken", "common",
             "return (message or served > 0) and 'served'", "return message and 'served'"},
            {"the readers behind those of one call are not woken", "common",
             "      standBy(queue, 1) -- its poll serves the next ones\n      return", "      return"},
    };
    return all;
}

const std::vector<Mutation> &permitMutations()
{
    static const std::vector<Mutation> all{
            {"one permit too many is given to a waiter", "common", "isTooMany or taken + take <= permits",
             "isTooMany or taken + take <= permits + 1"},
            {"one permit too many is acquired", "acquire", "redis.call('ZCARD', key) + number <= limit",
             "redis.call('ZCARD', key) + number <= limit + 1"},
            {"one permit too many is acquired at once", "acquire", "redis.call('ZCARD', key) < tonumber(permits)",
             "redis.call('ZCARD', key) <= tonumber(permits)"},
            {"those that are served together count as one", "common", "taken = take and taken + take",
             "taken = take and take"},
            {"those that have permits are not counted", "common", "taken = shared and redis.call('ZCARD', key) or 0",
             "taken = 0"},
            {"who takes two permits is recorded with one", "common", "for i = 2, permits or 1 do", "for i = 2, 1 do"},
            {"a renewal prolongs one of two permits", "renew", "permits = tonumber(permits or 1)", "permits = 1"},
            {"one of two permits is given back", "common", "redis.pcall('ZREM', key, unpack(members, first, last))",
             "redis.pcall('ZREM', key, members[1])"},
            {"those that are served together have one fencing token", "common",
             "if isGrant and (drawn == nil or take) then", "if isGrant and drawn == nil then"},
            {"permits have the fencing token of those beside them", "acquire",
             "  if shared == 'r' then\n    fence, err = readersFence",
             "  if shared then\n    fence, err = readersFence"},
            {"one is served alone beside permits", "common", "local fits = not held or held == sharing",
             "local fits = not held or held == sharing or not sharing"},
            {"a small one overtakes", "acquire", "if barge or first == nil or first == token then",
             "if barge or sharing == 'p' or first == nil or first == token then"},
            {"a waiter is sent the end of a lease that was given up", "common",
             "          if leaving then\n            removeMembers(key, leaving)\n          end\n", ""},
            {"a release of permits counts as the last", "release", "if shared and hasOthers(key, token) then",
             "if false then"},
            {"permits beside readers", "acquire", "elseif shared and sharing and shared ~= sharing then",
             "elseif false then"},
            {"another number of permits is accepted", "acquire", "or said > 0 and said ~= number or", "or"},
            {"who takes more than there are waits", "acquire", "or take > number then", "then"},
            {"more permits, and nobody is served", "set_permits", "if holder == false or shared == 'p' then",
             "if false then"},
            {"the slots of others are free", "slots", "for i = 2, #all, 2 do", "for i = 2, 0, 2 do"},
            {"the slots of those that leave are taken", "common", "drawn and fence, claim, permits, leaving)",
             "drawn and fence, claim, permits)"},
            {"two permits of one holder have the same slot", "slots", "    repeat\n", "    slot = 0\n    repeat\n"},
            {"a claim takes another slot", "slots", "if type(redis.pcall('ZSCORE', key, members[1])) == 'string' then",
             "if false then"},
            {"a slot that is not the lowest", "slots", "local slot = 0", "local slot = 1"},
            {"a renewal forgets the slot", "renew", "ms + lease + former % 1", "ms + lease"},
            {"a renewal forgets the second slot", "renew", "redis.call('ZSCORE', key, member) or 0",
             "i == 1 and ends or 0"},
            {"a grant does not say the slot", "common", "return proven(message, member, fence, claim, slots)",
             "return proven(message, member, fence, claim)"},
            {"an acquire does not say the slot", "acquire", "return fence .. slots", "return fence"},
            {"a slot prolongs the lease", "common", "while first and math.floor(ends)",
             "while first and tonumber(ends)"},
    };
    return all;
}

const std::vector<Mutation> &twoLockMutations()
{
    static const std::vector<Mutation> all{
            {"two locks are acquired together though others wait", "acquire", "fits = not head(KEYS[n + i])",
             "fits = true"},
            {"only the first of two locks is examined", "acquire", "together and n or 0", "together and 1 or 0"},
            {"only the last of two locks is examined", "acquire", "areFree = areFree and isFree[i]",
             "areFree = isFree[i]"},
            {"a free lock is acquired although the other is taken", "acquire", " or not areFree", ""},
            {"a lock is kept that was acquired before, and the other is taken", "acquire",
             "  if holder == token then -- it only waits", "  if holder == token and not together then"},
            {"a lock that was acquired before is renewed, and the other is taken", "acquire",
             "if holder == token and not onlyWaits then", "if holder == token then"},
            {"a lock is given back, and the next waiter is not notified", "acquire",
             "      standBy(queue, 1) -- somebody came earlier\n", ""},
            {"two locks that were acquired before are not acquired again", "acquire",
             "holder == false or holder == token or shared == 'r' and", "holder == false or shared == 'r' and"},
            {"two locks together, as a reader who overtakes a writer", "acquire", "if fits and not barge and head(",
             "if fits and not barge and not shared and head("},
            {"two locks together, as a writer beside readers", "acquire",
             "shared == 'r' and string.sub(token, 1, 1) == 'r'\n", "shared == 'r'\n"},
            {"two locks together, a reader's token as that of a writer", "acquire",
             "sharing = string.sub(ARGV[2 + i], 1, 1) == 'r' and 'r'", "sharing = false"},
            {"two locks together, a reader's token as that of a writer at once", "acquire", "not hasReader and", ""},
            {"two locks are acquired at once, and one is taken", "acquire",
             "not hasReader and redis.pcall('EXISTS', unpack(KEYS, 1, n)) == 0", "not hasReader"},
            {"dead waiters keep two free locks from being acquired", "acquire",
             "standBy(KEYS[n + i], math.max(1, redis.call('PTTL', KEYS[i])))", ""},
            {"a free lock is said to be taken", "acquire", "replies[i][2] = -2", ""},
    };
    return all;
}

const std::vector<BehaviourMutation> &behaviourMutations()
{
    static const std::vector<BehaviourMutation> all{
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
    return all;
}

} // namespace ProtocolModel
