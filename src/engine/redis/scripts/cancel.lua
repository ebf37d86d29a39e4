-- SPDX-FileCopyrightText: 2026 The QDistLock developers
-- SPDX-License-Identifier: MIT

-- Cancels any number of tokens that nobody wants any more: each leaves the queue. If it holds the lock, because a reply
-- was lost or a grant crossed the cancellation, the lock passes to the next waiter.
--
-- KEYS:                 of all locks, in order: their keys, then their queues, then their fences; if the tokens take
--                       permits, then the keys with their numbers of permits
-- ARGV, for each lock:  token; lease in ms of a lock like it; ms for which the key must remain (0 = none)
-- Reply, for each lock: 1 done; 0 nothing was kept under this token: its acquire may still arrive
--                       3 send it again: many dead waiters are left; an error's text

--#include constants.lua
--#include common.lua

local caller = string.match(ARGV[1] or '', '(%x+):')

local function cancel(key, queue, fenceKey, token, lease, keep)
  local first = head(queue)
  local left = redis.pcall('ZREM', queue, token, '*' .. token)
  if type(left) == 'table' and not string.find(left.err, '^WRONGTYPE') then
    return left.err -- a replica, no replicas, a full disk: it is in the queue still
  end
  local found = type(left) == 'number' and left > 0
  local holder, shared = holderOf(key, token)
  if holder == nil then
    return found and 1 or 0
  end
  if holder and holder ~= token then
    if found and shared then
      serve(key, queue, fenceKey, lease, caller, shared) -- those behind it; those before it may be dead
    elseif first == token or first == '*' .. token then
      standBy(queue, redis.call('PTTL', key))
    end
    return found and 1 or 0
  end
  if holder and keep ~= '0' then
    leaveFor(key, queue, token, keep, shared)
    return 1
  end
  if shared and hasOthers(key, token) then
    removeSharer(key, token) -- first: the waiters are sent the end of the last lease
    serve(key, queue, fenceKey, lease, caller, shared)
    return 1
  end
  local outcome, member = serve(key, queue, fenceKey, lease, caller, false, shared and membersOf(token))
  if outcome == 'own' then
    local _, _, sequence = parse(member)
    local claim = math.min(tonumber(lease), CLAIM_TTL)
    tell(queue, caller, reserve(key, member, 'grant ' .. sequence, nil, claim))
    standBy(queue, claim)
  elseif shared then
    removeSharer(key, token)
  elseif holder and outcome ~= 'served' then
    redis.call('DEL', key)
  end
  if outcome == 'more' then
    return 3
  end
  return (found or holder) and 1 or 0
end

local replies = {}
local n = #KEYS / (string.sub(ARGV[1], 1, 1) == 'p' and 4 or 3)
for i = 1, n do
  local a = 3 * i
  replies[i] = cancel(KEYS[i], KEYS[n + i], KEYS[2 * n + i], ARGV[a - 2], ARGV[a - 1], ARGV[a])
end
return replies
