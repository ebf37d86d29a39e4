-- SPDX-FileCopyrightText: 2026 The QDistLock developers
-- SPDX-License-Identifier: MIT

-- Reads the state of any number of locks.
--
-- KEYS, for each lock:  its key, its fence, its queue, the key with its number of permits
-- Reply, for each lock: {token or nil, ms to live, last fencing token or nil, length of the queue, nil, permits or nil}
--                       (if the value is a deadline: the ms until then, and after it until the lock may be taken over)
--                       {the first members of the key, ms until the last lease ends, fencing token or nil, length of
--                           the queue, number of members, permits or nil}  if several hold it together
--                       the text of an error if the key is not a lock

--#include constants.lua
--#include common.lua

local function inspect(key, fence, queue, permits)
  local holder = redis.pcall('GET', key)
  local sharers = false
  if type(holder) == 'table' then
    if not firstSharer(key) then
      return holder.err
    end
    local later = string.format('(%.0f', string.sub(now(), 1, -4) + 1) -- the fraction of a score is no time
    local expired = #redis.call('ZRANGE', key, '-inf', later, 'BYSCORE')
    holder = redis.call('ZRANGE', key, expired, expired + SHOWN_AT_MOST - 1)
    sharers = redis.call('ZCARD', key) - expired
  end
  local last = redis.pcall('GET', fence)
  if type(last) == 'table' then
    last = false
  end
  local length = redis.pcall('ZCARD', queue)
  if type(length) == 'table' then
    length = 0
  end
  local ttl = redis.call('PTTL', key)
  if sharers == 0 then
    holder, ttl = false, -2
  elseif sharers then
    ttl = redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')[2] - string.sub(now(), 1, -4)
  elseif holder and ttl == -1 then
    local left = timeLeft(holder)
    if left then -- until the deadline, and after it the rest of the grace time
      ttl = left > 0 and left or math.max(left + STAMP_GRACE, 0)
    end
  end
  permits = redis.pcall('GET', permits)
  return {holder, ttl, last, length, sharers, type(permits) == 'string' and permits}
end

local replies = {}
for i = 1, #KEYS / 4 do
  replies[i] = inspect(KEYS[4 * i - 3], KEYS[4 * i - 2], KEYS[4 * i - 1], KEYS[4 * i])
end
return replies
