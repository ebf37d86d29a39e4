-- SPDX-FileCopyrightText: 2026 The QDistLock developers
-- SPDX-License-Identifier: MIT

-- Raises the fencing token of a held lock, so that those of several servers become equal; see "With a quorum" in
-- docs/protocol.md. It never lowers it.
--
-- KEYS:  its key, its fence
-- ARGV:  token, fencing token
-- Reply: 1 the key holds the token, and the fence has at least this number; 0 there is no key; 2 it holds something
--        else; the text of an error. Without 1, nothing was changed

--#include constants.lua

local holder = redis.pcall('GET', KEYS[1])
if type(holder) == 'table' then
  return holder.err
elseif not holder then
  return 0
elseif holder ~= ARGV[1] then
  return 2
end
local last = redis.pcall('SET', KEYS[2], ARGV[2], 'PX', FENCE_TTL, 'GET')
if type(last) == 'table' then
  return last.err
elseif last and string.find(last, '^%d+$') and tonumber(last) > tonumber(ARGV[2]) then
  redis.call('SET', KEYS[2], last, 'PX', FENCE_TTL)
end
return 1
