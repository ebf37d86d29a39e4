-- SPDX-FileCopyrightText: 2026 The QDistLock developers
-- SPDX-License-Identifier: MIT

-- Acquires any number of locks, or claims those that are reserved for a token; each independently, in order.
--
-- KEYS:                 of all locks, in order: their keys, then their queues, then their fences; with p, then the keys
--                       with their numbers of permits
-- ARGV, for all locks:  lease in ms; flags
--   flags: any of  r  a key without a time to live gets the lease
--                  q  join the queue if the lock is taken
--                  b  barge: acquire a free lock although others wait; in the queue, only wait to be woken
--                  a  there is an arrival for each lock
--                  f  there is a floor for each lock: its fencing token is max(last + 1, floor), whatever the time
--                  w  only wait, with q: if the key holds the token, it is given back, and nobody is served
--                  s  shared: the tokens are those of readers
--                  t  together, without q, s and p: if one of the locks is taken, or others wait for it, none is acquired;
--                     some of the tokens may be those of readers
--                  p and a number  the tokens take permits; the semaphore has this number of them; 0 = the server's
--                     number counts
-- then of all locks, in order: their tokens; then, with a, their arrivals, which are their former places in the queues;
-- then, with f, their floors
-- Reply, for each lock: a fencing token (digits)  acquired, for a whole lease from now; behind it, if the token has
--                           slots, a space and their numbers, separated by commas
--                       {0, ms to live, 1 = the holder is one of ours, rank or -1, arrival, server time in µs}
--                           taken; -1 ms = without end; -2 ms, with t = this one is free; rank 0 = next
--                           (if the value is a deadline: the ms until the lock may be taken over)
--                       the text of an error  nothing was changed
--                           PERMITS n: the server has n permits for this name, which does not fit; 0 = it has no number
--                           OTHERKIND readers, OTHERKIND permits: these hold the lock, and the token is of the other kind
--
-- A token that already holds the lock gets a new lease and a new fencing token. In this way it claims a lock that is
-- reserved for it, and an acquire can be sent again after a lost reply.
-- Everything that can fail is checked before the first write: scripts have no rollback.

--#include constants.lua

local permits = string.match(ARGV[2], 'p(%d+)')
local n = #KEYS / (permits and 4 or 3)
local replies = {}
local answered = 0
local floors = string.find(ARGV[2], 'f', 1, true) and #ARGV - n -- they come behind this one
local together = string.find(ARGV[2], 't', 1, true)
local isUsual = not string.find(ARGV[2], '[wsp]') and redis.pcall('EXISTS', unpack(KEYS, n + 1, 2 * n)) == 0
if isUsual and together then
  local hasReader = string.find(table.concat(ARGV, ' ', 3, n + 2), 'r', 1, true)
  isUsual = not hasReader and redis.pcall('EXISTS', unpack(KEYS, 1, n)) == 0
