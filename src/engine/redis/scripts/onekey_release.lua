-- SPDX-FileCopyrightText: 2026 The QDistLock developers
-- SPDX-License-Identifier: MIT

-- Releases a lock whose cluster slot is moving to another node. Nobody is served or notified.
--
-- KEYS:  its key
-- ARGV:  token; ms for which the key must remain (0 = none)
-- Reply: 1 the key held the token and is given back; 0 there is no key; 2 it holds something else; the text of an error

--#include constants.lua
--#include common.lua

local key, token, keep = KEYS[1], ARGV[1], ARGV[2]
local holder, shared, wrong = holderOf(key, token)
if holder == false then
  return 0
elseif holder == nil and not string.find(wrong, '^WRONGTYPE') then
  return wrong
elseif holder ~= token then
  return shared == string.sub(token, 1, 1) and 0 or 2
end
local done
if shared and keep == '0' then
  return removeSharer(key, token) or 1
elseif shared then
  redis.pcall('ZREM', key, '') -- Redis allows this write even when memory is short, and after it the next one, too
  local err = setLease(key, token, keep)
  keepSharers(key)
  return err or 1
elseif keep == '0' then
  done = redis.pcall('DEL', key)
else
  done = redis.pcall('PEXPIRE', key, keep)
end
return type(done) == 'table' and done.err or done
