-- SPDX-FileCopyrightText: 2026 The QDistLock developers
-- SPDX-License-Identifier: MIT

-- Gives any number of held locks a new lease.
--
-- KEYS, for each lock:  its key
-- ARGV, for each lock:  token, lease in ms
-- Reply, for each lock: 1 the key holds the token, for a whole lease from now; 0 there is no key;
--                       2 it holds something else; the text of an error

local replies = {}
local holders = redis.pcall('MGET', unpack(KEYS))
for i = 1, #KEYS do
  local holder = holders[i]
  if not holder then
    holder = redis.pcall('GET', KEYS[i]) -- MGET returns the same for a missing key and for a key of another type
  end
  if holder == false then
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
