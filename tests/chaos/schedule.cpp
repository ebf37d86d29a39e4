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

enum Target { OfWorker, OfWay, OfServer };

struct KindInfo
{
    FaultKind kind;
    const char *name;
    Target target;
    int shortest; ///< duration in per cent of the lease
    int longest;
};

constexpr std::array<KindInfo, FaultKinds> kinds = {{
        {FaultKind::WorkerKilled, "worker-killed", OfWorker, 5, 150},
        {FaultKind::WorkerKilledInSection, "worker-killed-in-section", OfWorker, 5, 150},
        {FaultKind::WorkerStoppedBriefly, "worker-stopped-briefly", OfWorker, 10, 90},
        {FaultKind::WorkerStopped, "worker-stopped", OfWorker, 110, 350},
        {FaultKind::WorkerStoppedInSection, "worker-stopped-in-section", OfWorker, 110, 350},
        {FaultKind::LoopBlocked, "loop-blocked", OfWorker, 40, 250},
        {FaultKind::SectionBlocked, "section-blocked", OfWorker, 40, 250},
        {FaultKind::NestedLoop, "nested-loop", OfWorker, 20, 400},

        {FaultKind::ConnectionsReset, "connections-reset", OfWay, 0, 0},
        {FaultKind::CutBeforeCommand, "cut-before-command", OfWay, 0, 0},
        {FaultKind::CutAfterCommand, "cut-after-command", OfWay, 0, 0},
        {FaultKind::ReplyDropped, "reply-dropped", OfWay, 0, 0},
        {FaultKind::BlackHole, "black-hole", OfWay, 50, 500},
        {FaultKind::Latency, "latency", OfWay, 200, 600},
        {FaultKind::RequestsHeld, "requests-held", OfWay, 30, 250},
        {FaultKind::RepliesHeld, "replies-held", OfWay, 30, 250},
        {FaultKind::RepliesSliced, "replies-sliced", OfWay, 200, 600},
        {FaultKind::Bandwidth, "bandwidth", OfWay, 200, 600},
        {FaultKind::ConnectingRefused, "connecting-refused", OfWay, 50, 400},
        {FaultKind::ErrorReplies, "error-replies", OfWay, 0, 0},

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
        {FaultKind::KeysFlushed, "keys-flushed", OfServer, 0, 0},
        {FaultKind::KeyDeleted, "key-deleted", OfServer, 0, 0},
        {FaultKind::KeyOverwritten, "key-overwritten", OfServer, 20, 150},
        {FaultKind::QueueGarbage, "queue-garbage", OfServer, 0, 0},
        {FaultKind::QueueOfAnotherType, "queue-of-another-type", OfServer, 30, 150},
        {FaultKind::FenceDeleted, "fence-deleted", OfServer, 0, 0},
        {FaultKind::ForgedMessages, "forged-messages", OfServer, 0, 0},
}};

// Distributions of the standard library differ between its makers; this does not.
class Random
{
public:
    explicit Random(quint64 seed)
        : m_engine(seed)
    {
    }
    int between(int low, int high)
    {
        return low + int(m_engine() % quint64(high - low + 1));
    }

private:
    std::mt19937_64 m_engine;
};

/// Each kind once before any comes twice.
class Bag
{
public:
    Bag(Target target, Random *random)
        : m_target(target)
        , m_random(random)
    {
    }
    const KindInfo &draw()
    {
        if (m_left.isEmpty()) {
            for (const KindInfo &kind : kinds) {
                if (kind.target == m_target)
                    m_left.append(&kind);
            }
        }
        return *m_left.takeAt(m_random->between(0, int(m_left.size()) - 1));
    }

private:
    const Target m_target;
    Random *const m_random;
    QList<const KindInfo *> m_left;
};

/// Faults of one sort of target: one after the other, or more at a time on different targets.
void drawStream(Target target, int targets, milliseconds shortest, milliseconds longest, quint64 seed,
                const ScheduleOptions &options, QList<Fault> *faults)
{
    constexpr auto rest = 200ms;
    Random random(seed);
    Bag bag(target, &random);
    QList<milliseconds> freeAt(targets, 0ms);
    milliseconds at{random.between(100, int(longest.count()))};
    while (at < options.duration) {
        const KindInfo &kind = bag.draw();
        const int lease = int(options.lease.count());
        const milliseconds duration(random.between(kind.shortest, kind.longest) * lease / 100);
        int hit = random.between(0, targets - 1);
        for (int i = 0; i < targets && freeAt.at(hit) > at; ++i)
            hit = (hit + 1) % targets;
        at = std::max(at, freeAt.at(hit));
        Fault fault{kind.kind, at, duration};
        fault.worker = target == OfWorker ? hit : target == OfWay ? hit / options.servers : -1;
        fault.server = target == OfServer ? hit : target == OfWay ? hit % options.servers : -1;
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
    return kinds.at(size_t(kind)).name;
}

QList<Fault> drawSchedule(const ScheduleOptions &options)
{
    QList<Fault> faults;
    drawStream(OfWorker, options.workers, 300ms, 1100ms, options.seed, options, &faults);
    drawStream(OfWay, options.workers * options.servers, 200ms, 900ms, options.seed + 1'000'003, options, &faults);
    drawStream(OfServer, options.servers, 500ms, 1500ms, options.seed + 2'000'003, options, &faults);
    std::stable_sort(faults.begin(), faults.end(), [](const Fault &a, const Fault &b) { return a.at < b.at; });
    return faults;
}

} // namespace Chaos
