-- SPDX-FileCopyrightText: 2026 The QDistLock developers
-- SPDX-License-Identifier: MIT

-- Part of common.lua. The short path of acquire.lua, which comes before that, needs only this.

-- Returns the slots of all members of a token, by their place, as the parts of their scores, see SLOT_PARTS. A token that
-- holds the lock keeps those that it has, which may be none. Another one gets the lowest that nobody has: enough of its
-- `permits` must be free. The slots of `leaving`, a list of members or nothing, count as free.
local function partsOf(key, members, permits, leaving)
  local parts = {}
  if type(redis.pcall('ZSCORE', key, members[1])) == 'string' then
    for i, member in ipairs(members) do
      local part = (redis.call('ZSCORE', key, member) or 0) % 1
      parts[i] = part > 0 and part or nil
    end
    return parts
  end
  if not permits or permits > SLOTS_AT_MOST then
    return parts
  end
  local leaves, isTaken = {}, {}
  for _, member in ipairs(leaving or {}) do
    leaves[member] = true
  end
  local all = redis.pcall('ZRANGE', key, 0, -1, 'WITHSCORES')
  for i = 2, #all, 2 do
    if not leaves[all[i - 1]] then
      isTaken[all[i] % 1] = true
    end
  end
  local slot = 0
  for i = 1, #members do
    repeat
      slot = slot + 1
    until not isTaken[slot / SLOT_PARTS]
    parts[i] = slot / SLOT_PARTS
  end
  return parts
end
