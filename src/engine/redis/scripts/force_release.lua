-- SPDX-FileCopyrightText: 2026 The QDistLock developers
-- SPDX-License-Identifier: MIT

-- Takes a lock from its holder, notifies the holder if it is one of ours, and hands the lock to the next waiter.
--
-- KEYS:  its key, its queue
-- ARGV:  lease in ms of a lock like it
-- Reply: 1 taken away; 0 there was no key; the text of an error

--#include constants.lua
--#include common.lua

local key, queue = KEYS[1], KEYS[2]
local lease = ARGV[1]

local holder = redis.pcall('GET', key)
if type(holder) == 'table' then
  return holder.err
end
if holder == false then
  return 0
end
redis.call('DEL', key)
local _, client, sequence = parse(holder)
if client then
  tell(client, 'force ' .. sequence)
end
repeat
  local outcome = serve(key, queue, lease, '')
until outcome ~= 'more'
return 1
