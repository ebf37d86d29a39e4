// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#ifndef QDISTLOCK_READWRITELOCK_H
#define QDISTLOCK_READWRITELOCK_H

#include <QDistLock/distributedlock.h>

#include <memory>

namespace QDistLock {

class ReadWriteLockPrivate;

/*!
    A lock that many may hold for reading, or one for writing: two DistributedLock objects with the same name and the
    same owner, which is this object.

    \code
    ReadWriteLock prices(u"prices"_s);
    connect(prices.readLock(), &DistributedLock::acquired, this, &Shop::readPrices);
    prices.readLock()->acquire();
    \endcode

    Waiting readers and writers are served in the order in which they came, and readers that follow one another
    together. So neither readers nor writers wait for ever, and a new reader waits behind a writer that waits.

    Owner: while one of the two locks is held, an acquire of the other one would wait for itself, and ends at once with
    DistributedLock::UpgradeError; call tryUpgrade() or downgrade(). Further acquires of the same lock are nested.

    Fencing: a writer's token is greater than all before it. All readers between two writers have the same token, which
    is greater than that of the writer before them, and smaller than that of the writer after them. So a resource that
    refuses tokens smaller than the greatest it has seen serves readers that read at the same time, and refuses each
    former writer, and each reader from before the last writer.

    A name is a read/write lock if readers use it; who acquires it with a DistributedLock, a ScopedLock or
    `qdistlock run`, or with another library, is a writer. Redis (one server, Sentinel, Cluster), ZooKeeper and
    `memory:` only: a quorum and a server without scripts refuse readers with OptionsError.

    Thread, errors: as DistributedLock. Ownership: the two locks belong to this object; their options are set
    separately, but for LockOptions::mode, which is fixed as their name is, and for permits, which they do not have.
    Algorithm: one queue for readers and writers, with a phase for all readers at its head; see docs/protocol.md.
*/
class QDISTLOCK_EXPORT ReadWriteLock : public QObject
{
    Q_OBJECT
    /// For bindings: the value of the function that reads it.
    ///@{
    Q_PROPERTY(QDistLock::DistributedLock *readLock READ readLock CONSTANT FINAL)
    Q_PROPERTY(QDistLock::DistributedLock *writeLock READ writeLock CONSTANT FINAL)
    ///@}

public:
    /// As the constructors of DistributedLock.
    ///@{
    explicit ReadWriteLock(const LockAddress &address, QObject *parent = nullptr);
    ReadWriteLock(LockRegistry *registry, const QString &name, QObject *parent = nullptr);
    ///@}
    /// Releases what is held, without blocking or emitting a signal.
    ~ReadWriteLock() override;

    /// The name of the lock, without its key prefix.
    QString name() const;
    /// The lock for reading. Never null, unless the application has deleted it.
    DistributedLock *readLock() const;
    /// The lock for writing. Never null, unless the application has deleted it.
    DistributedLock *writeLock() const;

    /// The holder of readLock() becomes the holder of writeLock(), without a gap in which another one could write.
    /// Never waits: if there are other readers, it ends at once with BusyError, because two readers that waited to
    /// become writers would wait for each other. Release the read lock then, acquire the write lock, and read again
    /// what may have changed. readLock() emits released() and writeLock() acquired(), or acquireFailed() and nothing
    /// else. All levels of the read lock end. UpgradeError if it is not held. If the connection is lost meanwhile, the
    /// result is an error, and the read lock is lost if the server had executed the command. With ZooKeeper always
    /// OptionsError, and the read lock stays held.
    QFuture<LockResult> tryUpgrade();
    /// The holder of writeLock() becomes a holder of readLock(), without a gap in which another one could write. The
    /// readers that wait at the head of the queue enter, too. Signals and errors are those of tryUpgrade(), with the
    /// locks exchanged.
    QFuture<LockResult> downgrade();

private:
    Q_DISABLE_COPY_MOVE(ReadWriteLock)
    const std::unique_ptr<ReadWriteLockPrivate> d;
};

} // namespace QDistLock

#endif
