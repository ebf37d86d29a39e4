-- SPDX-FileCopyrightText: 2026 The QDistLock developers
-- SPDX-License-Identifier: MIT

-- Releases any number of held locks, and hands each to its first waiter in the same step: it is never free while
-- somebody waits.
--
-- KEYS:                 of all locks, in order: their keys, then their queues, then their fences; if the tokens take
--                       permits, then the keys with their numbers of permits
-- ARGV, for all locks:  lease in ms for a successor; ms for which the key must remain (0 = none)
-- then of all locks, in order: their tokens, all of one kind; then the caller's client id, if another client has made
-- these tokens
-- Reply, for each lock: 1 the key held the token and is given back
--                       {token, fencing token}  the same, and the lock has passed to the caller's own waiter with
--                           that token, for the lease
--                       3 as 1, but the caller should send cancel: many dead waiters are left
--                       0 there is no key; 2 it holds something else; the text of an error

--#include constants.lua

local n = #KEYS / (string.sub(ARGV[3], 1, 1) == 'p' and 4 or 3)
local replies = {}

-- The usual cases. They come before the functions below, because creating these costs more than this.
if ARGV[2] == '0' and redis.pcall('EXISTS', unpack(KEYS, n + 1, 2 * n)) == 0 then -- nobody waits
  local free = {}
  if string.find(ARGV[3], '^[rp]') then
    for i = 1, n do
      local token = ARGV[2 + i]
      local hasOneMember = string.sub(token, 1, 1) == 'r' or string.find(token, '^p1@?/')
      if hasOneMember and redis.pcall('ZREM', KEYS[i], token) == 1 then
        free[#free + 1] = KEYS[i]
        replies[i] = 1
      end
    end
  else
    local holders = redis.pcall('MGET', unpack(KEYS, 1, n))
    for i = 1, n do
      if holders[i] == ARGV[2 + i] then
        free[#free + 1] = KEYS[i]
        replies[i] = 1
      end
    end
    if free[1] then
      redis.call('DEL', unpack(free))
    end
  end
  if #free == n then
    return replies
  end
elseif n == 1 and ARGV[2] == '0' and redis.pcall('GET', KEYS[1]) == ARGV[3] then -- others wait for one lock
  local key, queue, fence, token = KEYS[1], KEYS[2], KEYS[3], ARGV[3]
  local claim = math.min(tonumber(ARGV[1]), CLAIM_TTL)
  local waiters = redis.pcall('ZRANGE', queue, 0, 1, 'WITHSCORES')
  local member, client, sequence = string.match(waiters[1] or '', '^((%x+):(%d+):%x+)$')
  local nextClient, nextSequence = string.match(waiters[3] or '', '^%*?(%x+):(%d+):%x+$')
  local t = redis.pcall('TIME')
  if client and t[1] and string.find(token, client .. ':', 1, true) ~= 1 then
    t = t[1] .. (#t[2] == 6 and t[2] or string.sub('00000' .. t[2], -6))
    local last = redis.pcall('SET', fence, t, 'PX', FENCE_TTL, 'GET')
    -- Redis sends the last message first, and the waiter that is served must not wait for that of the next one.
    if (not last or (#last == #t and last < t)) and (not waiters[3] or nextClient
        and redis.pcall('PUBLISH', CHANNELS .. nextClient, 'next ' .. nextSequence .. ' ' .. claim) ~= 0) then
      redis.call('ZREM', queue, member)
      redis.call('SET', key, member, 'PXAT', string.sub(t, 1, -4) + claim)
      local hold = t .. ' ' .. t .. ' ' .. claim
      local receivers = redis.pcall('PUBLISH', CHANNELS .. client,
        'grant ' .. sequence .. ' ' .. hold .. ' ' .. redis.sha1hex(member .. ' ' .. hold))
      if type(receivers) == 'number' and receivers > 0 then
        return {1}
      end
      redis.call('SET', key, token, 'PX', claim) -- the code below finds everything as it was
      redis.call('ZADD', queue, waiters[2], member)
    elseif type(last) == 'string' then
      redis.call('SET', fence, last, 'PX', FENCE_TTL)
    end
  end
end

--#include common.lua

local lease, keep = ARGV[1], ARGV[2]
local caller = ARGV[3 + n] or string.match(ARGV[3], '(%x+):')

local function release(key, queue, fenceKey, token)
  local holder, shared, wrong = holderOf(key, token)
  if holder == false then
    return 0
  elseif holder == nil and not string.find(wrong, '^WRONGTYPE') then
    return wrong
  elseif holder ~= token then
    return shared == string.sub(token, 1, 1) and 0 or 2
  end
  if keep ~= '0' then
    return leaveFor(key, queue, token, keep, shared)
  end
  if shared and hasOthers(key, token) then
    local err = removeSharer(key, token) -- first: the waiters are sent the end of the last lease
    if err then
      return err
    end
    serve(key, queue, fenceKey, lease, caller, shared)
    return 1
  end
  local outcome, member = serve(key, queue, fenceKey, lease, caller, false, shared and membersOf(token))
  if shared and outcome ~= 'own' then
    local err = removeSharer(key, token)
    if err then
      return err
    end
  elseif outcome == 'own' then
    local drawn, fence = pcall(nextFence, fenceKey) -- the user may lack the right to read the time
    if drawn and fence then
      redis.call('SET', key, member, 'PX', lease)
      return {member, fence}
    end
    redis.call('DEL', key)
    local _, _, sequence = parse(member)
    tell(queue, caller, 'grant ' .. sequence) -- its own attempt meets the same error and reports it
  elseif outcome ~= 'served' then
    redis.call('DEL', key)
  end
  return outcome == 'more' and 3 or 1
end

for i = 1, n do
  if not replies[i] then
    replies[i] = release(KEYS[i], KEYS[n + i], KEYS[2 * n + i], ARGV[2 + i])
  end
end
return replies
