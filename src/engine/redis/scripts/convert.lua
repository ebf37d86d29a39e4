-- SPDX-FileCopyrightText: 2026 The QDistLock developers
-- SPDX-License-Identifier: MIT

-- Makes a writer a reader, or the only reader a writer, without a gap in which others could hold the lock. It never
-- waits: two readers that did would wait for each other.
--
-- KEYS:  its key, its queue, its fence; a key that never exists: a node of a cluster then refuses this command while the
--        slot is moving to another one, where the key of the lock could not be made again after DEL
-- ARGV:  lease in ms; the token of the holder; the token that takes its place, an 'r' before one of the two
-- Reply, in a list: a fencing token (digits)  done: the former token holds nothing
--                   4 there are other readers; 0 there is no key, or readers hold it and the former token does not;
--                   2 it holds something else; the text of an error. Without a fencing token, nothing was changed

--#include constants.lua
--#include common.lua

local key, queue, fenceKey = KEYS[1], KEYS[2], KEYS[3]
local lease, from, to = ARGV[1], ARGV[2], ARGV[3]

local function convert()
  local holder, shared, wrong = holderOf(key, from)
  if holder == nil then
    return wrong
  elseif holder ~= from then
    return (holder == false or shared == string.sub(from, 1, 1)) and 0 or 2
  elseif shared and redis.call('ZCARD', key) > 1 then
    return 4
  end
  local fence, err = nextFence(fenceKey)
  if not fence then
    return err
  end
  if shared then
    redis.call('SET', key, to, 'PX', lease)
    return fence
  end
  redis.call('DEL', key)
  err = setLease(key, to, lease)
  if err then
    return err
  end
  keepSharers(key)
  serve(key, queue, fenceKey, lease, '', 'r') -- the readers that come first
  return fence
end

return {convert()}
