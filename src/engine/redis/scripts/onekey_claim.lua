-- SPDX-FileCopyrightText: 2026 The QDistLock developers
-- SPDX-License-Identifier: MIT

-- Acquires a lock whose cluster slot is moving to another node, or gives its holder a new lease. Then the keys of the
-- lock may be at two nodes, so that no script may name more than one of them. The fencing token is drawn after that, by
-- onekey_fence. The queue is neither read nor written.
--
-- KEYS:  its key
-- ARGV:  token; lease in ms; flags: r, s and p as in acquire.lua
-- Reply: 1 the key holds the token, for a whole lease from now
--        {0, ms to live, 1 = the holder is one of ours, -1, 0, server time in µs}  taken, as in acquire.lua
--        the text of an error
--
-- Readers and those that take permits wait until the slot has been moved: this script can read neither the fencing token
-- that readers share nor the number of permits.

--#include constants.lua
--#include common.lua

local key, token, lease = KEYS[1], ARGV[1], ARGV[2]
if string.find(ARGV[3], '[sp]') then
  return 'TRYAGAIN those that share a lock wait until the slot has been moved'
end
local set = redis.pcall('SET', key, token, 'NX', 'PX', lease)
if set then
  return set.err or 1
end
local holder, shared, wrong = holderOf(key)
if holder == nil then
  return wrong
elseif holder == token then
  redis.call('PEXPIRE', key, lease)
  return 1
elseif holder == false then -- the leases of those that shared it have ended
  redis.call('SET', key, token, 'PX', lease)
  return 1
end
local ttl = redis.call('PTTL', key)
if shared then
  return {0, ttl, 1, -1, 0, now()}
elseif ttl == -1 then
  local left = timeLeft(holder)
  if left then
    ttl = left + STAMP_GRACE
    if ttl <= 0 then
      redis.call('SET', key, token, 'PX', lease)
      return 1
    end
  elseif string.find(ARGV[3], 'r', 1, true) then
    redis.call('PEXPIRE', key, lease)
    ttl = tonumber(lease)
  end
end
return {0, ttl, parse(holder) and 1 or 0, -1, 0, now()}
