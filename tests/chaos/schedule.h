// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qlist.h>

#include <chrono>

namespace Chaos {

/// What is done to a worker, to its way to a server, or to a server.
enum class FaultKind {
    WorkerKilled,             ///< SIGKILL, and a new process in its place
    WorkerKilledInSection,    ///< by itself, inside a critical section
    WorkerStoppedBriefly,     ///< SIGSTOP, SIGCONT within the lease
    WorkerStopped,            ///< for longer than the lease
    WorkerStoppedInSection,   ///< between the look whether it holds the lock and the write
    LoopBlocked,              ///< the event loop stands still
    SectionBlocked,           ///< the critical section takes long and lets no event through
    NestedLoop,               ///< a slot of the library's signals, or an annotated one, runs an event loop

    ConnectionsReset,
    CutBeforeCommand,
    CutAfterCommand,
    ReplyDropped,
    BlackHole,                ///< half-open: swallows everything, and the connection stays dead
    Latency,
    RequestsHeld,             ///< packet loss that heals: nothing passes for a while
    RepliesHeld,
    RepliesSliced,
    Bandwidth,
    ConnectingRefused,
    ErrorReplies,             ///< LOADING, OOM, BUSY, READONLY and their like

    ServerStopped,            ///< SIGSTOP
    ServerRestarted,          ///< SIGTERM; only a server with an append-only file keeps its keys
    ServerKilled,             ///< SIGKILL, likewise
    ClientsPaused,            ///< CLIENT PAUSE
    ServerSleeps,             ///< DEBUG SLEEP
    ClientsKilled,            ///< CLIENT KILL TYPE normal
    SubscribersKilled,        ///< CLIENT KILL TYPE pubsub
    ScriptsFlushed,
    OutOfMemory,
    MadeReplica,              ///< of a master that is not there
    KeysFlushed,              ///< FLUSHALL
    KeyDeleted,
    KeyOverwritten,           ///< by a client that knows nothing of ours
    QueueGarbage,             ///< members that are no tokens, or belong to nobody
    QueueOfAnotherType,
    FenceDeleted,
    ForgedMessages,           ///< on the clients' channels
};
inline constexpr int FaultKinds = int(FaultKind::ForgedMessages) + 1;

const char *nameOf(FaultKind kind);

struct Fault
{
    FaultKind kind;
    std::chrono::milliseconds at;       ///< since the beginning of the round
    std::chrono::milliseconds duration; ///< 0 for what happens at once
    int worker = -1;                    ///< whom it hits, where it hits one
    int server = -1;
    int lock = 0;                       ///< which of the server's locks
    int detail = 0;                     ///< any number, where a kind leaves something to choose
};

struct ScheduleOptions
{
    quint64 seed = 1;
    std::chrono::milliseconds duration{60'000};
    std::chrono::milliseconds lease{300};
    int workers = 8;
    int servers = 2;
    int locksPerServer = 2;
};

/*!
    The faults of one round, in order of time: the same for the same options on every machine. All kinds
    come equally often. Nobody is hit twice at a time by what is done to workers, to ways, or to servers.
*/
QList<Fault> drawSchedule(const ScheduleOptions &options);

} // namespace Chaos
