-- SPDX-FileCopyrightText: 2026 The QDistLock developers
-- SPDX-License-Identifier: MIT

-- What the scripts that can hand a lock over share; included in each of them at build time.

-- Digits of µs; as text, since a number would have to be formatted for each lock.
local time
local function now()
  if not time then
    local t = redis.call('TIME')
    time = t[1] .. (#t[2] == 6 and t[2] or string.sub('00000' .. t[2], -6))
  end
  return time
end

-- max(last + 1, now in µs): rising without a clock that does, and rising without the counter while the
-- clock does. A counter that is not all digits counts as lost. An error is returned, not raised, and then nothing
-- was changed.
local function nextFence(key)
  local fence = now()
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

-- Clients that know no time to live write the end of their lease as the value: a Unix time in ms (13 digits) or in s
-- (10 digits). Returns the ms until then, below 0 once it has passed; nil if the value is no such deadline.
local function timeLeft(value)
  if (#value ~= 13 and #value ~= 10) or string.find(value, '%D') then
    return nil
  end
  local deadline = tonumber(value) * (#value == 10 and 1000 or 1)
  local left = deadline - math.floor(tonumber(now()) / 1000)
  return left <= STAMP_AHEAD and left >= -STAMP_BEHIND and left or nil
end

-- A token is <client>:<sequence>:<random bits>. In a queue it stands as it is where its owner wants the
-- lock handed over, and after a '*' where its owner only wants to be woken when it is free.
local function parse(member)
  return string.match(member, '^(%*?)(%x+):(%d+):%x+$')
end

local function head(queue)
  local members = redis.pcall('ZRANGE', queue, 0, 0)
  return not members.err and members[1] or nil
end

-- How many clients got the message; nil and an error if the user may not publish, which says nothing of
-- the waiter.
local function tell(client, message)
  local receivers = redis.pcall('PUBLISH', CHANNELS .. client, message)
  if type(receivers) == 'table' then
    return nil, receivers.err
  end
  return receivers
end

-- Tells the first waiter that lives to look by itself after so many ms, should nothing come before.
local function standBy(queue, ms)
  for _ = 1, SERVED_AT_MOST do
    local member = head(queue)
    if not member then
      return
    end
    local _, client, sequence = parse(member)
    if client and tell(client, 'next ' .. sequence .. ' ' .. ms) ~= 0 then
      return
    end
    redis.call('ZREM', queue, member)
  end
end

-- Hands a lock that nobody holds to the first waiter that lives. PUBLISH tells who does: whoever listens
-- to its channel. A waiter of the calling client lives, and learns of it by the script's reply.
-- Returns: 'free' nobody wanted it; 'served'; 'more' too many dead waiters for one call;
--          'woken' the first waiter only wanted to be woken, which was done
--          'own', member  a waiter of the caller is to have it (it has left the queue, nothing is set)
--          'mute', error  the user may not publish: the queue is as it was, and its waiters must look
local function serve(key, queue, lease, caller)
  for _ = 1, SERVED_AT_MOST do
    local member = head(queue)
    if not member then
      return 'free'
    end
    local wakeOnly, client, sequence = parse(member)
    local own = client == caller and wakeOnly == ''
    local receivers, err = 0, nil
    if client and not own then
      receivers, err = tell(client, 'grant ' .. sequence)
      if not receivers then
        return 'mute', err
      end
    end
    -- A write that no lack of memory forbids; after it none is refused to the script.
    redis.call('ZREM', queue, member)
    if own then
      return 'own', member
    elseif receivers > 0 then
      local claim = math.min(tonumber(lease), CLAIM_TTL)
      if wakeOnly == '' then
        redis.call('SET', key, member, 'PX', claim)
      end
      standBy(queue, claim)
      return wakeOnly == '' and 'served' or 'woken'
    end
  end
  return 'more'
end
