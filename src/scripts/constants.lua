-- SPDX-FileCopyrightText: 2026 The QDistLock developers
-- SPDX-License-Identifier: MIT

-- Included at build time, before the first use.

local CLAIM_TTL = 3000          -- ms a waiter that was served has to claim the lock
local SERVED_AT_MOST = 500      -- dead waiters dropped in one call
local FENCE_TTL = '604800000'   -- ms, 7 days; a number would be formatted at each use
local QUEUE_TTL = '172800000'   -- ms, 2 days; the longest lease is half of it
local MAX_EXACT = 2 ^ 53 - 1
