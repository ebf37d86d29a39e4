// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// `permits`: how many may hold a lock together.

#include "commands.h"
#include "lockview.h"
#include "output.h"
#include "session.h"

#include <QDistLock/LockInfo>
#include <QDistLock/LockResult>
#include <QDistLock/QuitOnSignals>

using namespace Qt::StringLiterals;

using QDistLock::DistributedLock;
using QDistLock::Detail::quoted;

namespace Cli {

namespace {

bool printPermits(const QString &name, int permits, const QJsonObject &more)
{
    QJsonObject object = more;
    object.insert(u"command"_s, info(Command::Permits).name);
    object.insert(u"name"_s, name);
    object.insert(u"permits"_s, permits);
    return printJson(object);
}

int print(Session *session, const QString &name)
{
    const auto lock = session->await(session->registry()->inspect(name));
    if (!lock)
        return session->exitCode();
    if (lock->error != DistributedLock::NoError)
        return session->fail(lock->error, lock->errorString);
    bool printed = true;
    if (isJson())
        printed = printPermits(name, lock->permits, {{u"taken"_s, lock->permitsTaken}});
    else if (lock->permits > 0 || lock->permitsTaken > 0)
        printed = printLine(u"%1, %2 taken"_s.arg(counted(lock->permits, u"permits"_s)).arg(lock->permitsTaken));
    else
        printNote(u"%1 has no permits on the server; the first --limit N sets their number"_s.arg(quoted(name)));
    return !printed ? InternalError : lock->permits > 0 ? Success : NotHeld;
}

} // namespace

int runPermits(const Invocation &invocation)
{
    QDistLock::quitOnSignals();
    Session session(invocation);
    if (!session.isUsable())
        return session.exitCode();
    const QString name = invocation.operands().first();
    if (invocation.operands().size() == 1)
        return print(&session, name);
    const int permits = invocation.operands().at(1).toInt();
    const auto before = session.awaitReply(session.registry()->setPermits(name, permits));
    if (!before)
        return session.exitCode();
    printDetail(u"%1 has %2 now, and had %3 before"_s.arg(quoted(name), counted(permits, u"permits"_s),
                                                          QString::number(*before)));
    return !isJson() || printPermits(name, permits, {{u"before"_s, *before}}) ? Success : InternalError;
}

} // namespace Cli
