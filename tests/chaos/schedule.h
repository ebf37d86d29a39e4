// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qbytearray.h>
#include <QtCore/qlist.h>

#include <chrono>
#include <optional>

namespace Chaos {

/// Faults of a worker, of the link between a worker and a server, and of a server.
enum class FaultKind {
    WorkerKilled,           ///< SIGKILL; a new process replaces the worker
    WorkerKilledInSection,  ///< the worker kills itself inside a critical section
    WorkerStoppedBriefly,   ///< SIGSTOP, and SIGCONT within the lease
    WorkerStopped,          ///< for longer than the lease
    WorkerStoppedInSection, ///< between the check of isHeld() and the write
    LoopBlocked,            ///< the event loop is blocked
    SectionBlocked,         ///< a long critical section blocks the event loop
    NestedLoop,             ///< a slot of the library's signals, or an annotated slot, runs an event loop

    ConnectionsReset,
    CutBeforeCommand,
    CutAfterCommand,
    ReplyDropped,
    BlackHole, ///< half-open connections: discard everything, and stay dead
    Latency,
    RequestsHeld, ///< nothing passes for a while, as with packet loss
    RepliesHeld,
    RepliesSliced,
    Bandwidth,
    ConnectingRefused,
    ErrorReplies, ///< LOADING, OOM, BUSY, READONLY and others

    ServerStopped,     ///< SIGSTOP
    ServerRestarted,   ///< SIGTERM; only a server with an append-only file keeps its keys
    ServerKilled,      ///< SIGKILL; as above
    ClientsPaused,     ///< CLIENT PAUSE
    ServerSleeps,      ///< DEBUG SLEEP
    ClientsKilled,     ///< CLIENT KILL TYPE normal
    SubscribersKilled, ///< CLIENT KILL TYPE pubsub
    ScriptsFlushed,
    OutOfMemory,
    MadeReplica,        ///< of a master that does not exist
    ServerClockForward, ///< its wall clock is set forward, and stays so
    ServerClockBack,
    KeysFlushed, ///< FLUSHALL
    KeyDeleted,
    KeyOverwritten, ///< by a client of another library
    QueueGarbage,   ///< members that are no tokens, or tokens of no waiter
    QueueOfAnotherType,
    FenceDeleted,
    ForgedMessages, ///< grants, invitations and forced releases on the clients' channels

    // Of a service that Sentinels watch, or of a cluster; the first two also of a quorum or of a ZooKeeper ensemble,
    // where there is no fail-over.
    MasterKilled,  ///< SIGKILL; it comes back, empty, after the fail-over
    MasterStopped, ///< SIGSTOP; it comes back as a former master after the fail-over
    MasterSleeps,  ///< DEBUG SLEEP; with Sentinels
    FailedOver,    ///< SENTINEL FAILOVER or CLUSTER FAILOVER, while the master runs
    /// The master, one Sentinel and half of the workers are cut off from the other Sentinels; in a cluster, the master
    /// from the other nodes.
    Partitioned,
    SentinelStale, ///< stopped during a fail-over, so that it still reports the former master afterwards
    SentinelsDown, ///< all are stopped
    /// One names a server that is none of the service's, with a greater epoch, or claims to know hundreds of others.
    SentinelLies,

    // Of a cluster, besides the slots that move all the time.
    TakenOver,      ///< CLUSTER FAILOVER TAKEOVER: the master is not asked, and learns of it afterwards
    SlotLeftMoving, ///< the move of a slot pauses, with some of its keys at each of the two masters
    NodeAdded,      ///< a master that is given slots of the locks, and removed at the end
    SlotGivenAway,  ///< the two masters of a move name each other as the owner of the slot
    NodeForeign,    ///< a replica leaves, and is all of another cluster for a while
};
inline constexpr int FaultKinds = int(FaultKind::NodeForeign) + 1;

enum class EngineKind { Redis, Sentinel, Cluster, Quorum, ZooKeeper };

const char *nameOf(FaultKind kind);
std::optional<FaultKind> kindNamed(const QByteArray &name);

struct Fault
{
    FaultKind kind;
    std::chrono::milliseconds at;       ///< since the start of the round
    std::chrono::milliseconds duration; ///< 0 for a momentary fault
    int worker = -1;                    ///< the index of the worker; -1 if none is hit
    int server = -1;
    int lock = 0;   ///< the index among the server's locks
    int detail = 0; ///< a random number, for the parameters of a kind
};

struct ScheduleOptions
{
    quint64 seed = 1;
    EngineKind engine = EngineKind::Redis;
    std::chrono::milliseconds duration{60'000};
    std::chrono::milliseconds lease{300};
    int workers = 8;
    int servers =
            2; ///< with Sentinels: the Sentinels, to which the links lead; with a cluster: 0, for it has no links;
               ///< with a quorum or ZooKeeper: its servers
    int locksPerServer = 2;
    QList<FaultKind> kinds; ///< all that the engine has if empty
};

/*!
    The faults of one round, in order of time: the same for the same options on every machine. All kinds are equally
    frequent. Faults of the same worker, link or server do not overlap, nor do those of a service.
*/
QList<Fault> drawSchedule(const ScheduleOptions &options);

} // namespace Chaos
