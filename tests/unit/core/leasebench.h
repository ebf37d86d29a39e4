// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "core/leasemachine.h"

#include <QtCore/qmetaobject.h>
#include <QtTest/qtest.h>

#include <algorithm>
#include <utility>

using namespace Qt::StringLiterals;

using namespace QDistLock;
using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

using Command = LeaseMachine::Command;
using Outcome = LeaseMachine::Outcome;

template<typename Enum>
QString enumKey(Enum value)
{
    return QString::fromLatin1(QMetaEnum::fromType<Enum>().valueToKey(value));
}

inline QString toText(const Command &command)
{
    switch (command.kind) {
    case Command::Acquire:
        return u"Acquire"_s + (command.freshToken ? u" fresh"_s : QString())
                + (command.enqueue ? u" enqueue"_s : QString());
    case Command::Renew:
        return u"Renew"_s;
    case Command::Release:
        return u"Release"_s;
    case Command::Abandon:
        return u"Abandon"_s;
    }
    return {};
}

inline QString toText(const Outcome &outcome)
{
    const QString id = QString::number(outcome.id);
    switch (outcome.kind) {
    case Outcome::Acquired:
        return u"Acquired "_s + id;
    case Outcome::AcquireFailed:
        return u"AcquireFailed %1 %2"_s.arg(id, enumKey(outcome.error.code));
    case Outcome::ReleaseDone:
        return u"ReleaseDone %1 %2"_s.arg(id, outcome.success ? u"true"_s : u"false"_s);
    case Outcome::Released:
        return u"Released"_s;
    case Outcome::Lost:
        return u"Lost "_s + enumKey(outcome.reason);
    case Outcome::Renewed:
        return u"Renewed"_s;
    case Outcome::AtRisk:
        return u"AtRisk"_s;
    case Outcome::ErrorOccurred:
        return u"ErrorOccurred "_s + enumKey(outcome.error.code);
    case Outcome::ErrorCleared:
        return u"ErrorCleared"_s;
    }
    return {};
}

inline EngineReply granted(qint64 fencingToken = 7)
{
    EngineReply reply;
    reply.status = EngineReply::Granted;
    reply.fencingToken = fencingToken;
    return reply;
}

inline EngineReply taken(milliseconds ttl = 10s)
{
    EngineReply reply;
    reply.status = EngineReply::Taken;
    reply.holderTtl = ttl;
    return reply;
}

/// Taken, and in the queue.
inline EngineReply queued(int position, milliseconds ttl = 30s, bool foreign = false)
{
    EngineReply reply = taken(ttl);
    reply.queuePosition = position;
    reply.arrival = "1000";
    reply.foreignHolder = foreign;
    return reply;
}

inline EngineReply answer(EngineReply::Status status)
{
    EngineReply reply;
    reply.status = status;
    return reply;
}

inline EngineError passing(bool maybeExecuted = false)
{
    EngineError error = EngineError::passing(DistributedLock::ConnectionError, u"gone"_s);
    error.isMaybeExecuted = maybeExecuted;
    return error;
}

inline EngineError permanent()
{
    return EngineError::permanent(DistributedLock::PermissionError, u"forbidden"_s);
}

inline EngineReply failed(const EngineError &error)
{
    EngineReply reply;
    reply.error = error;
    return reply;
}

/// A LeaseMachine with a clock and an engine status that the test sets.
struct Bench : LeaseMachine::EngineStatus
{
    LeaseMachine machine{this};
    LeaseTime now{1h};
    LockOptions options;
    QList<Command> lastCommands;
    QList<Outcome> lastOutcomes;
    bool ready;
    bool wakeable = false;

    explicit Bench(bool isReady = true)
        : ready(isReady)
    {
    }
    bool isEngineReady() const override { return ready; }
    bool canBeWoken() const override { return wakeable; }
    void engineReady()
    {
        ready = true;
        machine.engineReady(now);
    }
    void engineFailed(const EngineError &error)
    {
        ready = false;
        machine.engineFailed(error, now);
    }
    void setWakeable(bool isWakeable)
    {
        if (std::exchange(wakeable, isWakeable) != isWakeable)
            machine.wakeableChanged(now);
    }
    /// Takes the outcomes, then the commands, as text.
    QStringList actions()
    {
        lastOutcomes = machine.takeOutcomes();
        lastCommands = machine.takeCommands();
        QStringList texts;
        for (const Outcome &outcome : std::as_const(lastOutcomes))
            texts.append(toText(outcome));
        for (const Command &command : std::as_const(lastCommands))
            texts.append(toText(command));
        return texts;
    }
    /// The first command of that kind that actions() took last.
    Command command(Command::Kind kind) const
    {
        const auto isWanted = [kind](const Command &command) { return command.kind == kind; };
        const auto it = std::find_if(lastCommands.begin(), lastCommands.end(), isWanted);
        return it == lastCommands.end() ? Command{} : *it;
    }
    /// The first outcome of that kind that actions() took last.
    Outcome outcome(Outcome::Kind kind) const
    {
        const auto isWanted = [kind](const Outcome &outcome) { return outcome.kind == kind; };
        const auto it = std::find_if(lastOutcomes.begin(), lastOutcomes.end(), isWanted);
        return it == lastOutcomes.end() ? Outcome{} : *it;
    }
    void acquire(quint64 id = 1, bool once = false) { machine.acquire(id, once, options, now); }
    /// To the moment \a time after now, as a timer would, or as a suspended machine in one jump.
    void pass(nanoseconds time)
    {
        now += time;
        machine.tick(now);
    }
    /// To the next moment at which something is due.
    void passToWakeUp()
    {
        now = std::max(now, machine.nextWakeUp());
        machine.tick(now);
    }
    /// Held by request 1, sent and answered now.
    void hold()
    {
        acquire();
        machine.acquireReplied(granted(), now);
        actions();
    }
};

/// Compares what the machine has given since the last comparison: outcomes first, then commands.
#define COMPARE_ACTIONS(bench, ...) QCOMPARE((bench).actions(), (QStringList{__VA_ARGS__}))
#define COMPARE_NO_ACTIONS(bench) QCOMPARE((bench).actions(), QStringList())
