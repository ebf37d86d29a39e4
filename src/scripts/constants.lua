-- SPDX-FileCopyrightText: 2026 The QDistLock developers
-- SPDX-License-Identifier: MIT

-- Included at build time, before the first use.

local CHANNELS = 'lock:client:' -- a client's channel is this and its id; the same for every key prefix
local CLAIM_TTL = 3000          -- ms a waiter that was served has to claim the lock
local SERVED_AT_MOST = 500      -- dead waiters dropped in one call
local FENCE_TTL = '604800000'   -- ms, 7 days; a number would be formatted at each use
local QUEUE_TTL = '172800000'   -- ms, 2 days; the longest lease is half of it
local MAX_EXACT = 9007199254740991 -- 2 ^ 53 - 1
local STAMP_AHEAD = 90000000    -- ms, 25 h; a key's value is a deadline if it lies no further in the future than this,
local STAMP_BEHIND = 2592000000 -- ms, 30 days; nor further in the past than this
local STAMP_GRACE = 1000        -- ms after such a deadline before the lock is taken over
