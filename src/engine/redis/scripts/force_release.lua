-- SPDX-FileCopyrightText: 2026 The QDistLock developers
-- SPDX-License-Identifier: MIT

-- Takes a lock from its holder, notifies the holder if it is one of ours, and hands the lock to the next waiter. Those
-- that hold it together all lose it.
--
-- KEYS:  its key, its queue, its fence
-- ARGV:  lease in ms of a lock like it; only if one holder is meant: its fencing token
-- Reply: 1 taken away; 0 there was no key; 2 somebody else holds it, and nothing was changed; the text of an error
--
-- A holder of another library has no fencing token, so it is never the one that is meant.

--#include constants.lua
--#include common.lua

local key, queue, fenceKey = KEYS[1], KEYS[2], KEYS[3]
local lease, meant = ARGV[1], ARGV[2]

local holder, shared, wrong = holderOf(key)
if holder == nil then
  return wrong
end
if holder == false then
  return 0
end
local holders = shared and redis.call('ZRANGE', key, 0, -1) or {holder}
if meant then
  local fence = redis.pcall('GET', fenceKey)
  if type(fence) == 'table' then
    return fence.err
  elseif not parse(string.match(holders[1], '^[^#]*')) or fence ~= meant then
    return 2
  end
end
for _, token in ipairs(holders) do
  local _, client, sequence = parse(token)
  if client then
    local channel = CHANNELS .. client -- in a cluster, too: a client that only holds locks has no sharded channel
    redis.pcall('PUBLISH', channel, 'force ' .. sequence)
  end
end
-- The next holder overwrites the key: a node of a cluster creates no key of a slot that it is moving away.
local outcome
repeat
  outcome = serve(key, queue, fenceKey, lease, '', false, shared and holders)
until outcome ~= 'more'
if outcome ~= 'served' then
  redis.call('DEL', key)
end
return 1
