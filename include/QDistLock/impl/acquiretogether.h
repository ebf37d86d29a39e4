// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#ifndef QDISTLOCK_IMPL_ACQUIRETOGETHER_H
#define QDISTLOCK_IMPL_ACQUIRETOGETHER_H

#include <QDistLock/distributedlock.h>

#include <QtCore/qfuture.h>
#include <QtCore/qlist.h>

#include <optional>

namespace QDistLock::Detail {

/// Acquires \a locks with one command, if each of them is free and nobody waits for it, and otherwise none. They must
/// be unlocked, and have one registry, one lease and no permits. For whoever acquires several locks as a MultiLock
/// does, but keeps the others when one is lost.
///
/// The result is -1 once all are held. Otherwise it is the index of the first lock that could not be acquired, whose
/// error() says why. Others may be held nevertheless, because one command has 64 locks at most, and those of one slot
/// of a cluster; the caller releases them. From now on the texts of errors do not say who holds a lock; the caller can
/// ask for that. No future: the server has no such command, or there is only one lock, and nothing was done.
QDISTLOCK_EXPORT std::optional<QFuture<qsizetype>> tryAcquireTogether(const QList<DistributedLock *> &locks);

} // namespace QDistLock::Detail

#endif
