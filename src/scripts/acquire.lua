-- SPDX-FileCopyrightText: 2026 The QDistLock developers
-- SPDX-License-Identifier: MIT

-- Acquires any number of locks; each by itself, in the order given.
--
-- KEYS, for each lock:  its key, its fence
-- ARGV, for each lock:  token, lease in ms, 1 = give a key without a time to live that lease
-- Reply, for each lock: {1, fencing token}  the key holds the token, for a whole lease from now
--                       {0, ms to live, 1 = the holder is one of ours}  taken; -1 ms = for ever
--                       an error's text  nothing was changed
--
-- A token that holds the key already gets a whole new lease and a new fencing token, so a resend after a
-- lost reply is safe.

local FENCE_TTL = '604800000' -- 7 days in ms; a number would be formatted at each use

-- Digits of µs; as text, since a number would have to be formatted for each lock.
local time

-- max(last + 1, now in µs): rising without a clock that does, and rising without the counter while the
-- clock does. An error is returned, not raised, and then nothing was changed.
local function nextFence(key)
  if not time then
    local t = redis.pcall('TIME')
    if t.err then
      return nil, t.err
    end
    time = t[1] .. string.sub('00000' .. t[2], -6)
  end
  local last = redis.pcall('SET', key, time, 'PX', FENCE_TTL, 'GET')
  if not last or (type(last) == 'string' and #last == #time and last < time) then
    return time
  elseif type(last) == 'table' then
    return nil, last.err
  end
  local number = tonumber(last)
  if not number or number < tonumber(time) then
    return time
  elseif number > 2 ^ 53 - 2 then
    redis.call('SET', key, last, 'PX', FENCE_TTL)
    return nil, 'ERR fencing token out of range'
  end
  local fence = string.format('%.0f', number + 1)
  redis.call('SET', key, fence, 'PX', FENCE_TTL)
  return fence
end

local replies = {}
for i = 1, #KEYS / 2 do
  local key, token, lease = KEYS[2 * i - 1], ARGV[3 * i - 2], ARGV[3 * i - 1]
  local set = redis.pcall('SET', key, token, 'NX', 'PX', lease)
  local reply
  if set and set.err then
    reply = set.err
  elseif set then
    local fence, err = nextFence(KEYS[2 * i])
    if fence then
      reply = {1, fence}
    else
      redis.call('DEL', key)
      reply = err
    end
  else
    local holder = redis.pcall('GET', key)
    if type(holder) == 'table' then
      reply = holder.err
    elseif holder == token then
      local fence, err = nextFence(KEYS[2 * i])
      if fence then
        redis.call('PEXPIRE', key, lease)
      end
      reply = fence and {1, fence} or err
    else
      local ttl = redis.call('PTTL', key)
      if ttl == -1 and ARGV[3 * i] == '1' then
        redis.call('PEXPIRE', key, lease)
        ttl = tonumber(lease)
      end
      reply = {0, ttl, string.find(holder, '^%x+:%d+:%x+$') and 1 or 0}
    end
  end
  replies[i] = reply
end
return replies
