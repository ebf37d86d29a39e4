-- SPDX-FileCopyrightText: 2026 The QDistLock developers
-- SPDX-License-Identifier: MIT

-- Deletes a lock's key whoever holds it, and tells the holder if it is one of ours.
--
-- KEYS:  its key
-- ARGV:  the prefix of the clients' channels
-- Reply: 1 deleted; 0 there was no key; an error's text

local holder = redis.pcall('GET', KEYS[1])
if type(holder) == 'table' then
  return holder.err
end
if holder == false then
  return 0
end
redis.call('DEL', KEYS[1])
local client, sequence = string.match(holder, '^(%x+):(%d+):%x+$')
if client then
  redis.pcall('PUBLISH', ARGV[1] .. 'client:' .. client, 'force ' .. sequence)
end
return 1
