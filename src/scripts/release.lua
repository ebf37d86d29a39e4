-- SPDX-FileCopyrightText: 2026 The QDistLock developers
-- SPDX-License-Identifier: MIT

-- Gives back any number of locks: whatever the token holds.
--
-- KEYS, for each lock:  its key
-- ARGV, for each lock:  token, ms for which the key is to stay (0 = delete it)
-- Reply, for each lock: 1 the key held the token and is given back; 0 there is no key;
--                       2 it holds something else; an error's text

local replies = {}
for i = 1, #KEYS do
  local holder = redis.pcall('GET', KEYS[i])
  if holder == false then
    replies[i] = 0
  elseif type(holder) == 'table' and not string.find(holder.err, '^WRONGTYPE') then
    replies[i] = holder.err
  elseif holder ~= ARGV[2 * i - 1] then
    replies[i] = 2
  else
    local done
    if ARGV[2 * i] == '0' then
      done = redis.pcall('DEL', KEYS[i])
    else
      done = redis.pcall('PEXPIRE', KEYS[i], ARGV[2 * i])
    end
    replies[i] = type(done) == 'table' and done.err or done
  end
end
return replies
