-- SPDX-FileCopyrightText: 2026 The QDistLock developers
-- SPDX-License-Identifier: MIT

-- Constants of the protocol. The build includes them in the scripts and generates engine/protocolconstants.h from them:
-- if the comment behind a constant begins with "ms", the C++ constant is a duration.

local CHANNELS = 'lock:client:' -- a client's channel is this and its id; the same for every key prefix
local CLAIM_TTL = 3000          -- ms within which a waiter must claim the lock that was reserved for it
local SERVED_AT_MOST = 500      -- dead waiters removed in one call, at most
local SHARERS_AT_MOST = 64      -- readers or holders of permits served in one call, at most
local MEMBERS_AT_MOST = 1000    -- members of a key written with one command, at most
local SLOTS_AT_MOST = 1024      -- permits of a semaphore that has slots, at most
local SLOT_PARTS = 2048         -- a slot is kept in the fraction of a score, as (slot + 1) / SLOT_PARTS: 11 bits beside a time
local SHOWN_AT_MOST = 32        -- of those that hold a lock together, named by inspect, at most
local FENCE_TTL = '604800000'   -- ms, 7 days, of numbers of permits, too; a text, because a number would be formatted
local QUEUE_TTL = '172800000'   -- ms, 2 days; the longest lease is half of it
local MAX_EXACT = 9007199254740991 -- 2 ^ 53 - 1
local STAMP_BEHIND = 2592000000 -- ms, 30 days; digits are read as a deadline if it is at most this far in the past
local STAMP_GRACE = 1000        -- ms after such a deadline before the lock is taken over
