// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// `acquire`, `renew` and `release`: locks that outlive the process which acquired them.

#include "commands.h"
#include "lockset.h"
#include "lockview.h"
#include "output.h"
#include "session.h"
#include "tokenfile.h"
#include "waitprogress.h"

#include <QDistLock/DistributedLock>
#include <QDistLock/LockResult>
#include <QDistLock/QuitOnSignals>

#include <QtCore/qcoreapplication.h>
#include <QtCore/qdatetime.h>
#include <QtCore/qfileinfo.h>
#include <QtCore/qmetaobject.h>
#include <QtCore/qpromise.h>
#include <QtCore/qsocketnotifier.h>

#include <algorithm>
#include <array>
#include <memory>

#include <signal.h>
#include <unistd.h>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using QDistLock::DistributedLock;
using QDistLock::LockInfo;
using QDistLock::LockOptions;
using QDistLock::LockRegistry;
using QDistLock::Detail::quoted;
using std::chrono::milliseconds;

namespace Cli {

namespace {

int usageError(const Invocation &invocation, const QString &text)
{
    printError(u"%1; see %2 --help"_s.arg(text, invocation.commandText()));
    return UsageError;
}

/// The content of --token-file, if it belongs to the lock that was named. Null after an error, which is printed.
std::optional<TokenFile> readTokenFile(const Session &session)
{
    const Invocation &invocation = session.invocation();
    const QString path = invocation.text(Option::TokenFile);
    QString error;
    const auto file = TokenFile::read(path, &error);
    const QString name = invocation.operands().first();
    const QString prefix = session.keyPrefix();
    if (file && file->name != name)
        error = u"the token file %1 belongs to lock %2, not to %3; name the file that belongs to it"_s.arg(
                quoted(path), quoted(file->name), quoted(name));
    else if (file && file->prefix != prefix)
        error = u"the token file %1 belongs to a lock with the key prefix %2, not %3; give the same --prefix as to acquire"_s
                        .arg(quoted(path), quoted(file->prefix), quoted(prefix));
    if (error.isEmpty())
        return file;
    printError(error);
    return std::nullopt;
}

/// Why an existing token file is not replaced: the lock that it belongs to, and whether that is still held.
QString existingTokenFile(Session *session, const TokenFile &file)
{
    const QString belongs = u"the token file %1 exists, and belongs to lock %2"_s.arg(
            quoted(session->invocation().text(Option::TokenFile)), quoted(file.name));
    LockRegistry *const registry = session->registry();
    registry->setKeyPrefix(file.prefix);
    const auto info = session->await(registry->inspect(file.name));
    if (!info || info->error) {
        return u"%1. Whether that is still held is not known. Give another --token-file, one for each acquire"_s.arg(
                belongs);
    }
    const bool isSame = info->held && !info->foreign && info->fencingToken == file.fencingToken;
    const bool arePermits = info->isHeldWithPermits(); // of which the last one was given out with that fencing token
    if (arePermits || (isSame && info->readerCount > 0)) { // which share it
        return u"%1, which %2 hold, perhaps still with it. Give another --token-file, one for each acquire, or release that lock first"_s
                .arg(belongs, arePermits ? u"holders of permits"_s : u"readers"_s);
    }
    return isSame
            ? u"%1, which is still held with it. Give another --token-file, one for each acquire, or release that lock first"_s
                      .arg(belongs)
            : u"%1, which it holds no longer. Remove it, or give another --token-file, one for each acquire"_s.arg(
                    belongs);
}

/// Releases a lock that was acquired in vain. False if it is still held.
bool giveBack(Session *session, const TokenFile &file)
{
    const auto release = [&] { return session->await(session->registry()->release(file.name, file.token)); };
    auto reply = release();
    if (reply && !*reply)
        reply = release(); // a connection that was cut may be there again
    return reply && *reply;
}

QString textOfGivingBack(bool isReleased)
{
    return isReleased ? u"was released again"_s : u"could not be released again, and is held until its lease ends"_s;
}

/// The rest of the time for which the lock must remain taken, see --min-hold.
milliseconds timeToKeep(const TokenFile &file)
{
    if (file.minHoldUntil == 0)
        return 0ms;
    const milliseconds rest(file.minHoldUntil - QDateTime::currentMSecsSinceEpoch());
    return std::clamp<milliseconds>(rest, 0ms, file.lease); // it was at most the lease; a clock may have been set
}

/// One line from the terminal. Ends with \a parent.
QFuture<QByteArray> readLine(QObject *parent)
{
    auto *const notifier = new QSocketNotifier(STDIN_FILENO, QSocketNotifier::Read, parent);
    const auto promise = std::make_shared<QPromise<QByteArray>>();
    promise->start();
    QObject::connect(notifier, &QSocketNotifier::activated, notifier, [notifier, promise] {
        notifier->setEnabled(false);
        std::array<char, 100> line;
        const ssize_t size = ::read(STDIN_FILENO, line.data(), line.size()); // a terminal gives one line at a time
        promise->addResult(QByteArray(line.data(), std::max<ssize_t>(size, 0)));
        promise->finish();
    });
    return promise->future();
}

} // namespace

int runAcquire(const Invocation &invocation)
{
    if (!invocation.has(Option::TokenFile))
        return usageError(invocation, u"--token-file is missing: nothing could release the lock without it"_s);
    if (!invocation.has(Option::Lease))
        return usageError(invocation, u"--lease is missing: for how long is the lock needed? Nothing renews it"_s);
    QDistLock::quitOnSignals();
    // What cannot be written must not end this program while it holds the lock: nobody would release it.
    for (const int number : {SIGPIPE, SIGXFSZ})
        ::signal(number, SIG_IGN);
    Session session(invocation);
    if (!session.isUsable())
        return session.exitCode();
    if (const QString error = session.usageError(); !error.isEmpty())
        return usageError(invocation, error);
    const QString path = invocation.text(Option::TokenFile);
    TokenFileWriter writer(path);
    if (!writer.create()) {
        QString ignored;
        const auto existing = QFileInfo(path).isFile() ? TokenFile::read(path, &ignored) : std::nullopt;
        return session.fail(UsageError, existing ? existingTokenFile(&session, *existing) : writer.errorString());
    }

    const QString name = invocation.operands().first();
    const LockOptions options = session.lockOptions();
    LockSet locks(&session, {name});
    const WaitProgress progress(&session, &locks);
    QObject::connect(&locks, &LockSet::failed, &locks, [](int exitCode) { QCoreApplication::exit(exitCode); });
    QMetaObject::invokeMethod(&locks, &LockSet::acquire, Qt::QueuedConnection);
    if (!session.await(QtFuture::connect(&locks, &LockSet::acquired).then([] { return true; })))
        return session.exitCode();
    DistributedLock *const lock = locks.presentLock();

    TokenFile file;
    file.name = name;
    file.prefix = session.keyPrefix();
    file.fencingToken = lock->fencingToken();
    file.lease = options.lease;
    if (options.minHold > 0ms)
        file.minHoldUntil = QDateTime::currentMSecsSinceEpoch() + options.minHold.count();
    QJsonObject acquired{
            {u"fence"_s, file.fencingToken}, {u"leaseMs"_s, qint64(file.lease.count())}, {u"tokenFile"_s, path}};
    addSlots(&acquired, heldSlots(lock));
    file.token = lock->detach();
    if (file.token.isEmpty())
        return session.fail(LockLost,
                            u"lock %1: its lease ended at once; give it a longer --lease"_s.arg(quoted(name)));
    if (!writer.commit(file)) {
        const bool isReleased = giveBack(&session, file);
        return session.fail(InternalError,
                            u"%1. The lock %2"_s.arg(writer.errorString(), textOfGivingBack(isReleased)));
    }
    const bool printed = isJson() ? printOutcome(name, u"acquired"_s, acquired)
                                  : isQuiet() || printLine(QString::number(file.fencingToken));
    if (!printed) {
        const bool isReleased = giveBack(&session, file);
        if (isReleased)
            file.remove(path);
        return session.fail(InternalError,
                            u"the fencing token could not be printed (-q prints none): lock %1 %2"_s.arg(
                                    quoted(name), textOfGivingBack(isReleased)));
    }
    return Success;
}

int runRenew(const Invocation &invocation)
{
    if (!invocation.has(Option::TokenFile))
        return usageError(invocation, u"--token-file is missing: it proves who holds the lock"_s);
    Session session(invocation);
    if (!session.isUsable())
        return session.exitCode();
    if (const QString error = session.usageError(); !error.isEmpty())
        return usageError(invocation, error);
    const auto file = readTokenFile(session);
    if (!file)
        return UsageError;
    QDistLock::quitOnSignals(); // a signal ends a read that waits
    const milliseconds lease = invocation.duration(Option::Lease).value_or(file->lease);
    const auto outcome = session.awaitReply(session.registry()->renew(file->name, file->token, lease));
    if (!outcome)
        return session.exitCode();
    switch (*outcome) {
    case LockRegistry::Done:
        printDetail(u"lock %1: renewed for %2"_s.arg(quoted(file->name), durationText(lease)));
        return printOutcome(file->name, u"renewed"_s, {{u"leaseMs"_s, qint64(lease.count())}}) ? Success
                                                                                               : InternalError;
    case LockRegistry::NotHeld:
        printOutcome(file->name, u"notHeld"_s);
        return session.fail(LockLost,
                            u"lock %1: it was lost; its lease has ended, or it was released. Acquire it again"_s.arg(
                                    quoted(file->name)));
    case LockRegistry::OtherHolder:
        printOutcome(file->name, u"otherHolder"_s);
        return session.fail(LockLost,
                            u"lock %1: it was lost, and somebody else holds it; `qdistlock show` says who"_s.arg(
                                    quoted(file->name)));
    }
    Q_UNREACHABLE();
}

namespace {

/// Takes a lock away from its holder.
class ForcedRelease
{
public:
    explicit ForcedRelease(Session *session)
        : m_session(session)
        , m_invocation(session->invocation())
        , m_name(m_invocation.operands().first())
    {
    }
    int run();

private:
    bool ask();
    int notHeld();
    int otherHolder();

