// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QDistLock/lockoptions.h>

#include <QtCore/qpointer.h>

namespace QDistLock {

/// Options that an application has set for one lock; the registry's defaults do not replace these.
namespace OptionField {

enum Field : quint8 {
    Lease = 1,
    Wait = 2,
    RetryInterval = 4,
    AutoRenew = 8,
    Fair = 16,
    Mode = 32,
    Permits = 64, ///< and `take`
    All = 255
};

} // namespace OptionField

/// \a own in the fields \a set, and \a defaults in the others.
inline LockOptions mergedOptions(const LockOptions &own, quint8 set, const LockOptions &defaults)
{
    LockOptions merged = defaults;
    if (set & OptionField::Lease)
        merged.lease = own.lease;
    if (set & OptionField::Wait)
        merged.wait = own.wait;
    if (set & OptionField::RetryInterval)
        merged.retryInterval = own.retryInterval;
    if (set & OptionField::AutoRenew)
        merged.autoRenew = own.autoRenew;
    if (set & OptionField::Fair)
        merged.fair = own.fair;
    if (set & OptionField::Mode)
        merged.mode = own.mode;
    if (set & OptionField::Permits) {
        merged.permits = own.permits;
        merged.take = own.take;
    }
    return merged;
}

/// Emits the NOTIFY signals of the options that differ. A slot may delete the lock.
template<typename Lock>
void emitOptionChanges(const QPointer<Lock> &lock, const LockOptions &before, const LockOptions &now)
{
    if (lock && before.lease != now.lease)
        Q_EMIT lock->leaseChanged();
    if (lock && before.wait != now.wait)
        Q_EMIT lock->waitChanged();
    if (lock && before.retryInterval != now.retryInterval)
        Q_EMIT lock->retryIntervalChanged();
    if (lock && before.autoRenew != now.autoRenew)
        Q_EMIT lock->autoRenewChanged();
    if (lock && before.fair != now.fair)
        Q_EMIT lock->fairChanged();
    if (lock && before.mode != now.mode)
        Q_EMIT lock->modeChanged();
}

} // namespace QDistLock
