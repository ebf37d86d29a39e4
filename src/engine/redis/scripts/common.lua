-- SPDX-FileCopyrightText: 2026 The QDistLock developers
-- SPDX-License-Identifier: MIT

-- The functions that several scripts share; the build includes them in each of these.

-- The time in µs as digits: a number would have to be formatted for each lock.
local time
local function now()
  if not time then
    local t = redis.call('TIME')
    time = t[1] .. (#t[2] == 6 and t[2] or string.sub('00000' .. t[2], -6))
  end
  return time
end

-- Returns max(last + 1, now in µs): it rises even if the clock is set back or the counter is lost, unless both happen.
-- With a floor: max(last + 1, floor), see "With a quorum" in docs/protocol.md.
-- A counter with anything but digits counts as lost. On failure it returns nil and an error, and has changed nothing.
-- The short paths of acquire.lua and release.lua repeat this rule.
local function nextFence(key, floor)
  local fence = floor or now()
  local last = redis.pcall('SET', key, fence, 'PX', FENCE_TTL, 'GET')
  if type(last) == 'table' then
    return nil, last.err
  elseif not last or not string.find(last, '^%d+$') then
    return fence
  end
  local number = tonumber(last)
  if number < tonumber(fence) then
    return fence
  elseif number >= MAX_EXACT then
    redis.call('SET', key, last, 'PX', FENCE_TTL)
    return nil, 'ERR the fencing counter is out of range'
  end
  fence = string.format('%.0f', number + 1)
  redis.call('SET', key, fence, 'PX', FENCE_TTL)
  return fence
end

-- Clients that do not use a time to live write the end of their lease as the value: a Unix time in ms (13 digits) or in
-- s (10 digits). Returns the ms until that deadline, negative once it has passed; nil if the value is not a deadline.
-- However far ahead it is, it is respected: the holder counts on it.
local function timeLeft(value)
  if (#value ~= 13 and #value ~= 10) or string.find(value, '%D') then
    return nil
  end
  local deadline = tonumber(value) * (#value == 10 and 1000 or 1)
  local left = deadline - math.floor(tonumber(now()) / 1000)
  return left >= -STAMP_BEHIND and left or nil
end

-- A token is <client>:<sequence>:<random bits>. A member of a queue is a token whose owner wants the lock to be handed
-- over, or a '*' and a token whose owner only wants to be woken when the lock is free.
local function parse(member)
  return string.match(member, '^(%*?)(%x+):(%d+):%x+$')
end

local function head(queue)
  local members = redis.pcall('ZRANGE', queue, 0, 0)
  return not members.err and members[1] or nil
end

-- Returns the number of clients that received the message; nil and an error if the user may not publish, which does not
-- mean that the waiter is dead. For a cluster, the build replaces the channel by a sharded one in the slot of the queue;
-- a node before Redis 7.0 has none, and the waiter is subscribed to a plain one of the same name there.
local function tell(queue, client, message)
  local receivers = redis.pcall('PUBLISH', CHANNELS .. client, message)
  if type(receivers) == 'table' and string.find(receivers.err, 'nknown') then
    local channel = CHANNELS .. client .. ':' .. string.match(queue, '{[^}]+}')
    receivers = redis.pcall('PUBLISH', channel, message)
  end
  if type(receivers) == 'table' then
    return nil, receivers.err
  end
  return receivers
end

-- Asks the first living waiter to poll after this many ms, unless it is notified before.
local function standBy(queue, ms)
  for _ = 1, SERVED_AT_MOST do
    local member = head(queue)
    if not member then
      return
    end
    local _, client, sequence = parse(member)
    if client and tell(queue, client, 'next ' .. sequence .. ' ' .. ms) ~= 0 then
      return
    end
    redis.call('ZREM', queue, member)
  end
end

-- Makes a waiter the holder for `claim` ms from the time in its message. The message proves that whoever wrote it could
-- read the waiter's token; the waiter then holds the lock without asking. Without a fencing token, it must ask.
local function reserve(key, member, message, fence, claim)
  if not fence then
    redis.call('SET', key, member, 'PX', claim)
    return message
  end
  redis.call('SET', key, member, 'PXAT', string.sub(now(), 1, -4) + claim)
  local hold = fence .. ' ' .. now() .. ' ' .. claim
  return message .. ' ' .. hold .. ' ' .. redis.sha1hex(member .. ' ' .. hold)
end

-- Hands a lock that nobody holds to the first living waiter. A waiter is alive if its client has subscribed to its
-- channel, which PUBLISH returns. A waiter of the calling client is alive and is notified by the reply of the script.
-- The key is written before the message is published, so that no waiter believes what is not so.
-- Returns: 'free' nobody waits; 'served'; 'more' too many dead waiters for one call;
--          'woken' the first waiter only wanted to be woken, and was
--          'own', member  the lock must go to this waiter of the caller, which has left the queue; nothing else is done
--          'mute', error  the user may not publish: the queue is unchanged, and its waiters must poll
local function serve(key, queue, fenceKey, lease, caller)
  local claim = math.min(tonumber(lease), CLAIM_TTL)
  local drawn, fence
  for _ = 1, SERVED_AT_MOST do
    local first = redis.pcall('ZRANGE', queue, 0, 0, 'WITHSCORES')
    local member = not first.err and first[1]
    if not member then
      return 'free'
    end
    local wakeOnly, client, sequence = parse(member)
    -- Redis allows this write even when memory is short, and after it allows all further writes of the script.
    redis.call('ZREM', queue, member)
    if client == caller and wakeOnly == '' then
      return 'own', member
    elseif client then
      local message = 'grant ' .. sequence
      if wakeOnly == '' then
        if drawn == nil then
          drawn, fence = pcall(nextFence, fenceKey) -- the user may lack the right to read the time
        end
        message = reserve(key, member, message, drawn and fence, claim)
      end
      local receivers, err = tell(queue, client, message)
      if receivers and receivers > 0 then
        standBy(queue, claim)
        return wakeOnly == '' and 'served' or 'woken'
      elseif wakeOnly == '' then
        redis.call('DEL', key)
      end
      if not receivers then
        redis.call('ZADD', queue, first[2], member)
        redis.call('PEXPIRE', queue, QUEUE_TTL)
        return 'mute', err
      end
    end
  end
  return 'more'
end
