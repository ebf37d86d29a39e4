// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "engine/lockengine.h"

#include <QtCore/qobject.h>
#include <QtCore/qstring.h>

#include <functional>
#include <vector>

namespace QtRedis {
class SentinelWatch;
struct SentinelMaster;
} // namespace QtRedis

namespace QDistLock {

/*!
    Holds back what a master has said until a majority of the Sentinels, asked after that, has named the same master:
    after a fail-over the former master continues as before for some seconds, and on the wrong side of a partition for
    ever.

    What arrives in one event loop turn shares one question. Thread: the one it lives in.
*/
class MasterConfirmation : public QObject
{
    Q_OBJECT
public:
    /// \a watch outlives this; \a service is its name.
    MasterConfirmation(QtRedis::SentinelWatch *watch, const QString &service);

    /// Passes Granted and Done to \a completion only after the Sentinels were asked. If they do not agree, a Granted is
    /// Unconfirmed, so that the lock is given back, and a Done is Failed. Both are Failed if they name another master.
    LockEngine::Completion of(LockEngine::Completion completion);
    /// Passes Gone and Stolen to \a completion only after the Sentinels were asked; Failed if they have named another
    /// master. A former master that was started again may have lost keys that the master has. With an error if too few
    /// of them answer: see EngineReply::isUnprovenLoss().
    LockEngine::Completion ofLoss(LockEngine::Completion completion);

    /// An empty \a problem: the master is confirmed.
    using Verdict = std::function<void(const QString &problem)>;
    void ask(Verdict verdict);

private:
    void masterChanged();
    bool isFormer(const QtRedis::SentinelMaster &replying) const;

    QtRedis::SentinelWatch *const m_watch;
    const QString m_service;
    std::vector<Verdict> m_asking; ///< in this event loop turn
};

} // namespace QDistLock
