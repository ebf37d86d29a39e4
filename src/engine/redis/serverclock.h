// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "base/leaseclock.h"

#include <chrono>
#include <optional>

namespace QDistLock {

/*!
    Computes the earliest moment on the lease clock at which the server's clock can have shown a given time.

    A reply that contains the server's time shows that the server read its clock after the command was sent. Only the
    newest reply counts: an older one may give a later bound, but the server's clock may have been set since, and a slow
    reply does not show that. The clocks may drift apart by 1 %, as LeaseMachine assumes, so that the bound becomes
    worse with its age. If the server's clock is set forward after the last sample, the result is too late by as much,
    until the next sample. Thread: a plain value.
*/
class ServerClock
{
public:
    /// The server's clock showed \a serverTime at \a sentAt or later.
    void sample(std::chrono::microseconds serverTime, LeaseTime sentAt);
    /// The next sample may be of another server.
    void forget() { m_zeroAt.reset(); }
    /// Not later than \a now; nullopt without a sample.
    std::optional<LeaseTime> earliest(std::chrono::microseconds serverTime, LeaseTime now) const;

private:
    std::optional<LeaseTime> m_zeroAt; ///< the server's clock showed 0 at this time or later
    LeaseTime m_sampledAt;
};

} // namespace QDistLock
