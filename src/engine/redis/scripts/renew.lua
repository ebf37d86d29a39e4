-- SPDX-FileCopyrightText: 2026 The QDistLock developers
-- SPDX-License-Identifier: MIT

-- Gives any number of held locks a new lease.
--
-- KEYS, for each lock:  its key
-- ARGV, for each lock:  token, lease in ms
-- Reply, for each lock: 1 the key holds the token, for a whole lease from now; 0 there is no key, or others share it
--                       and this one does not; 2 it holds something else; the text of an error

--#include constants.lua

-- Those that share a lock keep their leases in a zset, see membersOf() in common.lua.
local function renewSharer(key, token, lease)
  local ends = redis.pcall('ZSCORE', key, token)
  if type(ends) == 'table' then
    return string.find(ends.err, '^WRONGTYPE') and 2 or ends.err
  end
  local t = redis.call('TIME')
  local ms = t[1] * 1000 + math.floor(t[2] / 1000)
  if not ends or math.floor(ends) <= ms then
    return 0
  end
  redis.pcall('ZREM', key, '') -- Redis allows this write even when memory is short, and after it the next one, too
  local permits, wantsSlots = string.match(token, '^p(%d+)(@?)/')
  permits = tonumber(permits or 1)
  local scored = {}
  for i = 1, permits do
    local member = i == 1 and token or token .. '#' .. i
    local former = wantsSlots == '@' and redis.call('ZSCORE', key, member) or 0
    scored[#scored + 1] = string.format('%.17g', ms + lease + former % 1) -- the slot remains
    scored[#scored + 1] = member
    if #scored == 2 * MEMBERS_AT_MOST or i == permits then
      local done = redis.pcall('ZADD', key, unpack(scored))
      if type(done) == 'table' then
        return done.err
      end
      scored = {}
    end
  end
  local last = redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')[2]
  redis.call('PEXPIREAT', key, math.floor(last))
  return 1
end

local replies = {}
local holders = redis.pcall('MGET', unpack(KEYS))
for i = 1, #KEYS do
  local holder = holders[i]
  local isSharer = string.find(ARGV[2 * i - 1], '^[rp]')
  if not holder and not isSharer then
    holder = redis.pcall('GET', KEYS[i]) -- MGET returns the same for a missing key and for a key of another type
  end
  if isSharer then
    replies[i] = renewSharer(KEYS[i], ARGV[2 * i - 1], ARGV[2 * i])
  elseif holder == false then
    replies[i] = 0
  elseif type(holder) == 'table' and not string.find(holder.err, '^WRONGTYPE') then
    replies[i] = holder.err
  elseif holder ~= ARGV[2 * i - 1] then
    replies[i] = 2
  else
    local done = redis.pcall('PEXPIRE', KEYS[i], ARGV[2 * i])
    replies[i] = type(done) == 'table' and done.err or done
  end
end
return replies
