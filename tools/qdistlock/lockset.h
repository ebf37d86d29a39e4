// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "leasetimer.h"

#include <QDistLock/DistributedLock>
#include <QDistLock/LockInfo>
#include <QDistLock/LockOptions>

#include <QtCore/qjsonobject.h>
#include <QtCore/qlist.h>
#include <QtCore/qobject.h>
#include <QtCore/qstringlist.h>
#include <QtCore/qtimer.h>

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

namespace Cli {

class Session;

/// Semaphore::heldSlots() of a lock of a LockSet; empty without --limit.
QList<int> heldSlots(const QDistLock::DistributedLock *lock);
/// Adds them to an outcome of --json, if there are any.
void addSlots(QJsonObject *outcome, const QList<int> &permitSlots);

/*!
    The locks that `run` and `hold` hold together: one for each name. They are acquired as those of a MultiLock: with
    one command if all are free, otherwise one after the other, ordered by name, so that no two programs wait for each
    other. --timeout is the time for all of them. Those that are held already are renewed while others are waited for,
    with --no-renew, too: its lease is for the time after acquired().
    Unlike a MultiLock, it still holds the others when one is lost, until release(): the command may still run.
*/
class LockSet : public QObject
{
    Q_OBJECT

public:
    using DistributedLock = QDistLock::DistributedLock;

    /// \a session must outlive it.
    LockSet(Session *session, const QStringList &names);
    ~LockSet() override;

    /// Ends with acquired() or failed().
    void acquire();
    /// Leaves the queue, and releases what is held. Neither acquired() nor failed() follows; released() does.
    void release();

    bool isHeld() const { return m_phase == Held; }
    bool isAcquiring() const { return m_phase == Acquiring; }
    /// The lock that is being waited for.
    DistributedLock *presentLock() const;
    /// In the order in which their names were given.
    const std::vector<DistributedLock *> &locks() const { return m_inGivenOrder; }
    /// As given, separated by commas.
    QString nameText() const { return m_names.join(u','); }
    /// Their fencing tokens in the same order, separated by commas. While held.
    QString fenceText() const;
    /// The numbers of their permits in the same order, separated by commas; empty if they have none. While held.
    QString slotText() const;
    /// When the first of them ends unless it is renewed.
    Moment deadline() const;
    /// " (why)": why \a lock could not be renewed; empty if that is not known.
    QString problemText(const DistributedLock *lock) const;

Q_SIGNALS:
    void acquired();
    /// The error was printed.
    void failed(int exitCode);
    /// Two thirds of the lease of one of them have passed. \a text says which one, why, and when it is lost.
    void atRisk(const QString &text);
    void deadlineChanged();
    /// \a lock is lost; the others are still held. Only after acquired().
    void lost(QDistLock::DistributedLock *lock, QDistLock::DistributedLock::LossReason reason);
    /// The end of release(). \a unconfirmed: one text for each lock of which the server has not confirmed it.
    void released(const QStringList &unconfirmed);

private:
    enum Phase { Idle, Acquiring, Failing, GivingBack, Held, Releasing };
    void attemptTogether();
    void attempt(size_t index);
    QDistLock::LockOptions beginAttempt();
    void beginAgain();
    bool mayWait() const;
    void attempted(const QDistLock::LockResult &result);
    void endIfFresh();
    void lockLost(DistributedLock *lock, DistributedLock::LossReason reason);
    void askForHolder(std::chrono::milliseconds answerTime);
    void reportConflict();
    void timeReached();
    void fail(DistributedLock::Error error, const QString &text);
    void endFailure();
    void lockReleased(DistributedLock *lock, bool confirmed);
    void endRelease();

    Session *const m_session;
    const QStringList m_names;
    std::vector<std::unique_ptr<DistributedLock>> m_locks; ///< ordered by name
    std::vector<DistributedLock *> m_inGivenOrder;
    Phase m_phase = Idle;
    size_t m_next = 0;          ///< the lock that is being waited for
    bool m_areTogether = false; ///< all are being asked for with one command
    int m_attempts = 0;         ///< the result of an attempt that was given up counts no more
    Moment m_waitEnd = Never;
    DistributedLock::Error m_conflict = DistributedLock::NoError; ///< while Failing
    bool m_isAsked = false;                                       ///< who holds the lock that is being waited for
    std::optional<QDistLock::LockInfo> m_holder;                  ///< the answer
    int m_failure = 0;                                            ///< the exit code, while GivingBack
    size_t m_pendingReleases = 0;
    QStringList m_unconfirmed;
    QTimer m_timer; ///< for the last words with the server: when they begin, and how long they may take
};

} // namespace Cli
