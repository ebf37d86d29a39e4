// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/zookeeper/sessionlife.h"

#include <algorithm>

using namespace std::chrono_literals;

namespace QDistLock {

void SessionLife::begin(LeaseTime asked, LeaseClock::duration timeout)
{
    m_timeout = timeout;
    m_known = asked;
    resume(asked, timeout);
}

void SessionLife::resume(LeaseTime asked, LeaseClock::duration timeout)
{
    m_timeout = std::min(m_timeout, timeout);
    m_asked = asked;
    m_heard.clear();
}

void SessionLife::answered(LeaseTime sentAt)
{
    while (!m_heard.empty() && m_heard.front() < sentAt - m_timeout)
        m_heard.pop_front();
    // Requests are answered in order. One that was sent just after the last one need not be kept, too.
    if (m_heard.empty() || sentAt > m_heard.back() + m_timeout / 100)
        m_heard.push_back(sentAt);
}

void SessionLife::confirmed(LeaseTime sentAt)
{
    m_known = std::max(m_known, m_asked);
    while (!m_heard.empty() && m_heard.front() <= sentAt - m_timeout / 4) {
        m_known = std::max(m_known, m_heard.front());
        m_heard.pop_front();
    }
}

LeaseTime SessionLife::validUntil() const
{
    return m_known + m_timeout - m_timeout / 100 - 2ms;
}

} // namespace QDistLock
