// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#ifndef QDISTLOCK_LOCKINFO_H
#define QDISTLOCK_LOCKINFO_H

#include <QDistLock/distributedlock.h>
#include <QDistLock/lockclient.h>

#include <QtCore/qlist.h>
#include <QtCore/qmetatype.h>
#include <QtCore/qstring.h>

#include <chrono>

namespace QDistLock {

/*!
    The state of one lock on the server at one moment, which may have changed since. A plain value that any thread
    may use.
*/
struct LockInfo
{
    /// The name without its key prefix. In a key that is not UTF-8, each byte that belongs to no character is U+DC80 to
    /// U+DCFF, as with Python's surrogateescape; such a name is good for every function that takes one.
    QString name;
    /// Somebody holds it: the key exists.
    bool held = false;
    /// The holder is another library, or the key was written by hand.
    bool foreign = false;
    /// Who holds it; if several do, the one whose lease ends first. Unless a holder that is not connected connects
    /// again, the lock becomes free after \c remaining.
    LockClient holder;
    /// The number of readers that hold it together; 0 if it is not held in LockOptions::Shared.
    int readerCount = 0;
    /// The number of permits if the name is a semaphore, see LockOptions::permits, also while nobody holds it; 0 if the
    /// server has no number for it.
    int permits = 0;
    /// How many of them are taken. An exclusive holder takes all of them. After LockRegistry::setPermits() more may be
    /// taken than there are.
    int permitsTaken = 0;
    /// Those whose leases end first, \c holder included: of readers 32 at most, of holders of permits those who have
    /// the first 32 permits. Empty for an exclusive holder.
    QList<LockClient> holders;
    /// Time to live of the key; negative = none. If several hold it, the time until the last of their leases ends. If
    /// its value is a deadline, as old clients write it: the time until then, and in the second after it the time
    /// until the lock may be taken over.
    std::chrono::milliseconds remaining{0};
    /// The last fencing token given out for the name; 0 if none is known.
    qint64 fencingToken = 0;
    /// The number of waiters in its queue, including waiters that have died.
    int queueLength = 0;
    /// If not NoError, the server could not be asked, and only \c name has a meaning.
    DistributedLock::Error error = DistributedLock::NoError;
    /// Names lock, server (without secrets), what happened and what to do; empty if there is no error.
    QString errorString;

    /// Several hold it together with permits, or may.
    QDISTLOCK_EXPORT bool isHeldWithPermits() const;
    /// \c holders may not be all of them.
    QDISTLOCK_EXPORT bool hasMoreHolders() const;
    /// False if the holder is known to have no connection, or all that hold it together; the lock then ends with its
    /// lease. True for holders of other libraries, of which nobody knows.
    QDISTLOCK_EXPORT bool isHolderConnected() const;
    /// Who holds it, for people: "nightly on db7, pid 812", "client 1f… (not connected)", "another library"; "nobody".
    /// If several hold it, the one whose lease ends first: "3 readers, among them nightly on db7, pid 812", "the reader
    /// nightly on db7, pid 812", "the holders of 4 of 5 permits, among them nightly on db7, pid 812", "the holder of 2
    /// of 5 permits, nightly on db7, pid 812".
    QDISTLOCK_EXPORT QString holderText() const;
};

/*!
    A client that waits for a lock, at one moment. A plain value that any thread may use.
*/
struct LockWaiter
{
    /// How many waiters are ahead of it; 0 = the next.
    int position = 0;
    /// Who waits.
    LockClient client;
    /// The time since it joined the queue, by the server's clock.
    std::chrono::milliseconds waited{0};
};

} // namespace QDistLock

Q_DECLARE_METATYPE(QDistLock::LockInfo)
Q_DECLARE_METATYPE(QDistLock::LockWaiter)

#endif
