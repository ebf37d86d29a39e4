-- SPDX-FileCopyrightText: 2026 The QDistLock developers
-- SPDX-License-Identifier: MIT

-- Sets the number of permits of a semaphore, and serves the waiters that fit then. Nobody loses a permit.
--
-- KEYS:  its key, its queue, its fence, the key with its number of permits
-- ARGV:  the number
-- Reply, in a list: the number before, 0 if there was none; the text of an error: nothing was changed

--#include constants.lua
--#include common.lua

local key, queue, fenceKey = KEYS[1], KEYS[2], KEYS[3]

local function setPermits(number)
  local holder, shared, wrong = holderOf(key)
  if holder == nil then
    return wrong
  end
  local before, err = permitsOf(queue)
  if err then
    return err
  end
  local set = redis.pcall('SET', KEYS[4], number, 'PX', FENCE_TTL)
  if set.err then
    return set.err
  end
  if holder == false or shared == 'p' then
    repeat
      local outcome = serve(key, queue, fenceKey, CLAIM_TTL, '', shared)
    until outcome ~= 'more'
  end
  return before
end

return {setPermits(ARGV[1])}
