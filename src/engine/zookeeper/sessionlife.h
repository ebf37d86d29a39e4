// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "base/leaseclock.h"

#include <deque>

namespace QDistLock {

/*!
    Until when a session is known to live, on this client's clock.

    The leader of the ensemble ends a session that it has not heard of for the session's time-out. It hears of each
    request through the client's server, which passes that on at the leader's next ping, half a tick later at most; a
    session lasts two ticks at least, so a quarter of the time-out is enough. A write that is confirmed proves that the
    leader, with a majority, was there after it was sent. So a request that was answered, and was sent a quarter of the
    time-out before such a write, is known to the leader: it cannot end the session before the request's time and the
    time-out have passed. A new leader gives each session its whole time-out again.

    The first request of a connection asks for the session, and is answered by the leader itself: the next write proves
    it, without that quarter. To begin a session is a write, too. What a server has heard and not passed on dies with
    it, so nothing that was heard on an earlier connection counts. Thread: a plain value.
*/
class SessionLife
{
public:
    /// A new session is granted to a connection that asked for it at \a asked.
    void begin(LeaseTime asked, LeaseClock::duration timeout);
    /// Another connection asked for the same session at \a asked, and was granted \a timeout: each connection agrees on
    /// it again.
    void resume(LeaseTime asked, LeaseClock::duration timeout);
    /// A request that was sent at \a sentAt was answered.
    void answered(LeaseTime sentAt);
    /// It was a write.
    void confirmed(LeaseTime sentAt);
    /// The session lives until then at least. Safety margin included: 1 % for clocks, and 2 ms.
    LeaseTime validUntil() const;

private:
    LeaseClock::duration m_timeout{0};
    LeaseTime m_known{};
    LeaseTime m_asked{};
    std::deque<LeaseTime> m_heard; ///< ascending; not yet known to the leader
};

} // namespace QDistLock
