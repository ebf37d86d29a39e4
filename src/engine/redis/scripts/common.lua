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

-- A token is <client>:<sequence>:<random bits>. It begins with an 'r' if it is a reader's. If it takes permits of a
-- semaphore, it begins with a 'p', the number of permits, an '@' if it wants slots, and a '/'. A member of a queue is a
-- token whose owner wants the lock to be handed over, or a '*' and a token whose owner only wants to be woken when the
-- lock is free.
-- Returns '', 'r' or 'p', or a '*' and one of these; client; sequence; the number of permits.
local function parse(member)
  local kind, client, sequence = string.match(member, '^(%*?r?)(%x+):(%d+):%x+$')
  if kind then
    return kind, client, sequence
  end
  local permits
  kind, permits, client, sequence = string.match(member, '^(%*?p)([1-9]%d*)@?/(%x+):(%d+):%x+$')
  return kind, client, sequence, tonumber(permits)
end

-- Several hold a lock together as readers or with permits: its key is then a zset of their tokens; the scores are the
-- ends of their leases, as Unix times in ms. A token that takes several permits has a member for each of them: itself,
-- itself and '#2', and so on. Those of a token that wants slots have one each, in the fraction of the score, see
-- SLOT_PARTS: a number from 0 that no other member has.
local function membersOf(token)
  local members = {token}
  local _, _, _, permits = parse(token)
  for i = 2, permits or 1 do
    members[i] = token .. '#' .. i
  end
  return members
end

-- Returns the member of such a key whose lease ends first; when; 'r' or 'p'. Nil if the key is something else.
local function firstSharer(key)
  local first = redis.pcall('ZRANGE', key, 0, 0, 'WITHSCORES')
  local kind = not first.err and first[1] and parse(string.match(first[1], '^[^#]*'))
  if kind == 'r' or kind == 'p' then
    return first[1], first[2], kind
  end
end

-- Returns the holder's token, false if nobody holds the lock; and 'r' if readers hold it, 'p' if it is holders of
-- permits, otherwise false: then the first is `token` if that is one of them, and otherwise true. On failure: nil,
-- false, an error. Those whose leases have ended are removed.
local function holderOf(key, token)
  local holder = redis.pcall('GET', key)
  if type(holder) ~= 'table' then
    return holder, false
  end
  local first, ends, kind = firstSharer(key)
  if not first then
    return nil, false, holder.err
  end
  local ms = string.sub(now(), 1, -4)
  while first and math.floor(ends) <= tonumber(ms) do
    redis.call('ZREM', key, first)
    first, ends, kind = firstSharer(key)
  end
  if not first then
    return false, false
  end
  return token and redis.call('ZSCORE', key, token) and token or true, kind
end

--#include slots.lua

-- The key with the number of permits of a semaphore, by the key of its queue.
local function permitsKey(queue)
  return (string.gsub(queue, 'queue$', 'permits'))
end

-- Returns that number, 0 if there is none; on failure nil and an error.
local function permitsOf(queue)
  local number = redis.pcall('GET', permitsKey(queue))
  if type(number) == 'table' then
    return nil, number.err
  end
  return number and string.find(number, '^[1-9]%d?%d?%d?%d?$') and tonumber(number) or 0
end

