// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "engine/lockengine.h"

#include <QtCore/qobject.h>

#include <vector>

namespace QtRedis {
class SentinelWatch;
}

namespace QDistLock {

/*!
    Holds back what a master has confirmed until a majority of the Sentinels, asked after that, has named the same
    master: after a fail-over the former master goes on as before for some seconds, and on the wrong side of a partition
    for ever.

    Replies of one event loop turn share one question. Thread: the one it lives in.
*/
class MasterConfirmation : public QObject
{
    Q_OBJECT
public:
    /// \a watch outlives this.
    explicit MasterConfirmation(QtRedis::SentinelWatch *watch)
        : m_watch(watch)
    {
    }

    /// Passes a renewal that is Done to \a completion only after the Sentinels were asked; Failed if they do not agree.
    LockEngine::Completion ofRenewal(LockEngine::Completion completion);
    /// The same for a lock that is Granted, but only while the Sentinels did not agree when they were asked last.
    LockEngine::Completion ofAcquire(LockEngine::Completion completion);

private:
    struct HeldBack
    {
        EngineReply reply;
        LockEngine::Completion completion;
    };

    void holdBack(const EngineReply &reply, const LockEngine::Completion &completion);
    void ask();

    QtRedis::SentinelWatch *const m_watch;
    std::vector<HeldBack> m_heldBack; ///< of this event loop turn
};

} // namespace QDistLock
