-- SPDX-FileCopyrightText: 2026 The QDistLock developers
-- SPDX-License-Identifier: MIT

-- Draws the fencing token of a lock that onekey_claim has acquired. It is greater than all before, because it is drawn
-- while the key holds the caller's token, and dropped if the lease may have ended meanwhile.
--
-- KEYS:  its fence
-- Reply: the fencing token; the text of an error

--#include constants.lua
--#include common.lua

local fence, err = nextFence(KEYS[1])
return fence or err
