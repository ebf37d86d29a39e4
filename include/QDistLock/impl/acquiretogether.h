// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#ifndef QDISTLOCK_IMPL_ACQUIRETOGETHER_H
#define QDISTLOCK_IMPL_ACQUIRETOGETHER_H

#include <QDistLock/distributedlock.h>

#include <QtCore/qfuture.h>
#include <QtCore/qlist.h>

#include <optional>

namespace QDistLock::Detail {

/// For whoever acquires several locks as a MultiLock does, but keeps the others when one is lost. Acquires \a locks
/// with one command if each of them is free and nobody waits for it, and otherwise none. They must be unlocked, and
/// have one registry, one lease and no permits. Their errorString() does not say any more who holds a lock; the caller
/// can ask.
///
/// The result is -1 once all are held. Otherwise it is the index of the first lock that could not be acquired, whose
/// error() says why. Then the caller must release the others: some may be held, because more than 64 locks, and locks
/// in different slots of a cluster, need several commands. If the server has no such command, nothing is done, and
/// there is no future.
///
/// Thread: that of the locks, which needs an event loop. The future ends there.
QDISTLOCK_EXPORT std::optional<QFuture<qsizetype>> tryAcquireTogether(const QList<DistributedLock *> &locks);

} // namespace QDistLock::Detail

#endif