-- Sets the end of the lease of a token that shares the lock. Returns an error if that fails; otherwise nil and the
-- token's slots, as a text with a ' ' before it; '' if it has none. `permits`, the number of the semaphore, and `leaving`
-- are for partsOf(), if the token may be new.
local function setLease(key, token, lease, permits, leaving)
  local ends = string.sub(now(), 1, -4) + lease
  local members = membersOf(token)
  local parts = string.find(token, '@', 1, true) and partsOf(key, members, permits, leaving) or {}
  local scored, slots = {}, {}
  for i, member in ipairs(members) do
    slots[#slots + 1] = parts[i] and parts[i] * SLOT_PARTS - 1
    scored[#scored + 1] = string.format('%.17g', ends + (parts[i] or 0))
    scored[#scored + 1] = member
    if #scored == 2 * MEMBERS_AT_MOST or i == #members then
      local added = redis.pcall('ZADD', key, unpack(scored))
      if type(added) == 'table' then
        return added.err
      end
      scored = {}
    end
  end
  return nil, #slots > 0 and ' ' .. table.concat(slots, ',') or ''
end

-- Removes members of such a key, unless it is something else now. Returns an error if that fails.
local function removeMembers(key, members)
  for first = 1, #members, MEMBERS_AT_MOST do
    local last = math.min(#members, first + MEMBERS_AT_MOST - 1)
    local removed = redis.pcall('ZREM', key, unpack(members, first, last))
    if type(removed) == 'table' and not string.find(removed.err, '^WRONGTYPE') then
      return removed.err
    end
  end
end

local function removeSharer(key, token)
  return removeMembers(key, membersOf(token))
end

-- Whether others share the lock with this token.
local function hasOthers(key, token)
  for _, member in ipairs(redis.call('ZRANGE', key, 0, #membersOf(token))) do -- one more than it may have
    if string.match(member, '^[^#]*') ~= token then
      return true
    end
  end
  return false
end

-- Lets the key live until the last lease of those who share it ends, and returns the ms until then. The time is absolute:
-- relative to a clock that is set back meanwhile, the key would end before the script does, by whose begin Redis judges.
local function keepSharers(key)
  local ends = redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')[2]
  if not ends then
    return '0' -- the clock was set forward meanwhile
  end
  ends = math.floor(ends) -- without the slot
  redis.call('PEXPIREAT', key, ends)
  return string.format('%.0f', math.max(0, ends - string.sub(now(), 1, -4)))
end

-- The ms until the first lease of those who share the key ends.
local function firstEnd(key)
  local _, ends = firstSharer(key)
  return ends and string.format('%.0f', math.max(0, math.floor(ends) - string.sub(now(), 1, -4))) or '0'
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
-- could read the waiter's token. The waiter then holds the lock without asking. `slots` as setLease() returns them.
local function proven(message, member, fence, claim, slots)
  local hold = fence .. ' ' .. now() .. ' ' .. claim .. (slots or '')
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

-- The same for a token that shares the lock, beside those that hold it already. A key with the token of an exclusive
-- holder is given up. If it returns no message, nothing is reserved.
local function admit(key, member, message, fence, claim, permits, leaving)
  if not fence then
    return nil
  end
  local err, slots = setLease(key, member, claim, permits, leaving)
  if err and string.find(err, '^WRONGTYPE') then
    redis.call('DEL', key)
    -- A node of a cluster creates no key of a slot that it is moving away.
    err, slots = setLease(key, member, claim, permits)
  end
  if err then
    return nil
  end
  return proven(message, member, fence, claim, slots)
end

-- Leaves the lock to its holder for `keep` ms. Returns 1, or an error.
local function leaveFor(key, queue, token, keep, shared)
  local err
  if shared then
    redis.pcall('ZREM', key, '') -- Redis allows this write even when memory is short, and after it the next one, too
    err = setLease(key, token, keep)
    keep = keepSharers(key)
  else
    local done = redis.pcall('PEXPIRE', key, keep)
    err = type(done) == 'table' and done.err
  end
  standBy(queue, shared == 'p' and firstEnd(key) or keep)
  return err or 1
end

-- Hands a lock that nobody holds to the first living waiter; if that can share it, also to those that follow it and can
-- share it with it: readers, or holders of permits as long as there are enough. A lock that is shared already ('r' or
-- 'p', as holderOf() returns it) is handed in the same way to those that come first. A waiter is alive if its client has
-- subscribed to its channel, which PUBLISH returns. A waiter of the calling client that wants the lock alone is alive
-- and is notified by the reply of the script. The key is written before the message is published, so that no waiter
-- believes what is not so. `leaving` are the members, if any, of all who share the lock and give it up, or lose it: they
-- are removed as soon as another one has entered, so that no waiter is sent the end of a lease that was given up. That one
-- may have got their slots.
-- Returns: 'free' nobody waits; 'served' somebody holds the lock now; 'more' too many dead waiters for one call;
--          'shared' others share the lock, and nobody else can be served now
--          'woken' the first waiter only wanted to be woken, and was
--          'own', member  the lock must go to this waiter of the caller, which has left the queue; nothing else is done
--          'mute', error  the user may not publish: the queue is unchanged, and its waiters must poll
local function serve(key, queue, fenceKey, lease, caller, shared, leaving)
  local claim = math.min(tonumber(lease), CLAIM_TTL)
  local drawn, fence
  local served = 0 -- of those that share the lock, in this call
  local held = shared
  local permits, taken
  for _ = 1, SERVED_AT_MOST do
    local first = redis.pcall('ZRANGE', queue, 0, 0, 'WITHSCORES')
    local member = not first.err and first[1]
    if not member then
      return served > 0 and 'served' or 'free'
    end
    local kind, client, sequence, take = parse(member)
    local sharing = kind and string.match(kind, '[rp]')
    local fits = not held or held == sharing
    local isTooMany = false -- its own attempt meets the error and reports it
    if fits and take then
      if not permits then
        permits = permitsOf(queue) or 0
        taken = shared and redis.call('ZCARD', key) or 0
      end
      isTooMany = take > permits
      fits = isTooMany or taken + take <= permits
    end
    if client and not fits then
      local ms = take and held == 'p' and firstEnd(key) or keepSharers(key)
      if tell(queue, client, 'next ' .. sequence .. ' ' .. ms) ~= 0 then
        return served > 0 and 'served' or 'shared'
      end
      client = nil -- it is dead
    elseif served == SHARERS_AT_MOST then
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
      local isGrant = string.sub(kind, 1, 1) ~= '*' and not isTooMany
      if isGrant and (drawn == nil or take) then -- readers share one, permits do not
        -- The user may lack the right to read the time.
        drawn, fence = pcall(shared == 'r' and readersFence or nextFence, fenceKey)
      end
      if isGrant and sharing then
        message = admit(key, member, hint, drawn and fence, claim, permits, leaving)
      elseif isGrant then
        message = reserve(key, member, hint, drawn and fence, claim)
      end
      local receivers, err = tell(queue, client, message or hint)
      if receivers and receivers > 0 then
        if not sharing or not message then
          -- Behind one that was woken and shares the lock, others may enter at once.
          standBy(queue, sharing and (held or isTooMany) and 1 or claim)
          return (message or served > 0) and 'served' or 'woken'
        end
        if served == 0 then
          if leaving then
            removeMembers(key, leaving)
          end
          keepSharers(key)
        end
        served = served + 1
        held = sharing
        taken = take and taken + take
      elseif isGrant and sharing then
        removeSharer(key, member)
      elseif isGrant then
        redis.call('DEL', key)
      end
      if not receivers then
        redis.call('ZADD', queue, first[2], member)
        redis.call('PEXPIRE', queue, QUEUE_TTL)
        return served > 0 and 'served' or 'mute', err
      end
    end
  end
  if held then -- the caller must not free the lock, nor try again
    standBy(queue, 1) -- its poll serves the next ones
    return served > 0 and 'served' or 'shared'
  end
  return 'more'
end
