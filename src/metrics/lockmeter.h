// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "base/leaseclock.h"
#include "core/leasemachine.h"

#include <QtCore/qlist.h>
#include <QtCore/qstring.h>

namespace QDistLock {

class LockGroup;
struct LockEvent;

/*!
    Counts what one lock does in the group of the lock, see LockMetrics, and reports it to observers. Thread: that of
    the lock.
*/
class LockMeter
{
public:
    /// The next acquisition, which is not going on yet, is about the lock \a name with \a label.
    void setLock(const QString &name, const QString &label);
    /// Counts the \a outcomes of an event of \a machine, which were all that it had.
    void count(const QList<LeaseMachine::Outcome> &outcomes, const LeaseMachine &machine);
    /// What \a outcomes are for a lock that is being destroyed, which ends what it holds and waits for.
    static QList<LeaseMachine::Outcome> ofLast(QList<LeaseMachine::Outcome> outcomes);
    /// An acquire of the lock \a name with \a label was refused before the machine knew of it.
    void countRefusal(const QString &name, const QString &label, DistributedLock::Error error);
    /// An acquire of several locks failed, because of the lock \a name.
    static void countFailure(const QString &name, const QString &label, DistributedLock::Error error);
    /// The lock is part of a MultiLock, which counts the failed acquires of the application. An acquire of this lock
    /// alone that fails is none of these, and is not counted.
    void setIsOneOfSeveral() { m_isOneOfSeveral = true; }
    bool isOneOfSeveral() const { return m_isOneOfSeveral; }

private:
    static void failed(LockGroup *group, const QString &name, DistributedLock::Error error);
    LockEvent holdEvent(const LeaseMachine &machine) const;

    QString m_name; ///< cannot change while the lock is held or waited for
    QString m_label;
    quint32 m_generation = 0; ///< of m_group
    bool m_isOneOfSeveral = false;
    LockGroup *m_group = nullptr;   ///< of the present acquisition, or of the next one
    LockGroup *m_waiting = nullptr; ///< the group in which it counts as waiting; null: it does not
    LockGroup *m_held = nullptr;    ///< the group in which it counts as held; null: it does not
    LeaseTime m_heldSince{};
};

} // namespace QDistLock
