// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// `ls` and `show`.

#include "commands.h"
#include "lockview.h"
#include "output.h"
#include "session.h"

#include <QDistLock/LockInfo>
#include <QDistLock/LockResult>
#include <QDistLock/QuitOnSignals>

#include <QtCore/qjsonarray.h>

#include <algorithm>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using QDistLock::DistributedLock;
using QDistLock::LockClient;
using QDistLock::LockInfo;
using QDistLock::LockRegistry;
using QDistLock::LockWaiter;

namespace Cli {

namespace {

/// With --held, --stale and --foreign: any of those that were given.
bool isWanted(const Invocation &invocation, const LockInfo &lock)
{
    const bool held = invocation.has(Option::Held);
    const bool stale = invocation.has(Option::Stale);
    const bool foreign = invocation.has(Option::Foreign);
    return (!held && !stale && !foreign) || (held && !lock.foreign && lock.isHolderConnected())
            || (stale && isStale(lock)) || (foreign && lock.foreign);
}

void sortLocks(QList<LockInfo> *locks, const QString &key)
{
    const auto timeOf = [](const LockInfo &lock) {
        return lock.remaining < 0ms ? std::chrono::milliseconds::max() : lock.remaining;
    };
    std::sort(locks->begin(), locks->end(), [&](const LockInfo &a, const LockInfo &b) {
        if (key == u"ttl" && timeOf(a) != timeOf(b))
            return timeOf(a) < timeOf(b);
        if (key == u"queue" && a.queueLength != b.queueLength)
            return a.queueLength > b.queueLength;
        return QString::compare(a.name, b.name) < 0;
    });
}

bool printTable(const QList<LockInfo> &locks, bool isWide)
{
    Table table({{u"NAME"_s},
                 {u"HOLDER"_s},
                 {u"LEFT"_s, Table::Right},
                 {u"QUEUE"_s, Table::Right},
                 {u"FENCE"_s, Table::Right}},
                !isWide);
    for (const LockInfo &lock : locks) {
        table.addRow({{lock.name, Style::Bold},
                      {lock.holderText(), isStale(lock) ? Style::Yellow : Style::Plain},
                      {remainingText(lock)},
                      {QString::number(lock.queueLength), lock.queueLength > 0 ? Style::Plain : Style::Dim},
                      {lock.foreign ? QString() : QString::number(lock.fencingToken), Style::Dim}});
    }
    return table.print();
}

QJsonObject document(const Session &session, const QJsonArray &locks)
{
    return {{u"command"_s, info(*session.invocation().command()).name},
            {u"server"_s, session.serverText()},
            {u"prefix"_s, session.keyPrefix()},
            {u"locks"_s, locks}};
}

bool printDetails(const LockInfo &lock, const QList<LockWaiter> &waiters)
{
    QStringList lines{styled(printable(lock.name), Style::Bold)};
    const auto addRow = [&lines](const QString &title, const QString &text) {
        lines += u"  %1 %2"_s.arg(title.isEmpty() ? title : title + u':', -9).arg(printable(text));
    };
    const bool hasMore = lock.hasMoreHolders();
    const QString holder = lock.readerCount > 0 ? counted(lock.readerCount, u"readers"_s)
            : lock.isHeldWithPermits()
            ? (hasMore ? u"holders of permits"_s : counted(lock.holders.size(), u"holders"_s) + u" of permits"_s)
            : lock.holderText();
    addRow(u"holder"_s, holder);
    for (const LockClient &client : lock.holders)
        lines += u"    "_s + printable(client.toString()) + (client.connected ? QString() : u", not connected"_s);
    if (hasMore)
        lines += lock.readerCount > 0 ? u"    and %1 more"_s.arg(lock.readerCount - lock.holders.size())
                                      : u"    and perhaps more"_s;
    if (lock.permits > 0)
        addRow(u"permits"_s, u"%1, %2 taken"_s.arg(lock.permits).arg(lock.permitsTaken));
    // The server does not know whether the command has ended or its program was killed.
    if (lock.held && !lock.isHolderConnected())
        addRow({},
               u"acquired by a command that has ended (qdistlock acquire), kept by minHold, or its program is dead"_s);
    else if (lock.held && !lock.foreign && lock.holders.isEmpty() && !holder.contains(lock.holder.id))
        addRow(u"client"_s, lock.holder.id);
    if (lock.held)
        addRow(u"left"_s, remainingText(lock));
    if (lock.fencingToken > 0) {
        const bool isOfHolder = lock.held && !lock.foreign;
        addRow(u"fence"_s, QString::number(lock.fencingToken) + (isOfHolder ? QString() : u" (the last)"_s));
    }
    if (lock.queueLength > 0)
        addRow(u"queue"_s, u"%1 waiting"_s.arg(lock.queueLength));
    for (const LockWaiter &waiter : waiters) {
        lines += u"    %1. %2, for %3%4"_s.arg(waiter.position + 1)
                         .arg(printable(waiter.client.toString()), roughText(waiter.waited),
                              waiter.client.connected ? QString() : u", not connected"_s);
    }
    return printLine(lines.join(u'\n'));
}

} // namespace

int runList(const Invocation &invocation)
{
    QDistLock::quitOnSignals();
    Session session(invocation);
    if (!session.isUsable())
        return session.exitCode();
    const auto found = session.awaitReply(session.registry()->list(invocation.operands().value(0, u"*"_s)));
    if (!found)
        return session.exitCode();

    QList<LockInfo> locks;
    std::copy_if(found->begin(), found->end(), std::back_inserter(locks),
                 [&invocation](const LockInfo &lock) { return isWanted(invocation, lock); });
    sortLocks(&locks, invocation.text(Option::Sort));
    bool printed = true;
    if (isJson()) {
        QJsonArray array;
        for (const LockInfo &lock : std::as_const(locks))
            array.append(toJson(lock));
        printed = printJson(document(session, array));
    } else if (invocation.has(Option::Names)) {
        for (const LockInfo &lock : std::as_const(locks))
            printed = printed && printLine(printable(lock.name));
    } else {
        printed = printTable(locks, invocation.has(Option::Wide));
    }
    return printed ? Success : InternalError;
}

int runShow(const Invocation &invocation)
{
    QDistLock::quitOnSignals();
    Session session(invocation);
    if (!session.isUsable())
        return session.exitCode();
    LockRegistry *const registry = session.registry();
    QList<QFuture<LockInfo>> inspections;
    const QStringList names = invocation.operands();
    for (const QString &name : names)
        inspections.append(registry->inspect(name));

    QJsonArray array;
    bool printed = true;
    int code = Success;
    for (const QFuture<LockInfo> &inspection : std::as_const(inspections)) {
        const auto lock = session.await(inspection);
        if (!lock)
            return session.exitCode();
        if (lock->error != DistributedLock::NoError) {
            printError(lock->errorString); // the others are shown all the same
            code = session.exitCodeOf(lock->error, lock->errorString);
            continue;
        }
        if (!lock->held && code == Success)
            code = NotHeld;
        QList<LockWaiter> waiters;
        if (lock->queueLength > 0) {
            const auto found = session.await(registry->waiters(lock->name));
            if (!found)
                return session.exitCode();
            if (!*found)
                printNote(u"its queue is not known: %1"_s.arg(found->errorString));
            waiters = found->value;
        }
        if (isJson()) {
            QJsonObject object = toJson(*lock);
            QJsonArray queue;
            for (const LockWaiter &waiter : std::as_const(waiters))
                queue.append(toJson(waiter));
            object.insert(u"waiters"_s, queue);
            array.append(object);
        } else {
            printed = printed && printDetails(*lock, waiters);
        }
    }
    if (isJson())
        printed = printJson(document(session, array));
    return printed ? code : InternalError;
}

} // namespace Cli
