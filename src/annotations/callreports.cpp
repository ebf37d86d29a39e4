// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "annotations/callreports.h"

#include <utility>

namespace QDistLock {

void CallReports::add(const QList<LockedCallInfo> &losses)
{
    m_losses.insert(m_losses.end(), losses.begin(), losses.end());
}

void CallReports::add(CallPointer call, qsizetype request, const LockResult &result)
{
    m_ended.push_back({std::move(call), request, result});
}

void CallReports::reportOne()
{
    if (!m_losses.empty()) {
        const LockedCallInfo lost = std::move(m_losses.front());
        m_losses.pop_front();
        if (LockedCalls *const calls = LockedCalls::instance())
            Q_EMIT calls->lost(lost);
        return;
    }
    const Ended ended = std::move(m_ended.front());
    m_ended.pop_front();
    const WaitingCall &call = *ended.call;
    ended.call->watcher.reset();
    if (call.watched && !call.call.receiver)
        call.fail(nullptr, Detail::cancelledCall());
    else
        call.fail(ended.request < 0 ? nullptr : &call.call.requests.at(ended.request), ended.result);
}

} // namespace QDistLock