    Session *const m_session;
    const Invocation &m_invocation;
    const QString m_name;
    LockInfo m_shown;
};

int ForcedRelease::notHeld()
{
    printOutcome(m_name, u"notHeld"_s);
    printNote(u"lock %1: nobody holds it"_s.arg(quoted(m_name)));
    return NotHeld;
}

int ForcedRelease::otherHolder()
{
    printOutcome(m_name, u"otherHolder"_s);
    return m_session->fail(
            Busy,
            u"lock %1 was left to its holder, which is another one than was meant; `qdistlock show` says who it is"_s
                    .arg(quoted(m_name)));
}

/// False if the answer is not "yes", or after a failure.
bool ForcedRelease::ask()
{
    StatusLine::clear();
    const QString who = m_shown.queueLength == 0
            ? m_shown.holderText()
            : u"%1 (and %2 waiting)"_s.arg(m_shown.holderText()).arg(m_shown.queueLength);
    const bool areSeveral = m_shown.holders.size() > 1 || m_shown.hasMoreHolders();
    printNote(
            u"lock %1 is held by %2. If it is taken away, two may work at the same time until %3 noticed. Take the lock away? [y/N]"_s
                    .arg(quoted(m_name), who,
                         m_shown.readerCount > 1 ? u"all readers have"_s
                                 : areSeveral    ? u"all holders have"_s
                                                 : u"the holder has"_s));
    const auto answer = m_session->await(readLine(m_session));
    if (!answer)
        return false;
    const QByteArray word = answer->trimmed().toLower();
    if (word == "y" || word == "yes")
        return true;
    m_session->fail(Busy, u"lock %1 was left to its holder, because the answer was not y"_s.arg(quoted(m_name)));
    return false;
}

int ForcedRelease::run()
{
    LockRegistry *const registry = m_session->registry();
    const auto shown = m_session->await(registry->inspect(m_name));
    if (!shown)
        return m_session->exitCode();
    if (shown->error != DistributedLock::NoError)
        return m_session->fail(shown->error, shown->errorString);
    m_shown = *shown;
    if (!m_shown.held)
        return notHeld();
    qint64 meant = m_invocation.number(Option::Expect).value_or(0);
    if (m_invocation.has(Option::Expect) && (m_shown.foreign || m_shown.fencingToken != meant))
        return otherHolder();
    if (!m_invocation.has(Option::Yes)) {
        if (!ask())
            return m_session->exitCode();
        // The answer is about the holder that was shown. One of another library has no number by which it is known.
        if (!m_shown.foreign)
            meant = m_shown.fencingToken;
    }

    const auto outcome = m_session->awaitReply(meant > 0 ? registry->forceRelease(m_name, meant)
                                                         : registry->forceRelease(m_name));
    if (!outcome)
        return m_session->exitCode();
    switch (*outcome) {
    case LockRegistry::Done:
        printDetail(u"lock %1: taken away from %2"_s.arg(quoted(m_name), m_shown.holderText()));
        return printOutcome(m_name, u"takenAway"_s) ? Success : InternalError;
    case LockRegistry::NotHeld:
        return notHeld();
    case LockRegistry::OtherHolder:
        return otherHolder();
    }
    Q_UNREACHABLE();
}

} // namespace

int runRelease(const Invocation &invocation)
{
    const int ways = int(invocation.has(Option::TokenFile)) + int(invocation.has(Option::Token))
            + int(invocation.has(Option::Force));
    if (ways != 1)
        return usageError(invocation, u"give --token-file FILE, --token TOKEN or --force, and only one of them"_s);
    if (!invocation.has(Option::Force) && (invocation.has(Option::Expect) || invocation.has(Option::Yes)))
        return usageError(invocation, u"--expect and --yes need --force"_s);
    if (invocation.has(Option::Force) && !invocation.has(Option::Yes) && ::isatty(STDIN_FILENO) != 1)
        return usageError(invocation, u"standard input is not a terminal, so nobody can be asked; add --yes"_s);
    Session session(invocation);
    if (!session.isUsable())
        return session.exitCode();
    if (invocation.has(Option::Force)) {
        QDistLock::quitOnSignals();
        return ForcedRelease(&session).run();
    }

    const QString name = invocation.operands().first();
    TokenFile file;
    file.token = invocation.text(Option::Token).toLatin1();
    if (invocation.has(Option::TokenFile)) {
        const auto content = readTokenFile(session);
        if (!content)
            return UsageError;
        file = *content;
    }
    QDistLock::quitOnSignals(); // a signal ends a read that waits
    const auto outcome = session.awaitReply(session.registry()->release(name, file.token, timeToKeep(file)));
    if (!outcome)
        return session.exitCode();
    if (invocation.has(Option::TokenFile))
        file.remove(invocation.text(Option::TokenFile));
    switch (*outcome) {
    case LockRegistry::Done:
        return printOutcome(name, u"released"_s) ? Success : InternalError;
    case LockRegistry::NotHeld:
        printOutcome(name, u"notHeld"_s);
        printNote(u"lock %1: it was not held any more; its lease has ended, or it was released before"_s.arg(
                quoted(name)));
        return NotHeld;
    case LockRegistry::OtherHolder:
        printOutcome(name, u"otherHolder"_s);
        return session.fail(
                Busy,
                u"lock %1: somebody else holds it, and was left alone; the lease of this token has ended. `qdistlock show` says who holds it"_s
                        .arg(quoted(name)));
    }
    Q_UNREACHABLE();
}

} // namespace Cli
