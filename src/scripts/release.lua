-- SPDX-FileCopyrightText: 2026 The QDistLock developers
-- SPDX-License-Identifier: MIT

-- Releases any number of held locks, and hands each to its first waiter in the same step: there is no
-- moment in which it is free while somebody waits.
--
-- KEYS:                 of all locks, in order: their keys, then their queues
-- ARGV, for all locks:  lease in ms for a successor; ms for which the key is to stay (0 = not)
-- then of all locks, in order: their tokens
-- Reply, for each lock: 1 the key held the token and is given back
--                       {token, fencing token}  the same, and it went to the caller's own waiter with
--                           that token, for the lease given
--                       3 as 1, but the caller should send cancel: many dead waiters are left
--                       0 there is no key; 2 it holds something else; an error's text

--#include constants.lua

local n = #KEYS / 2
local replies = {}
local untold -- ms after which the next waiter is to look; it could not be told so

-- The usual cases, before any function is made: making those below costs more than this.
if n == 1 then
  -- It holds its token, and nobody waits or another client's waiter does that lives.
  local key, queue, token = KEYS[1], KEYS[2], ARGV[3]
  if ARGV[2] == '0' and redis.pcall('GET', key) == token then
    if redis.pcall('EXISTS', queue) == 0 then
      redis.call('DEL', key)
      return {1}
    end
    local waiters = redis.pcall('ZRANGE', queue, 0, 1)
    local member = waiters[1]
    local client, sequence = string.match(member or '', '^(%x+):(%d+):%x+$')
    if client and string.find(token, client .. ':', 1, true) ~= 1 then
      local claim = math.min(tonumber(ARGV[1]), CLAIM_TTL)
      -- Redis sends first what was published last, and the one that is served is in more of a hurry.
      if waiters[2] then
        local nextClient, nextSequence = string.match(waiters[2], '^%*?(%x+):(%d+):%x+$')
        if not nextClient
            or redis.pcall('PUBLISH', CHANNELS .. nextClient, 'next ' .. nextSequence .. ' ' .. claim) == 0 then
          untold = claim
        end
      end
      local receivers = redis.pcall('PUBLISH', CHANNELS .. client, 'grant ' .. sequence)
      if type(receivers) == 'number' and receivers > 0 then
        redis.call('ZREM', queue, member)
        redis.call('SET', key, member, 'PX', claim)
        replies[1] = 1
        if not untold then
          return replies
        end
      end
    end
  end
else
  local holders = redis.pcall('MGET', unpack(KEYS, 1, n))
  if not holders.err and ARGV[2] == '0' and redis.pcall('EXISTS', unpack(KEYS, n + 1, 2 * n)) == 0 then
    local free = {}
    for i = 1, n do
      if holders[i] == ARGV[2 + i] then
        free[#free + 1] = KEYS[i]
        replies[i] = 1
      end
    end
    if free[1] then
      redis.call('DEL', unpack(free))
    end
    if #free == n then
      return replies
    end
  end
end

--#include common.lua

local lease, keep = ARGV[1], ARGV[2]
local caller = string.match(ARGV[3], '^%x*')

if replies[1] and untold then
  standBy(KEYS[2], untold)
end

-- The fence is needed where a waiter of the caller is served, and only then. It has the slot of the queue.
local function fenceOf(queue)
  return string.sub(queue, 1, -#'queue' - 1) .. 'fence'
end

local function release(key, queue, token)
  local holder = redis.pcall('GET', key)
  if holder == false then
    return 0
  elseif type(holder) == 'table' and not string.find(holder.err, '^WRONGTYPE') then
    return holder.err
  elseif holder ~= token then
    return 2
  end
  if keep ~= '0' then
    local done = redis.pcall('PEXPIRE', key, keep)
    standBy(queue, keep)
    return type(done) == 'table' and done.err or done
  end
  local outcome, member = serve(key, queue, lease, caller)
  if outcome == 'own' then
    local fence, err = nextFence(fenceOf(queue))
    if fence then
      redis.call('SET', key, member, 'PX', lease)
      return {member, fence}
    end
    redis.call('DEL', key)
    local _, _, sequence = parse(member)
    tell(caller, 'grant ' .. sequence) -- its own attempt will meet the error and tell it
  elseif outcome ~= 'served' then
    redis.call('DEL', key)
  end
  return outcome == 'more' and 3 or 1
end

for i = 1, n do
  if not replies[i] then
    replies[i] = release(KEYS[i], KEYS[n + i], ARGV[2 + i])
  end
end
return replies
