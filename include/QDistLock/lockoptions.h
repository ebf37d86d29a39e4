// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#ifndef QDISTLOCK_LOCKOPTIONS_H
#define QDISTLOCK_LOCKOPTIONS_H

#include <QDistLock/qdistlock_export.h>

#include <QtCore/qstring.h>

#include <chrono>

namespace QDistLock {

/*!
    How a lock is acquired and renewed. A plain value that any thread may use.

    C++20: `LockOptions{.wait = 2s}`; C++17: `LockOptions().withWait(2s)`.
    Values are checked when an acquire begins, not when they are set: an invalid one ends that acquire with
    DistributedLock::OptionsError before anything is sent to the server.
*/
struct LockOptions
{
    /// A value of `wait`: no limit.
    static constexpr std::chrono::milliseconds Forever = (std::chrono::milliseconds::max)();
    /// A value of `maxRetries`: no limit.
    static constexpr int UnlimitedRetries = -1;
    /// The shortest lease. Safety margin and timers would leave nothing of a shorter one, so it is refused.
    static constexpr std::chrono::milliseconds MinimumLease = std::chrono::milliseconds(10);
    /// The longest lease; a longer one is refused.
    static constexpr std::chrono::milliseconds MaximumLease = std::chrono::hours(24);
    /// A value of `permits`: the number that the server has for this name; OptionsError if it has none.
    static constexpr int ServerPermits = -1;
    /// The greatest number of permits; a greater one is refused.
    static constexpr int MaximumPermits = 10'000;

    /// Who may hold the lock at the same time.
    enum Mode : int {
        Exclusive, ///< one owner alone; the writer of a read/write lock
        Shared     ///< any number of readers, while there is no writer
    };

    /// Exclusive, or Shared: readers of one name hold it together, and exclude writers. Waiting readers and writers are
    /// served in the order in which they came, and readers that follow one another together, so that neither starve.
    /// Locks of several modes on one name are one read/write lock. Not with a quorum or without scripts; see
    /// docs/readers-and-writers.md.
    Mode mode = Exclusive;
    /// Greater than 0: the name is a semaphore with this many permits, and the lock holds `take` of them. The first
    /// acquire sets the number on the server; each later one must say the same number or ServerPermits, or it ends with
    /// OptionsError. LockRegistry::setPermits() changes the number; the server forgets it 7 days after the last
    /// acquire. Waiters are served in the order in which they came, so that one that takes many permits is not
    /// overtaken by those that take few. Not with mode Shared: a name has either permits or readers. An Exclusive lock
    /// without permits excludes all holders of permits. 0: no semaphore. Redis and `memory:` only; see
    /// docs/semaphores.md.
    int permits = 0;
    /// How many permits one acquire takes: 1 to `permits`; 1 without permits.
    int take = 1;
    /// Time to live of the key on the server; 10 ms to 24 h.
    std::chrono::milliseconds lease = std::chrono::seconds(30);
    /// Longest wait of one acquire; 0 = a single attempt.
    std::chrono::milliseconds wait = std::chrono::seconds(10);
    /// Interval, with jitter, at which a waiter polls if nothing can wake it; at least 1 ms.
    std::chrono::milliseconds retryInterval = std::chrono::milliseconds(100);
    /// How many retries an acquire may make after its first attempt found the lock taken.
    int maxRetries = UnlimitedRetries;
    /// Renew the lease each time a third of it has passed, while the lock is held.
    bool autoRenew = true;
    /// First come, first served; false = whoever comes first after a release, so that a reader overtakes a writer that
    /// waits, and an acquire of few permits one of many. Without effect on a server that executes no scripts
    /// (`scripts=off`), where nobody waits in a queue.
    bool fair = true;
    /// Keep the key at least this long after the acquisition, even if it is released earlier; at most the lease.
    std::chrono::milliseconds minHold = std::chrono::milliseconds(0);
    /// How many replicas of the server must have the lock, so that it survives a fail-over to one of them. An acquire
    /// succeeds only once that many have confirmed it; otherwise the lock is given back, and the acquire tries again
    /// until `wait` ends. If fewer are connected, it fails at once. Both fail with ReplicationError. A renewal that too
    /// few confirm does not count: the lock is at risk, and lost at its deadline. Redis only; the user needs the right
    /// to WAIT. Locks of one registry that use this share a connection, and wait for each other's replicas.
    int minReplicas = 0;
    /// How long an acquire or a renewal waits for replicas, at least 1 ms; at most a sixth of the lease, and 3 s.
    std::chrono::milliseconds replicaTimeout = std::chrono::seconds(1);
    /// If a key has no time to live, the waiter that finds it sets its own lease. This does not apply if the value is
    /// a deadline, as clients without EXPIRE write it (Unix time in s or ms): that deadline is respected in any case.
    bool repairMissingTtl = true;
    /// The group in which LockMetrics counts the lock. By default LockMetrics makes one of the name, or, for an
    /// annotated slot whose key has values of the call (`order:{id}`), of that key. Only this process knows the label.
    QString label = {};

    /// Sets the field of this name, and returns these options, so that setters can follow each other.
    ///@{
    // One setter per line.
    // clang-format off
    LockOptions &withMode(Mode value) { mode = value; return *this; }
    LockOptions &withPermits(int value) { permits = value; return *this; }
    LockOptions &withTake(int value) { take = value; return *this; }
    LockOptions &withLease(std::chrono::milliseconds value) { lease = value; return *this; }
    LockOptions &withWait(std::chrono::milliseconds value) { wait = value; return *this; }
    LockOptions &withRetryInterval(std::chrono::milliseconds value) { retryInterval = value; return *this; }
    LockOptions &withMaxRetries(int value) { maxRetries = value; return *this; }
    LockOptions &withAutoRenew(bool value) { autoRenew = value; return *this; }
    LockOptions &withFair(bool value) { fair = value; return *this; }
    LockOptions &withMinHold(std::chrono::milliseconds value) { minHold = value; return *this; }
    LockOptions &withMinReplicas(int value) { minReplicas = value; return *this; }
    LockOptions &withReplicaTimeout(std::chrono::milliseconds value) { replicaTimeout = value; return *this; }
    LockOptions &withRepairMissingTtl(bool value) { repairMissingTtl = value; return *this; }
    LockOptions &withLabel(const QString &value) { label = value; return *this; }
    // clang-format on
    ///@}

    /// Describes what is wrong with these options, with the field and its value; empty if they are valid.
    QDISTLOCK_EXPORT QString validationError() const;
};

} // namespace QDistLock

#endif
