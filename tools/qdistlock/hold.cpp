// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "commands.h"
#include "endwatch.h"
#include "exitcodes.h"
#include "lockset.h"
#include "lockview.h"
#include "output.h"
#include "session.h"
#include "unixsignals.h"
#include "waitprogress.h"

#include <QtCore/qcoreapplication.h>
#include <QtCore/qmetaobject.h>
#include <QtCore/qsocketnotifier.h>

#include <memory>

#include <poll.h>
#include <signal.h>
#include <unistd.h>

using namespace Qt::StringLiterals;

using QDistLock::DistributedLock;
using QDistLock::Detail::quoted;

namespace Cli {

namespace {

/// False if a write would wait until somebody reads.
bool isOutputReady()
{
    pollfd output{STDOUT_FILENO, POLLOUT, 0};
    return ::poll(&output, 1, 0) != 0;
}

/// The life of one `hold`.
class Holder : public QObject
{
    Q_OBJECT

public:
    Holder(Session *session, UnixSignals *signalSource);

    void start();

private:
    void watch();
    void acquired();
    void tell();
    void lost(DistributedLock *lock, DistributedLock::LossReason reason);
    void end(const QString &why, int exitCode);
    void signalReceived(int number);

    Session *const m_session;
    LockSet m_locks;
    WaitProgress m_progress;
    EndWatch m_watch;
    std::unique_ptr<QSocketNotifier> m_outputNotifier;
    bool m_isEnding = false;
    int m_exitCode = Success; ///< or -N: signal N
};

Holder::Holder(Session *session, UnixSignals *signalSource)
    : m_session(session)
    , m_locks(session, session->invocation().operands())
    , m_progress(session, &m_locks)
{
    connect(signalSource, &UnixSignals::received, this, &Holder::signalReceived);
    connect(&m_watch, &EndWatch::ended, this, [this](const QString &what) { end(what, Success); });
    connect(&m_locks, &LockSet::acquired, this, &Holder::acquired);
    connect(&m_locks, &LockSet::failed, this, [](int exitCode) { QCoreApplication::exit(exitCode); });
    connect(&m_locks, &LockSet::atRisk, this, [](const QString &text) { printNote(text); });
    connect(&m_locks, &LockSet::lost, this, &Holder::lost);
    connect(&m_locks, &LockSet::released, this, [this](const QStringList &unconfirmed) {
        for (const QString &text : unconfirmed)
            printNote(text);
        QCoreApplication::exit(m_exitCode);
    });
}

void Holder::start()
{
    // From now on, so that a wait that nobody is interested in any more ends, too.
    watch();
    if (!m_isEnding)
        m_locks.acquire();
}

void Holder::watch()
{
    const Invocation &invocation = m_session->invocation();
    QString error;
    if (const auto pid = invocation.number(Option::Pid)) {
        if (!m_watch.watchProcess(*pid, &error))
            end(error, UsageError);
        return;
    }
    const qint64 fd = invocation.number(Option::Descriptor).value_or(STDIN_FILENO);
    if (!m_watch.watchDescriptor(fd, &error)) {
        end(error, UsageError);
        return;
    }
    m_watch.watchParent();
}

/// Whoever does not read the output must not keep the lock from being renewed, nor this program from its end.
void Holder::acquired()
{
    if (isOutputReady()) {
        tell();
        return;
    }
    m_outputNotifier = std::make_unique<QSocketNotifier>(STDOUT_FILENO, QSocketNotifier::Write);
    connect(m_outputNotifier.get(), &QSocketNotifier::activated, this, [this] {
        m_outputNotifier->setEnabled(false);
        if (!m_isEnding)
            tell();
    });
}

void Holder::tell()
{
    const QString slotText = m_locks.slotText();
    bool written = isJson() || isQuiet()
            || printLine(u"held %1 fence %2"_s.arg(printable(m_locks.nameText()), m_locks.fenceText())
                         + (slotText.isEmpty() ? QString() : u" slot "_s + slotText));
    for (const DistributedLock *lock : m_locks.locks()) {
        QJsonObject held{{u"fence"_s, lock->fencingToken()}};
        addSlots(&held, heldSlots(lock));
        written = written && printOutcome(lock->name(), u"held"_s, held);
    }
    if (!written)
        end(u"lock %1 is released again, because nobody can be notified that it is held"_s.arg(
                    quoted(m_locks.nameText())),
            InternalError);
}

void Holder::lost(DistributedLock *lock, DistributedLock::LossReason)
{
    if (isOutputReady())
        printOutcome(lock->name(), u"lost"_s);
    end(lock->errorString(), LockLost);
}

void Holder::end(const QString &why, int exitCode)
{
    if (std::exchange(m_isEnding, true))
        return;
    m_exitCode = exitCode;
    if (exitCode <= Success)
        printDetail(why);
    else
        printError(why);
    m_locks.release();
}

void Holder::signalReceived(int number)
{
    if (number == SIGTSTP) {
        StatusLine::clear();
        UnixSignals::stopSelf();
    } else if (UnixSignals::isRequestToEnd(number)) {
        if (m_isEnding) // do not wait for the server any longer
            QCoreApplication::exit(-number);
        end(UnixSignals::name(number), -number);
    }
}

} // namespace

int runHold(const Invocation &invocation)
{
    UnixSignals signalSource;
    Session session(invocation);
    if (!session.isUsable())
        return session.exitCode();
    if (const QString error = session.usageError(); !error.isEmpty())
        return session.fail(UsageError, error);
    if (invocation.has(Option::Pid) && invocation.has(Option::Descriptor))
        return session.fail(UsageError, u"--pid and --fd exclude each other"_s);
    Holder holder(&session, &signalSource);
    QMetaObject::invokeMethod(&holder, &Holder::start, Qt::QueuedConnection);
    return QCoreApplication::exec();
}

} // namespace Cli

#include "hold.moc"
