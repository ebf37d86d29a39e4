-- SPDX-FileCopyrightText: 2026 The QDistLock developers
-- SPDX-License-Identifier: MIT

-- Reads who waits for a lock. The tokens of the waiters stay on the server.
--
-- KEYS:  its queue
-- ARGV:  the number of waiters to read, at most
-- Reply: {server time in µs, client, number of its connection or '', arrival, client, …}, the next waiter first; the
--        text of an error
--
-- Members of the queue that no client of this library has written are left out.

--#include constants.lua
--#include common.lua

local members = redis.pcall('ZRANGE', KEYS[1], 0, ARGV[1] - 1, 'WITHSCORES')
if members.err then
  return members.err
end
local reply = {now()}
for i = 1, #members, 2 do
  local _, client = parse(members[i])
  if client then
    reply[#reply + 1] = client
    reply[#reply + 1] = string.sub(string.match(members[i], '%x+$'), 33) -- behind the random bits
    reply[#reply + 1] = members[i + 1]
  end
end
return reply