end
-- The usual case: nobody holds the lock, and nobody waits. It comes before the functions below, because creating them
-- costs more than this.
if isUsual then
  local t = redis.call('TIME') -- may be forbidden: not after the key is written
  t = t[1] .. (#t[2] == 6 and t[2] or string.sub('00000' .. t[2], -6))
  for i = 1, n do
    local set = redis.pcall('SET', KEYS[i], ARGV[2 + i], 'NX', 'PX', ARGV[1])
    if set and set.err then
      replies[i] = set.err
      answered = answered + 1
    elseif set then
      local fence = floors and ARGV[floors + i] or t
      local last = redis.pcall('SET', KEYS[2 * n + i], fence, 'PX', FENCE_TTL, 'GET')
      if not last or (#last == #fence and last < fence) then
        replies[i] = fence
        answered = answered + 1
      else -- a clock that was set back, or another program's value: the careful way below
        if type(last) == 'string' then
          redis.call('SET', KEYS[2 * n + i], last, 'PX', FENCE_TTL)
        end
        redis.pcall('DEL', KEYS[i]) -- if DEL is forbidden, the code below treats this as a claim
      end
    end
  end
  if answered == n then
    return replies
  end
end

-- The usual case of readers, and of those that take one permit: only others of their kind hold the lock, there are
-- permits left, and nobody waits.
if string.find(ARGV[2], '^[^w]*[sp][^w]*$') and redis.pcall('EXISTS', unpack(KEYS, n + 1, 2 * n)) == 0 then
--#include slots.lua

  local t = redis.call('TIME')
  t = t[1] .. (#t[2] == 6 and t[2] or string.sub('00000' .. t[2], -6))
  local ms = tonumber(string.sub(t, 1, -4))
  local ends = string.format('%.0f', ms + ARGV[1])
  for i = 1, n do
    local key = KEYS[i]
    local first = redis.pcall('ZRANGE', key, 0, 0, 'WITHSCORES')
    local fence
    local isLeft = not permits
      or string.find(ARGV[2 + i], '^p1@?/') and redis.pcall('GET', KEYS[3 * n + i]) == permits
    if permits and isLeft and not first.err and first[1] then
      isLeft = string.find(first[1], '^p[1-9]%d*@?/%x+:%d+:%x+$') and math.floor(first[2]) > ms
        and redis.call('ZCARD', key) < tonumber(permits)
    end
    if isLeft and not first.err and (permits or not first[1]) then
      local last = redis.pcall('SET', KEYS[2 * n + i], t, 'PX', FENCE_TTL, 'GET')
      if not last or (#last == #t and last < t) then
        fence = t
      elseif type(last) == 'string' then
        redis.call('SET', KEYS[2 * n + i], last, 'PX', FENCE_TTL)
      end
    elseif isLeft and not first.err and string.find(first[1], '^r%x+:%d+:%x+$') and tonumber(first[2]) > ms then
      local last = redis.pcall('GET', KEYS[2 * n + i]) -- readers share it
      fence = type(last) == 'string' and string.find(last, '^%d+$') and last
    end
    local part = fence and string.find(ARGV[2 + i], '@', 1, true) and partsOf(key, {ARGV[2 + i]}, tonumber(permits))[1]
    local score = part and string.format('%.17g', ends + part) or ends
    if fence and type(redis.pcall('ZADD', key, score, ARGV[2 + i])) == 'number' then
      if redis.call('PTTL', key) < tonumber(ARGV[1]) then
        redis.call('PEXPIREAT', key, ends)
      end
      if permits then
        redis.call('PEXPIRE', KEYS[3 * n + i], FENCE_TTL)
      end
      replies[i] = part and fence .. ' ' .. part * SLOT_PARTS - 1 or fence
      answered = answered + 1
    end
  end
  if answered == n then
    return replies
  end
end

-- The usual case of one lock for which others wait: another token holds it, and this one joins the queue at the end.
if n == 1 and not replies[1] then
  local key, queue, token = KEYS[1], KEYS[2], ARGV[3]
  local holder = redis.pcall('GET', key)
  if type(holder) == 'string' and holder ~= token and string.find(ARGV[2], '^r?q$') then
    local t = redis.call('TIME')
    t = t[1] .. (#t[2] == 6 and t[2] or string.sub('00000' .. t[2], -6))
    local ttl = redis.call('PTTL', key)
    local rank = redis.pcall('ZCARD', queue)
    local last = redis.pcall('ZRANGE', queue, -1, -1, 'WITHSCORES')
    local readable = type(rank) == 'number' and not last.err
    local isLater = readable and (rank == 0 or #last[2] == #t and last[2] < t and string.find(last[2], '^%d+$'))
    if ttl >= 0 and isLater and redis.pcall('ZADD', queue, 'NX', t, token) == 1 then
      if rank == 0 or string.sub(t, -1) == '0' then
        redis.call('PEXPIRE', queue, QUEUE_TTL)
      end
      return {{0, ttl, string.find(holder, '^%x+:%d+:%x+$') and 1 or 0, rank, t, t}}
    end
  end
end

--#include common.lua

local lease, flags = ARGV[1], ARGV[2]
local caller = string.match(ARGV[3], '(%x+):')

local sharing = string.find(flags, 's', 1, true) and 'r' or permits and 'p'

-- Whether the key is a deadline that has passed.
local function isOver(key, holder, shared)
  local left = holder and not shared and redis.call('PTTL', key) == -1 and timeLeft(holder)
  return left and left + STAMP_GRACE <= 0
end

local barge = string.find(flags, 'b', 1, true)

-- With t: which of the locks can be acquired at once, and whether all can.
local isFree, areFree = {}, true
for i = 1, together and n or 0 do
  local token = ARGV[2 + i]
  local holder, shared = holderOf(KEYS[i], token)
  local fits = holder == false or holder == token or shared == 'r' and string.sub(token, 1, 1) == 'r'
  fits = fits or isOver(KEYS[i], holder, shared)
  if fits and not barge and head(KEYS[n + i]) then
    -- The dead leave. Perhaps nobody else notifies the first living one.
    standBy(KEYS[n + i], math.max(1, redis.call('PTTL', KEYS[i])))
    fits = not head(KEYS[n + i])
  end
  isFree[i] = fits
  areFree = areFree and isFree[i]
end

-- Returns the number of permits, and sets it if there is none. On failure: nil and an error.
local function permitsFor(queue, take)
  local number, err = permitsOf(queue)
  local said = tonumber(permits)
  if err then
    return nil, err
  elseif number == 0 and said > 0 then
    local set = redis.pcall('SET', permitsKey(queue), permits, 'PX', FENCE_TTL)
    return set.ok and said, set.err
  elseif number == 0 or said > 0 and said ~= number or take > number then
    return nil, 'PERMITS ' .. number
  end
  return number
end

local function take(key, queue, fenceKey, token, leave, floor, shared)
  local fence, err
  if shared == 'r' then
    fence, err = readersFence(fenceKey)
  else
    fence, err = nextFence(fenceKey, floor)
  end
  if not fence then
    return err
  end
  local slots = ''
  if sharing then
    err, slots = setLease(key, token, lease, sharing == 'p' and permitsOf(queue))
    if err then
      return err
    end
    keepSharers(key)
  else
    redis.call('SET', key, token, 'PX', lease)
  end
  if leave then
    redis.pcall('ZREM', queue, token, '*' .. token)
    if sharing then
      serve(key, queue, fenceKey, lease, caller, sharing) -- those behind it
    end
  end
  return fence .. slots
end

local function join(queue, member, arrival)
  if arrival == '' then
    local last = redis.pcall('ZRANGE', queue, -1, -1, 'WITHSCORES')
    if last.err then
      return nil, nil, last.err
    end
    -- The arrival is later than those of all present and former waiters, so that a waiter that returns to its former
    -- place is not behind newer ones. Scores that are not ours are ignored.
    last = tonumber(last[2]) or 0
    arrival = last < MAX_EXACT and last >= tonumber(now()) and string.format('%.0f', last + 1) or now()
  end
  local added = redis.pcall('ZADD', queue, 'NX', arrival, member)
  if type(added) == 'table' then
    return nil, nil, added.err
  end
  if added == 0 then
    arrival = redis.call('ZSCORE', queue, member)
  end
  -- Each poll prolongs the life of the queue, and so does one arrival in ten, which suffices where nobody has to poll.
  if added == 0 or string.sub(arrival, -1) == '0' or redis.call('PTTL', queue) < 0 then
    redis.call('PEXPIRE', queue, QUEUE_TTL)
  end
  return redis.call('ZRANK', queue, member), arrival
end

local function acquire(key, queue, fenceKey, token, arrival, floor)
  local onlyWaits = string.find(flags, 'w', 1, true) or not areFree
  local holder, shared, wrong = holderOf(key, token)
  if holder == nil then
    return wrong
  elseif shared and sharing and shared ~= sharing then
    return 'OTHERKIND ' .. (shared == 'r' and 'readers' or 'permits')
  end
  if holder == token and not onlyWaits then
    return take(key, queue, fenceKey, token, true, floor, shared)
  end
  local hasRoom = shared == 'r' and sharing == 'r'
  if sharing == 'p' then
    local _, _, _, number = parse(token)
    local limit, err = permitsFor(queue, number)
    if not limit then
      return err
    end
    hasRoom = shared and redis.call('ZCARD', key) + number <= limit
  end
  local ttl = 0
  if holder then
    ttl = redis.call('PTTL', key)
    local left = ttl == -1 and not shared and timeLeft(holder)
    if left then
      ttl = left + STAMP_GRACE
      if ttl <= 0 then
        local deleted = redis.pcall('DEL', key)
        if type(deleted) == 'table' then
          return deleted.err
        end
        holder, ttl = false, 0
      end
    end
  end
  if (holder == false or hasRoom) and not onlyWaits then
    local first = head(queue)
    if barge or first == nil or first == token then
      return take(key, queue, fenceKey, token, first ~= nil, floor, shared)
    end
    -- Others came first. Serve them now: perhaps nobody else is left to notify them.
    if string.find(flags, 'q', 1, true) then
      local _, _, err = join(queue, token, arrival)
      if err then
        return err
      end
    end
    local outcome, member = serve(key, queue, fenceKey, lease, caller, shared)
    if outcome == 'mute' then
      return member
    elseif outcome == 'own' and member ~= token then
      local claim = math.min(tonumber(lease), CLAIM_TTL)
      local _, client, sequence = parse(member)
      tell(queue, client, reserve(key, member, 'grant ' .. sequence, nextFence(fenceKey), claim))
      standBy(queue, claim)
    elseif outcome == 'woken' then
      -- The woken waiter may barge in before those at the head; the caller may not.
      first = head(queue)
      if first == nil or first == token or string.sub(first, 1, 1) == '*' then
        return take(key, queue, fenceKey, token, true, floor, shared)
      end
    elseif outcome == 'own' or outcome == 'free' then
      return take(key, queue, fenceKey, token, true, floor, shared)
    end
    holder, shared = holderOf(key, token)
    if shared and holder == token then
      return take(key, queue, fenceKey, token, true, floor, shared)
    end
    ttl = holder and redis.call('PTTL', key) or 0
  end
  local ours = 1
  if holder then
    if shared then
      ttl = tonumber(keepSharers(key)) -- the one whose lease ended last may have left
      if sharing == 'p' then
        ttl = tonumber(firstEnd(key))
      end
    elseif ttl == -1 and string.find(flags, 'r', 1, true) then
      redis.call('PEXPIRE', key, lease)
      ttl = tonumber(lease)
    end
    ours = (shared or parse(holder)) and 1 or 0
  end
  local rank, score = -1, 0
  if string.find(flags, 'q', 1, true) then
    local err
    if barge then
      -- A waiter that was woken but came too late moves to the end: at the head it would be woken again each time, and
      -- the waiters behind it would never be served.
      rank, score, err = join(queue, '*' .. token, '')
    else
      rank, score, err = join(queue, token, arrival)
    end
    if err then
      return err
    end
  end
  if holder == token then -- it only waits
    if shared then
      removeSharer(key, token)
    else
      redis.call('DEL', key)
    end
    ttl = 0
    if rank ~= 0 then
      standBy(queue, 1) -- somebody came earlier
    end
  end
  return {0, ttl, ours, rank, score, now()}
end

local haveArrivals = string.find(flags, 'a', 1, true)
for i = 1, n do
  if not replies[i] then
    local arrival = haveArrivals and ARGV[2 + n + i] or ''
    local floor = floors and ARGV[floors + i]
    if together then
      sharing = string.sub(ARGV[2 + i], 1, 1) == 'r' and 'r'
    end
    replies[i] = acquire(KEYS[i], KEYS[n + i], KEYS[2 * n + i], ARGV[2 + i], arrival, floor)
    if isFree[i] and type(replies[i]) == 'table' then
      replies[i][2] = -2
    end
    if permits then
      redis.pcall('PEXPIRE', KEYS[3 * n + i], FENCE_TTL)
    end
  end
end

-- With t: if one of them cannot be acquired nevertheless, as with a fence of another type, the others are given back.
local function isError(reply)
  return type(reply) == 'string' and not string.find(reply, '^%d')
end
local failed = false
for i = 1, together and areFree and n or 0 do
  failed = failed or isError(replies[i])
end
for i = 1, failed and n or 0 do
  if not isError(replies[i]) then
    if string.sub(ARGV[2 + i], 1, 1) == 'r' then
      removeSharer(KEYS[i], ARGV[2 + i])
    else
      redis.call('DEL', KEYS[i])
    end
    standBy(KEYS[n + i], 1)
    replies[i] = {0, -2, 1, -1, 0, now()}
  end
end
return replies
