// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "schedule.h"

#include <algorithm>
#include <array>
#include <random>

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace Chaos {

namespace {

enum Target { OfWorker, OfLink, OfServer, OfService };

struct KindInfo
{
    FaultKind kind;
    const char *name;
    Target target;
    int shortest; ///< duration in per cent of the lease; of a second for a service
    int longest;
};

constexpr std::array<KindInfo, FaultKinds> Kinds = {{
        {FaultKind::WorkerKilled, "worker-killed", OfWorker, 5, 150},
        {FaultKind::WorkerKilledInSection, "worker-killed-in-section", OfWorker, 5, 150},
        {FaultKind::WorkerStoppedBriefly, "worker-stopped-briefly", OfWorker, 10, 90},
        {FaultKind::WorkerStopped, "worker-stopped", OfWorker, 110, 350},
        {FaultKind::WorkerStoppedInSection, "worker-stopped-in-section", OfWorker, 110, 350},
        {FaultKind::LoopBlocked, "loop-blocked", OfWorker, 40, 250},
        {FaultKind::SectionBlocked, "section-blocked", OfWorker, 40, 250},
        {FaultKind::NestedLoop, "nested-loop", OfWorker, 20, 400},

        {FaultKind::ConnectionsReset, "connections-reset", OfLink, 0, 0},
        {FaultKind::CutBeforeCommand, "cut-before-command", OfLink, 0, 0},
        {FaultKind::CutAfterCommand, "cut-after-command", OfLink, 0, 0},
        {FaultKind::ReplyDropped, "reply-dropped", OfLink, 0, 0},
        {FaultKind::BlackHole, "black-hole", OfLink, 50, 500},
        {FaultKind::Latency, "latency", OfLink, 200, 600},
        {FaultKind::RequestsHeld, "requests-held", OfLink, 30, 250},
        {FaultKind::RepliesHeld, "replies-held", OfLink, 30, 250},
        {FaultKind::RepliesSliced, "replies-sliced", OfLink, 200, 600},
        {FaultKind::Bandwidth, "bandwidth", OfLink, 200, 600},
        {FaultKind::ConnectingRefused, "connecting-refused", OfLink, 50, 400},
        {FaultKind::ErrorReplies, "error-replies", OfLink, 0, 0},

        {FaultKind::ServerStopped, "server-stopped", OfServer, 30, 250},
        {FaultKind::ServerRestarted, "server-restarted", OfServer, 0, 0},
        {FaultKind::ServerKilled, "server-killed", OfServer, 0, 0},
        {FaultKind::ClientsPaused, "clients-paused", OfServer, 30, 250},
        {FaultKind::ServerSleeps, "server-sleeps", OfServer, 30, 250},
        {FaultKind::ClientsKilled, "clients-killed", OfServer, 0, 0},
        {FaultKind::SubscribersKilled, "subscribers-killed", OfServer, 0, 0},
        {FaultKind::ScriptsFlushed, "scripts-flushed", OfServer, 0, 0},
        {FaultKind::OutOfMemory, "out-of-memory", OfServer, 30, 200},
        {FaultKind::MadeReplica, "made-replica", OfServer, 30, 200},
        {FaultKind::ServerClockForward, "server-clock-forward", OfServer, 0, 0},
        // It lasts until the clock has caught up. Otherwise the next fault may lose the counter of fencing tokens, too.
        {FaultKind::ServerClockBack, "server-clock-back", OfServer, 30, 250},
        {FaultKind::KeysFlushed, "keys-flushed", OfServer, 0, 0},
        {FaultKind::KeyDeleted, "key-deleted", OfServer, 0, 0},
        {FaultKind::KeyOverwritten, "key-overwritten", OfServer, 20, 150},
        {FaultKind::QueueGarbage, "queue-garbage", OfServer, 0, 0},
        {FaultKind::QueueOfAnotherType, "queue-of-another-type", OfServer, 30, 150},
        {FaultKind::FenceDeleted, "fence-deleted", OfServer, 0, 0},
        {FaultKind::ForgedMessages, "forged-messages", OfServer, 0, 0},

        // Those that have the master replaced last until it is.
        {FaultKind::MasterKilled, "master-killed", OfService, 50, 250},
        {FaultKind::MasterStopped, "master-stopped", OfService, 50, 300},
        {FaultKind::MasterSleeps, "master-sleeps", OfService, 100, 300},
        {FaultKind::FailedOver, "failed-over", OfService, 10, 100},
        {FaultKind::Partitioned, "partitioned", OfService, 100, 400},
        {FaultKind::SentinelStale, "sentinel-stale", OfService, 100, 300},
        {FaultKind::SentinelsDown, "sentinels-down", OfService, 50, 300},
        {FaultKind::SentinelLies, "sentinel-lies", OfService, 100, 300},
        {FaultKind::TakenOver, "taken-over", OfService, 10, 100},
        {FaultKind::SlotLeftMoving, "slot-left-moving", OfService, 100, 500},
        {FaultKind::NodeAdded, "node-added", OfService, 300, 500},
        {FaultKind::SlotGivenAway, "slot-given-away", OfService, 100, 500},
        {FaultKind::NodeForeign, "node-foreign", OfService, 300, 500},
}};

template<size_t N>
bool isOneOf(FaultKind kind, const std::array<FaultKind, N> &kinds)
{
    return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

bool exists(const KindInfo &kind, EngineKind engine)
{
    constexpr std::array ofCommands = {FaultKind::CutBeforeCommand, FaultKind::CutAfterCommand, FaultKind::ReplyDropped,
                                       FaultKind::ErrorReplies};
    constexpr std::array ofSentinels = {FaultKind::MasterSleeps, FaultKind::SentinelStale, FaultKind::SentinelsDown,
                                        FaultKind::SentinelLies};
    constexpr std::array ofClusters = {FaultKind::TakenOver, FaultKind::SlotLeftMoving, FaultKind::NodeAdded,
                                       FaultKind::SlotGivenAway, FaultKind::NodeForeign};
    switch (engine) {
    case EngineKind::Redis:
        return kind.target != OfService;
    case EngineKind::Sentinel: // links to Sentinels carry no scripts
        return kind.target != OfServer && !isOneOf(kind.kind, ofCommands) && !isOneOf(kind.kind, ofClusters);
    case EngineKind::Quorum:
        return kind.target == OfWorker || kind.target == OfLink || kind.kind == FaultKind::MasterKilled
                || kind.kind == FaultKind::MasterStopped;
    case EngineKind::ZooKeeper: // links carry no commands that are understood
        return (kind.target == OfWorker || kind.target == OfLink || kind.kind == FaultKind::MasterKilled
                || kind.kind == FaultKind::MasterStopped)
                && !isOneOf(kind.kind, ofCommands);
    case EngineKind::Cluster:
        return kind.target == OfWorker || (kind.target == OfService && !isOneOf(kind.kind, ofSentinels));
    }
    return false;
}

// The distributions of the standard library differ between implementations; this one does not.
class Random
{
public:
    explicit Random(quint64 seed)
        : m_engine(seed)
    {
    }
    int between(int low, int high) { return low + int(m_engine() % quint64(high - low + 1)); }

private:
    std::mt19937_64 m_engine;
};

/// Draws each kind once before it draws any kind again.
class Bag
{
public:
    Bag(Target target, const ScheduleOptions &options, Random *random)
        : m_random(random)
    {
        for (const KindInfo &kind : Kinds) {
            if (kind.target == target && exists(kind, options.engine)
                && (options.kinds.isEmpty() || options.kinds.contains(kind.kind)))
                m_all.append(&kind);
        }
    }
    bool isEmpty() const { return m_all.isEmpty(); }
    const KindInfo &draw()
    {
        if (m_left.isEmpty())
            m_left = m_all;
        return *m_left.takeAt(m_random->between(0, int(m_left.size()) - 1));
    }

private:
    Random *const m_random;
    QList<const KindInfo *> m_all;
    QList<const KindInfo *> m_left;
};

/// Draws the faults of one sort of target. Faults of the same target do not overlap.
void drawStream(Target target, int targets, milliseconds shortest, milliseconds longest, quint64 seed,
                const ScheduleOptions &options, QList<Fault> *faults)
{
    constexpr auto rest = 200ms;
    Random random(seed);
    Bag bag(target, options, &random);
    if (bag.isEmpty())
        return;
    QList<milliseconds> freeAt(targets, 0ms);
    milliseconds at{random.between(100, int(longest.count()))};
    while (at < options.duration) {
        const KindInfo &kind = bag.draw();
        const int unit = target == OfService ? 1000 : int(options.lease.count());
        const milliseconds duration(random.between(kind.shortest, kind.longest) * unit / 100);
        int hit = random.between(0, targets - 1);
        for (int i = 0; i < targets && freeAt.at(hit) > at; ++i)
            hit = (hit + 1) % targets;
        at = std::max(at, freeAt.at(hit));
        Fault fault{kind.kind, at, duration};
        fault.worker = target == OfWorker ? hit : target == OfLink ? hit / options.servers : -1;
        fault.server = target == OfServer ? hit : target == OfLink ? hit % options.servers : -1;
        fault.lock = random.between(0, options.locksPerServer - 1);
        fault.detail = random.between(0, 9999);
        freeAt[hit] = at + duration + rest;
        if (at + duration < options.duration)
            faults->append(fault);
        at += milliseconds(random.between(int(shortest.count()), int(longest.count())));
    }
}

} // namespace

const char *nameOf(FaultKind kind)
{
    return Kinds.at(size_t(kind)).name;
}

std::optional<FaultKind> kindNamed(const QByteArray &name)
{
    const auto info = std::find_if(Kinds.begin(), Kinds.end(), [&](const KindInfo &kind) { return kind.name == name; });
    return info == Kinds.end() ? std::nullopt : std::optional(info->kind);
}

QList<Fault> drawSchedule(const ScheduleOptions &options)
{
    QList<Fault> faults;
    drawStream(OfWorker, options.workers, 300ms, 1100ms, options.seed, options, &faults);
    drawStream(OfLink, options.workers * options.servers, 200ms, 900ms, options.seed + 1'000'003, options, &faults);
    drawStream(OfServer, options.servers, 500ms, 1500ms, options.seed + 2'000'003, options, &faults);
    drawStream(OfService, 1, 3000ms, 5000ms, options.seed + 3'000'003, options, &faults);
    std::stable_sort(faults.begin(), faults.end(), [](const Fault &a, const Fault &b) { return a.at < b.at; });
    return faults;
}

} // namespace Chaos
