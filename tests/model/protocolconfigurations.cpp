// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "protocolconfigurations.h"

namespace ProtocolModel {

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
            {"release that serves nobody", "release", "serve(key, queue, fenceKey, lease, caller)", "'free'"},
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
