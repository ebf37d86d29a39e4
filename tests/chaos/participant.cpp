// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "participant.h"

#include <QtCore/qeventloop.h>
#include <QtCore/qtimer.h>

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

using namespace std::chrono_literals;
using QDistLock::LockOptions;
using std::chrono::microseconds;
using std::chrono::milliseconds;

namespace Chaos {
namespace {

/// Writes to standard output. Thread-safe.
void print(const char *line)
{
    [[maybe_unused]] const ssize_t written = ::write(STDOUT_FILENO, line, std::strlen(line));
}

} // namespace

bool InjectedFaults::applyNext()
{
    const int next = m_next.exchange(Nothing);
    switch (next) {
    case Nothing:
        return false;
    case Stop:
        print("section stopped\n");
        ::raise(SIGSTOP); // this thread does not continue before the nemesis sends SIGCONT
        print("section continued\n");
        return true;
    case Die:
        ::kill(::getpid(), SIGKILL);
        return true;
    default: {
        timespec rest{next / 1000, next % 1000 * 1'000'000L};
        while (::nanosleep(&rest, &rest) != 0) {
        }
        return true;
    }
    }
}

QByteArray InjectedFaults::takeNext()
{
    const int next = m_next.exchange(Nothing);
    switch (next) {
    case Nothing:
        return {};
    case Stop:
        return "stop";
    case Die:
        return "die";
    default:
        return "block " + QByteArray::number(next);
    }
}

void InjectedFaults::runNestedLoop()
{
    const int ms = m_nested.exchange(0);
    if (ms == 0)
        return;
    QEventLoop loop;
    QTimer::singleShot(ms, &loop, &QEventLoop::quit);
    loop.exec();
}

Participant::Participant(const Settings &settings, const LockSettings &lock, History *history, InjectedFaults *faults)
    : m_process(settings.process)
    , m_lock(lock)
    , m_lease(settings.lease)
    , m_replicas(settings.replicas)
    , m_hasReaders(settings.readers)
    , m_permits(settings.permits)
    , m_history(history)
    , m_faults(faults)
    , m_resource(settings.resource)
    , m_random(settings.seed ^ (quint64(qHash(lock.name, 1)) << 32) ^ qHash(settings.process, 2))
{
}

Event Participant::event(qint64 time, const char *operation, const char *type) const
{
    Event event(time, m_process, m_lock.name, operation, type);
    if (!m_lock.with.isEmpty())
        event.with("with", m_lock.with);
    return event;
}

/// The result of isHeld(), which was called after the time of the event. If false, "by" is the latest time at which it
/// became so.
void Participant::addObservation(Event *event, bool held)
{
    event->with("held", held);
    if (!held)
        event->with("by", bootTime());
}

microseconds Participant::drawPause()
{
    return below(20) == 0 ? milliseconds(below(100)) : microseconds(below(2000));
}

microseconds Participant::drawHold()
{
    const quint64 draw = below(100);
    // With longer leases everybody must still have a turn within the round's bound.
    const microseconds unit = std::min<microseconds>(m_lease, 600ms);
    if (m_lock.slow && draw < 6)
        return unit * (150 + below(300)) / 100;
    if (m_lock.slow && draw < 20)
        return unit * (20 + below(130)) / 100;
    if (draw < 60)
        return 0us;
    return draw < 96 ? microseconds(below(3000)) : milliseconds(10 + below(50));
}

/// Every participant must soon have a turn in both ways.
bool Participant::drawShared()
{
    constexpr int InARowAtMost = 7;
    if (m_sharedInARow == InARowAtMost || below(4) == 0) {
        m_sharedInARow = 0;
        return false;
    }
    ++m_sharedInARow;
    return true;
}

LockOptions Participant::drawOptions()
{
    if (isShared())
        m_shared = drawShared();
    m_take = m_permits > 1 && m_shared && below(4) == 0 ? 2 : 1;
    const quint64 draw = below(100);
    const milliseconds wait = draw < 70 ? LockOptions::Forever : draw < 90 ? milliseconds(50 + below(3000)) : 0ms;
    // If it is shared, fair and unfair clients wait for the same lock, and some leave the key behind for a while.
    const bool isFair = m_lock.fair != (isShared() && below(4) == 0);
    const milliseconds minHold = isShared() && below(20) == 0 ? std::min<milliseconds>(m_lease, 600ms) / 4 : 0ms;
    return LockOptions()
            .withMode(m_shared && m_hasReaders ? LockOptions::Shared : LockOptions::Exclusive)
            .withPermits(m_shared ? m_permits : 0)
            .withTake(m_take)
            .withLease(m_lease)
            .withWait(wait)
            .withRetryInterval(20ms)
            .withFair(isFair)
            .withMinHold(minHold)
            .withMinReplicas(m_replicas)
            .withReplicaTimeout(m_replicas > 0 ? m_lease / 5 : milliseconds(1s));
}

void Participant::acquireInvoked()
{
    m_history->append(event(bootTime(), "acquire", "invoke"));
}

void Participant::acquired(qint64 fencingToken, qint64 time, std::chrono::nanoseconds remaining, const IsHeld &isHeld,
                           const QList<int> &permitSlots)
{
    m_token = fencingToken;
    m_heldUntil = 0;
    m_seenNotHeld = false;
    const bool held = isHeld();
    if (held)
        m_heldUntil = time;
    Event acquired = event(time, "acquire", "ok").with("token", fencingToken);
    if (m_shared && m_hasReaders)
        acquired.with("mode", QByteArray("shared"));
    else if (m_shared)
        acquired.with("take", qint64(m_take)).with("permits", qint64(m_permits));
    QByteArrayList numbers;
    for (const int slot : permitSlots)
        numbers.append(QByteArray::number(slot));
    if (!numbers.isEmpty())
        acquired.with("slots", numbers.join(','));
    addObservation(&acquired, held);
    if (remaining > 0ns)
        acquired.with("deadline", qint64(time + remaining.count()));
    m_history->append(acquired);
    m_seenNotHeld = !held;
    ++m_acquisitions.at(m_shared);
}

void Participant::acquireFailed(const QByteArray &error)
{
    m_history->append(event(bootTime(), "acquire", "fail").with("error", error));
}

void Participant::renewed(qint64 time, std::chrono::nanoseconds remaining, const IsHeld &isHeld)
{
    const bool held = isHeld();
    Event renewed = event(time, "renew", "ok").with("token", m_token);
    addObservation(&renewed, held);
    if (remaining > 0ns)
        renewed.with("deadline", qint64(time + remaining.count()));
    m_history->append(renewed);
    if (held)
        m_heldUntil = time;
    else
        m_seenNotHeld = true;
}

bool Participant::observe(const IsHeld &isHeld)
{
    const qint64 time = bootTime();
    const bool held = isHeld();
    if (held)
        m_heldUntil = time;
    if (held == m_seenNotHeld) {
        Event observed = event(time, "hold", "info").with("token", m_token);
        addObservation(&observed, held);
        m_history->append(observed);
    }
    m_seenNotHeld = !held;
    return held;
}

void Participant::write(const IsHeld &isHeld)
{
    if (!observe(isHeld))
        return;
    update(isHeld);
    observe(isHeld);
}

void Participant::writeUnseen()
{
    update(nullptr);
}

void Participant::update(const IsHeld &isHeld)
{
    const qint64 from = bootTime();
    const qint64 read = m_resource.counter(m_lock.name);
    if (m_faults->applyNext() && isHeld)
        observe(isHeld); // the first thing after the fault
    const GuardedResource::Written written = m_resource.write(m_lock.name, m_token);
    const qint64 replaced = m_shared ? m_resource.counter(m_lock.name) : m_resource.setCounter(m_lock.name, read + 1);
    wrote(from, bootTime(), read, replaced, written);
}

void Participant::wrote(qint64 from, qint64 to, qint64 read, qint64 replaced, const GuardedResource::Written &written)
{
    m_history->append(event(to, "write", "ok")
                              .with("token", m_token)
                              .with("from", from)
                              .with("accepted", written.accepted)
                              .with("sequence", written.sequence)
                              .with("read", read)
                              .with("replaced", replaced));
}

void Participant::releaseInvoked(const IsHeld &isHeld)
{
    const qint64 time = bootTime();
    const bool held = isHeld();
    if (held)
        m_heldUntil = time;
    else
        m_seenNotHeld = true;
    Event released = event(time, "release", "invoke").with("token", m_token).with("heldUntil", m_heldUntil);
    addObservation(&released, held);
    m_history->append(released);
}

void Participant::releasedAfter(qint64 time)
{
    m_heldUntil = time;
    m_history->append(
            event(time, "release", "invoke").with("token", m_token).with("heldUntil", m_heldUntil).with("held", true));
}

void Participant::released()
{
    m_history->append(event(bootTime(), "release", "ok").with("token", m_token));
}

void Participant::lost(const QByteArray &reason)
{
    m_history->append(event(bootTime(), "hold", "fail")
                              .with("token", m_token)
                              .with("reason", reason)
                              .with("heldUntil", m_heldUntil));
}

} // namespace Chaos
