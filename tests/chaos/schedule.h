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
};
inline constexpr int FaultKinds = int(FaultKind::ForgedMessages) + 1;

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
    std::chrono::milliseconds duration{60'000};
    std::chrono::milliseconds lease{300};
    int workers = 8;
    int servers = 2;
    int locksPerServer = 2;
    QList<FaultKind> kinds; ///< all if empty
};

/*!
    The faults of one round, in order of time: the same for the same options on every machine. All kinds are equally
    frequent. Faults of the same worker, link or server do not overlap.
*/
QList<Fault> drawSchedule(const ScheduleOptions &options);

} // namespace Chaos
