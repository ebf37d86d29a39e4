-- SPDX-FileCopyrightText: 2026 The QDistLock developers
-- SPDX-License-Identifier: MIT

-- Releases a lock whose cluster slot is moving to another node. Nobody is served or notified.
--
-- KEYS:  its key
-- ARGV:  token; ms for which the key must remain (0 = none)
-- Reply: 1 the key held the token and is given back; 0 there is no key; 2 it holds something else; the text of an error

local key, token, keep = KEYS[1], ARGV[1], ARGV[2]
local holder = redis.pcall('GET', key)
if holder == false then
  return 0
elseif type(holder) == 'table' and not string.find(holder.err, '^WRONGTYPE') then
  return holder.err
elseif holder ~= token then
  return 2
end
local done
if keep == '0' then
  done = redis.pcall('DEL', key)
else
  done = redis.pcall('PEXPIRE', key, keep)
end
return type(done) == 'table' and done.err or done
