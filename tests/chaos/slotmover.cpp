// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "slotmover.h"

#include "support/clusterslot.h"
#include "support/rediscluster.h"

#include <utility>

using namespace std::chrono_literals;

namespace Chaos {

namespace {

constexpr auto Timeout = 1s;

QByteArray number(qint64 value)
{
    return QByteArray::number(value);
}

} // namespace

SlotMover::SlotMover(History *history, Support::RedisCluster *cluster, const QList<QByteArray> &locks, quint64 seed,
                     View view)
    : m_history(history)
    , m_cluster(cluster)
    , m_locks(locks)
    , m_view(std::move(view))
    , m_random(seed)
{
    m_timer.setSingleShot(true);
    m_timer.setTimerType(Qt::PreciseTimer);
    connect(&m_timer, &QTimer::timeout, this, &SlotMover::act);
}

void SlotMover::start()
{
    next(Step::Rest, 0, 0);
}

void SlotMover::goOn()
{
    m_leavesHalfDone = false;
    const bool isPaused = std::exchange(m_halfDoneSince, 0) > 0;
    if (std::exchange(m_leavesToNobody, false) && isPaused)
        next(Step::Give, 0, 0);
    else if (isPaused)
        next(m_step, 0, 0);
}

std::chrono::nanoseconds SlotMover::halfDoneFor() const
{
    return std::chrono::nanoseconds(m_halfDoneSince > 0 ? bootTime() - m_halfDoneSince : 0);
}

void SlotMover::prefer(int node)
{
    m_preferred = node;
}

void SlotMover::evacuate(int node)
{
    m_preferred = -1;
    m_evacuated = node;
    if (m_step == Step::Rest)
        next(Step::Rest, 0, 0);
}

void SlotMover::next(Step step, int shortest, int longest)
{
    m_step = step;
    m_timer.start(between(shortest, longest));
}

void SlotMover::act()
{
    m_view.update();
    if (m_step == Step::Rest)
        return choose();
    if (m_step == Step::Give)
        return give();
    if (!findMasters())
        return next(m_step, 20, 50); // a fail-over is under way
    if (m_source == m_target)
        return next(Step::Rest, 20, 50);
    const bool isMoving = m_view.isMoving(m_slot, m_source, m_target);
    if (m_step == Step::Begin || !isMoving)
        begin();
    else if (m_step == Step::Move)
        moveKey();
    else
        end();
}

void SlotMover::choose()
{
    m_lock = lockToEvacuate();
    if (m_lock.isEmpty() && m_isStopping)
        return;
    if (m_lock.isEmpty())
        m_lock = m_locks.at(between(0, int(m_locks.size()) - 1));
    m_slot = Support::clusterSlot("lock:" + m_lock);
    m_hasBegun = m_replaces = false;
    m_keysMoved = 0;
    m_source = m_view.ownerOf(m_slot);
    if (m_source >= 0 && chooseTarget())
        next(Step::Begin, 0, 0);
    else
        next(Step::Rest, 20, 50);
}

QByteArray SlotMover::lockToEvacuate() const
{
    for (const QByteArray &lock : m_locks) {
        if (m_evacuated >= 0 && m_view.ownerOf(Support::clusterSlot("lock:" + lock)) == m_evacuated)
            return lock;
    }
    return {};
}

bool SlotMover::chooseTarget()
{
    QList<int> targets = m_view.masters();
    targets.removeAll(m_source);
    targets.removeAll(m_evacuated);
    if (targets.isEmpty())
        return false;
    m_target = targets.at(between(0, int(targets.size()) - 1));
    if (targets.contains(m_preferred) && between(0, 1) == 0)
        m_target = m_preferred;
    return true;
}

bool SlotMover::findMasters()
{
    m_source = m_view.ownerOf(m_slot);
    m_target = m_view.successorOf(m_target);
    const QList<int> masters = m_view.masters();
    return masters.contains(m_source) && masters.contains(m_target);
}

void SlotMover::begin()
{
    m_replaces |= std::exchange(m_hasBegun, true);
    // A node that imports a slot does not learn that the owner was replaced: to it nobody serves the slot.
    if (m_replaces)
        setSlot(m_target, "NODE", m_source);
    if (!setSlot(m_target, "IMPORTING", m_source))
        return next(Step::Begin, 20, 50);
    if (!m_replaces)
        dropKeysAtTarget();
    if (!setSlot(m_source, "MIGRATING", m_target))
        return next(Step::Begin, 20, 50);
    next(Step::Move, 0, 60);
}

/// Left there by a master that was replaced before it had told its replica of a move.
void SlotMover::dropKeysAtTarget()
{
    const QList<QByteArray> keys = keysAt(m_target);
    for (const QByteArray &key : keys) {
        m_cluster->node(m_target).command({"ASKING"}, Timeout);
        m_cluster->node(m_target).command({"DEL", key}, Timeout);
    }
}

QList<QByteArray> SlotMover::keysAt(int node) const
{
    QList<QByteArray> keys;
    const QVariant reply = m_cluster->node(node).command({"CLUSTER", "GETKEYSINSLOT", number(m_slot), "100"}, Timeout);
    const QVariantList list = reply.toList();
    for (const QVariant &key : list)
        keys.append(key.toByteArray());
    return keys;
}

void SlotMover::moveKey()
{
    const QList<QByteArray> keys = keysAt(m_source);
    if (keys.isEmpty())
        return next(Step::End, 0, 60);
    if (m_leavesHalfDone && m_keysMoved > 0) {
        m_halfDoneSince = bootTime(); // until goOn()
        return;
    }
    const QByteArray key = keys.at(between(0, int(keys.size()) - 1));
    // The source serves nobody meanwhile.
    QList<QByteArray> command{"MIGRATE", "127.0.0.1", number(m_cluster->node(m_target).port()), "", "0", "300"};
    if (m_replaces)
        command.append("REPLACE");
    moved(key, m_cluster->node(m_source).command(command + QList<QByteArray>{"KEYS", key}, Timeout).toByteArray());
}

void SlotMover::moved(const QByteArray &key, const QByteArray &reply)
{
    if (reply == "OK" || reply == "NOKEY") { // it may have expired
        m_keysMoved += reply == "OK";
        return next(Step::Move, 0, 60);
    }
    if (reply.contains("BUSYKEY")) {
        m_history->append(Event(bootTime(), "nemesis", m_lock, "move", "fail")
                                  .with("key", key)
                                  .with("from", qint64(m_cluster->node(m_source).port()))
                                  .with("to", qint64(m_cluster->node(m_target).port()))
                                  .with("error", reply));
    }
    m_replaces = true;
    next(Step::Begin, 20, 50);
}

void SlotMover::end()
{
    if (!keysAt(m_source).isEmpty())
        return next(Step::Move, 0, 0);
    if (m_leavesToNobody && setSlot(m_source, "NODE", m_target)) {
        m_halfDoneSince = bootTime(); // until goOn()
        return;
    }
    give();
}

void SlotMover::give()
{
    // The target first: the slot is its own from then on, with a new config epoch.
    m_target = m_view.successorOf(m_target);
    if (!setSlot(m_target, "NODE", m_target))
        return next(m_step == Step::Give ? Step::Give : Step::Begin, 20, 50);
    const QList<int> masters = m_view.masters();
    for (const int master : masters) {
        if (master != m_target)
            setSlot(master, "NODE", m_target);
    }
    m_history->append(Event(bootTime(), "nemesis", m_lock, "move", "ok")
                              .with("from", qint64(m_cluster->node(m_source).port()))
                              .with("to", qint64(m_cluster->node(m_target).port())));
    next(Step::Rest, 20, 600);
}

bool SlotMover::setSlot(int node, const QByteArray &what, int other)
{
    const QVariant reply = m_cluster->node(node).command(
            {"CLUSTER", "SETSLOT", number(m_slot), what, m_cluster->id(other)}, Timeout);
    return reply.toByteArray() == "OK";
}

} // namespace Chaos
