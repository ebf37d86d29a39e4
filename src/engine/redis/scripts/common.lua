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

-- A token is <client>:<sequence>:<random bits>, with an 'r' before it if it is a reader's. A member of a queue is a token
-- whose owner wants the lock to be handed over, or a '*' and a token whose owner only wants to be woken when the lock is
-- free.
-- Returns '', 'r', '*' or '*r'; client; sequence.
local function parse(member)
  return string.match(member, '^(%*?r?)(%x+):(%d+):%x+$')
end

-- The key of a lock that readers hold is a zset of their tokens; the scores are the ends of their leases, as Unix times
-- in ms. Returns the reader whose lease ends first, and when; nil if the key is something else.
local function firstReader(key)
  local first = redis.pcall('ZRANGE', key, 0, 0, 'WITHSCORES')
  if not first.err and first[1] and string.sub(first[1], 1, 1) == 'r' and parse(first[1]) then
    return first[1], first[2]
  end
end

-- Returns the holder's token, false if nobody holds the lock; whether readers hold it: then it is `token` if that is one
-- of them, and otherwise true. On failure: nil, false, an error. Readers whose leases have ended are removed.
local function holderOf(key, token)
  local holder = redis.pcall('GET', key)
  if type(holder) ~= 'table' then
    return holder, false
  end
  local first, ends = firstReader(key)
  if not first then
    return nil, false, holder.err
  end
  local ms = string.sub(now(), 1, -4)
  while first and tonumber(ends) <= tonumber(ms) do
    redis.call('ZREM', key, first)
    first, ends = firstReader(key)
  end
  if not first then
    return false, false
  end
  return token and redis.call('ZSCORE', key, token) and token or true, true
end

-- Sets the end of a reader's lease; returns an error if that fails.
local function setLease(key, token, lease)
  local added = redis.pcall('ZADD', key, string.format('%.0f', string.sub(now(), 1, -4) + lease), token)
  return type(added) == 'table' and added.err or nil
end

-- Lets the key live until the last lease of its readers ends, and returns the ms until then.
local function keepReaders(key)
  local ends = redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')[2]
  local ms = string.format('%.0f', ends - string.sub(now(), 1, -4))
  redis.call('PEXPIRE', key, ms)
  return ms
end

-- Readers that hold the lock at the same time have one fencing token.
local function readersFence(key)
  local last = redis.pcall('GET', key)
  if type(last) == 'string' and string.find(last, '^%d+$') then
    return last
  end
  return nextFence(key)
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

-- Appends to a message what proves that the waiter holds the lock for `claim` ms from the time in it: whoever wrote it
-- could read the waiter's token. The waiter then holds the lock without asking.
local function proven(message, member, fence, claim)
  local hold = fence .. ' ' .. now() .. ' ' .. claim
  return message .. ' ' .. hold .. ' ' .. redis.sha1hex(member .. ' ' .. hold)
end

-- Makes a waiter the holder for `claim` ms. Without a fencing token, it must ask.
local function reserve(key, member, message, fence, claim)
  if not fence then
    redis.call('SET', key, member, 'PX', claim)
    return message
  end
  redis.call('SET', key, member, 'PXAT', string.sub(now(), 1, -4) + claim)
  return proven(message, member, fence, claim)
end

-- The same for a reader, beside those that hold the lock already. A key with the token of a writer is given up. If it
-- returns no message, nothing is reserved.
local function admit(key, member, message, fence, claim)
  if not fence then
    return nil
  end
  if setLease(key, member, claim) then
    redis.call('DEL', key)
    if setLease(key, member, claim) then -- a node of a cluster creates no key of a slot that it is moving away
      return nil
    end
  end
  return proven(message, member, fence, claim)
end

-- Leaves the lock to its holder for `keep` ms. Returns 1, or an error.
local function leaveFor(key, queue, token, keep, isShared)
  local err
  if isShared then
    redis.pcall('ZREM', key, '') -- Redis allows this write even when memory is short, and after it the next one, too
    err = setLease(key, token, keep)
    keep = keepReaders(key)
  else
    local done = redis.pcall('PEXPIRE', key, keep)
    err = type(done) == 'table' and done.err
  end
  standBy(queue, keep)
  return err or 1
end

-- Hands a lock that nobody holds to the first living waiter; if that is a reader, to all readers that follow it, too. A
-- lock that readers hold (isShared) is handed to the readers that come first. A waiter is alive if its client has
-- subscribed to its channel, which PUBLISH returns. A writer of the calling client is alive and is notified by the reply
-- of the script. The key is written before the message is published, so that no waiter believes what is not so.
-- Returns: 'free' nobody waits; 'served' somebody holds the lock now; 'more' too many dead waiters for one call;
--          'shared' readers hold the lock, and nobody else can be served now
--          'woken' the first waiter only wanted to be woken, and was
--          'own', member  the lock must go to this waiter of the caller, which has left the queue; nothing else is done
--          'mute', error  the user may not publish: the queue is unchanged, and its waiters must poll
local function serve(key, queue, fenceKey, lease, caller, isShared)
  local claim = math.min(tonumber(lease), CLAIM_TTL)
  local drawn, fence
  local readers = 0 -- served in this call
  for _ = 1, SERVED_AT_MOST do
    local first = redis.pcall('ZRANGE', queue, 0, 0, 'WITHSCORES')
    local member = not first.err and first[1]
    if not member then
      return readers > 0 and 'served' or 'free'
    end
    local kind, client, sequence = parse(member)
    local isReader = kind == 'r' or kind == '*r'
    if client and not isReader and (isShared or readers > 0) then
      if tell(queue, client, 'next ' .. sequence .. ' ' .. keepReaders(key)) ~= 0 then
        return readers > 0 and 'served' or 'shared'
      end
      client = nil -- it is dead
    elseif readers == READERS_AT_MOST then
      standBy(queue, 1) -- its poll serves the next ones
      return 'served'
    end
    -- Redis allows this write even when memory is short, and after it allows all further writes of the script.
    redis.call('ZREM', queue, member)
    if client == caller and kind == '' then
      return 'own', member
    elseif client then
      local hint = 'grant ' .. sequence
      local message
      if drawn == nil and (kind == '' or kind == 'r') then
        -- The user may lack the right to read the time.
        drawn, fence = pcall(isShared and readersFence or nextFence, fenceKey)
      end
      if kind == '' then
        message = reserve(key, member, hint, drawn and fence, claim)
      elseif kind == 'r' then
        message = admit(key, member, hint, drawn and fence, claim)
      end
      local receivers, err = tell(queue, client, message or hint)
      if receivers and receivers > 0 then
        if kind ~= 'r' or not message then
          -- Behind a reader that was woken, other readers may enter at once.
          standBy(queue, isReader and (isShared or readers > 0) and 1 or claim)
          return (message or readers > 0) and 'served' or 'woken'
        end
        if readers == 0 then
          keepReaders(key)
        end
        readers = readers + 1
      elseif kind == 'r' then
        redis.pcall('ZREM', key, member)
      elseif kind == '' then
        redis.call('DEL', key)
      end
      if not receivers then
        redis.call('ZADD', queue, first[2], member)
        redis.call('PEXPIRE', queue, QUEUE_TTL)
        return readers > 0 and 'served' or 'mute', err
      end
    end
  end
  if isShared or readers > 0 then -- the caller must not free the lock, nor try again
    standBy(queue, 1) -- its poll serves the next ones
    return readers > 0 and 'served' or 'shared'
  end
  return 'more'
end
