// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "childenvironment.h"
#include "childprocess.h"
#include "commands.h"
#include "exitcodes.h"
#include "guardian.h"
#include "lockset.h"
#include "lockview.h"
#include "output.h"
#include "processtree.h"
#include "session.h"
#include "unixsignals.h"
#include "waitprogress.h"

#include <QDistLock/impl/namebytes.h>

#include <QtCore/qcoreapplication.h>
#include <QtCore/qfileinfo.h>
#include <QtCore/qmetaobject.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using QDistLock::DistributedLock;
using QDistLock::Detail::quoted;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

namespace Cli {

namespace {

/// The default of --kill-after is a sixth of the lease, but not more than this. A longer one would end a command whose
/// lock may still be renewed: the lock is at risk when two thirds of its lease have passed, and with a quarter of the
/// lease and the reserve below (a tenth), SIGTERM would come before that.
constexpr milliseconds LongestDefaultKillAfter = 5s;
/// SIGKILL is repeated after this time, then after twice that time, and so on.
constexpr milliseconds FirstKillInterval = 10ms;
constexpr milliseconds KillReportedAfter = 1s;
/// Longer times are not waited for: 10 s have passed since the first SIGKILL, and the kernel may never end the process.
constexpr milliseconds LongestKillInterval = 10s;

enum class LossPolicy { Term, Kill, Warn };

QString shortReason(DistributedLock::LossReason reason)
{
    switch (reason) {
    case DistributedLock::LeaseExpired:
        return u"lease-expired"_s;
    case DistributedLock::Stolen:
        return u"stolen"_s;
    case DistributedLock::Deleted:
        return u"deleted"_s;
    case DistributedLock::ForcedRelease:
        return u"forced-release"_s;
    }
    return QString();
}

milliseconds killAfterOf(const Invocation &invocation, milliseconds lease)
{
    return invocation.duration(Option::KillAfter).value_or(std::min(LongestDefaultKillAfter, lease / 6));
}

OrphanPolicy orphanPolicyOf(const Invocation &invocation)
{
    const QString text = invocation.text(Option::Orphan);
    return text == u"keep" ? OrphanPolicy::Keep : text == u"kill" ? OrphanPolicy::Kill : OrphanPolicy::Term;
}

/// SIGKILL is sent this much before the lock's deadline. Everybody must be dead by then, on a machine under load, too:
/// it may take tens of milliseconds until this process runs, and as long until those that it has killed are gone.
nanoseconds reserveOf(nanoseconds lease)
{
    return std::min(std::clamp<nanoseconds>(lease / 10, 50ms, 500ms), lease / 5);
}

QString guardianProblem(int error)
{
    return u"no process to guard the command: %1"_s.arg(qt_error_string(error));
}

/*!
    The life of one `run`: waits for the locks, starts the child, ends it in time if a lock is lost, and releases.

    Two moments follow from the deadline D of the lock, at which it ends here, shortly before it ends on the server. At
    K, a reserve before D, the child gets SIGKILL, so that it is dead at D. At T, --kill-after before K, it gets
    SIGTERM. Each renewal moves both. From T on the lock counts as lost, even if a renewal succeeds after all.
*/
class Runner : public QObject
{
    Q_OBJECT

public:
    Runner(Session *session, Guardian *guardian, UnixSignals *signalSource);
    ~Runner() override;

    void start() { m_locks.acquire(); }

private:
    enum Phase {
        Waiting,   ///< for the locks
        Running,   ///< the child runs
        Ending,    ///< a lock is lost, and the child must end
        Releasing, ///< the child has ended
    };

    void signalReceived(int number, bool fromTerminal);
    void childrenChanged();
    void startChild();
    void giveUp(const QString &text);
    void startFailed(int error);
    void childStopped(int number);
    bool isInForeground() const;
    void stopWithCommand();
    void restoreTerminal();
    void childEnded(int number);
    void childFinished(int exitCode, int number);
    void deadlineChanged();
    void atRisk(const QString &text);
    void lockLost(DistributedLock *lock, DistributedLock::LossReason reason);
    void termTimeReached();
    void guardianFailed(int error);
    QString notRenewedText() const;
    QString endText(Moment killAt) const;
    void beginEnd(const QString &reason, Moment killAt);
    void killAll();
    bool reportSurvivors();
    void runLossCommand(const QString &reason);
    void finishIfNothingRuns();
    void release();
    void released(const QStringList &unconfirmed);

    bool mayKill() const { return m_lossPolicy != LossPolicy::Warn; }
    void signalAll(int number);
    bool isAnybodyAlive() const;

    Session *const m_session;
    const Invocation &m_invocation;
    Guardian *const m_guardian;
    LossPolicy m_lossPolicy = LossPolicy::Term;
    bool m_ownGroup = true;
    int m_terminal = -1;                       ///< the controlling one; the standard descriptors may lead elsewhere
    std::optional<termios> m_terminalSettings; ///< which the command found
    bool m_mustStop = false;
    milliseconds m_lease;
    milliseconds m_killAfter;

    LockSet m_locks;
    WaitProgress m_progress;
    ChildProcess m_child;
    ChildProcess m_lossCommand;
    QString m_program;
    pid_t m_childGroup = 0;
    Phase m_phase = Waiting;
    LeaseTimer m_termTimer;
    LeaseTimer m_killTimer;
    milliseconds m_killInterval = FirstKillInterval;
    bool m_isGivenUp = false; ///< a process that cannot be killed is not waited for
    int m_lostPipe = -1;
    QByteArrayList m_environment;
    bool m_isLost = false;
    int m_exitCode = Success; ///< or -N: signal N
};

Runner::Runner(Session *session, Guardian *guardian, UnixSignals *signalSource)
    : m_session(session)
    , m_invocation(session->invocation())
    , m_guardian(guardian)
    , m_lease(session->lockOptions().lease)
    , m_killAfter(killAfterOf(m_invocation, m_lease))
    , m_locks(session, m_invocation.operands())
    , m_progress(session, &m_locks)
{
    const QString onLost = m_invocation.text(Option::OnLost);
    m_lossPolicy = onLost == u"warn" ? LossPolicy::Warn : onLost == u"kill" ? LossPolicy::Kill : LossPolicy::Term;
    // Whoever uses the terminal must be in the group to which a shell gives it, so that Ctrl+C and Ctrl+Z reach it.
    m_terminal = ::open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
    m_ownGroup = m_invocation.has(Option::BackgroundGroup) || (!m_invocation.has(Option::Foreground) && m_terminal < 0);

    connect(signalSource, &UnixSignals::received, this, &Runner::signalReceived);
    connect(signalSource, &UnixSignals::childChanged, this, &Runner::childrenChanged);
    connect(&m_locks, &LockSet::acquired, this, &Runner::startChild);
    connect(&m_locks, &LockSet::failed, this, [](int exitCode) { QCoreApplication::exit(exitCode); });
    connect(&m_locks, &LockSet::deadlineChanged, this, &Runner::deadlineChanged);
    connect(&m_locks, &LockSet::atRisk, this, &Runner::atRisk);
    connect(&m_locks, &LockSet::lost, this, &Runner::lockLost);
    connect(&m_locks, &LockSet::released, this, &Runner::released);
    connect(&m_child, &ChildProcess::failed, this, &Runner::startFailed);
    connect(&m_child, &ChildProcess::stopped, this, &Runner::childStopped);
    connect(&m_child, &ChildProcess::ended, this, &Runner::childEnded);
    connect(&m_child, &ChildProcess::finished, this, &Runner::childFinished);
    connect(&m_lossCommand, &ChildProcess::finished, this, &Runner::finishIfNothingRuns);
    connect(m_guardian, &Guardian::replaced, this,
            [] { printNote(u"the process that guards the command was killed; another one does it now"_s); });
    connect(m_guardian, &Guardian::failed, this, &Runner::guardianFailed);
    connect(&m_termTimer, &LeaseTimer::timeout, this, &Runner::termTimeReached);
    connect(&m_killTimer, &LeaseTimer::timeout, this, &Runner::killAll);
}

Runner::~Runner()
{
    if (m_lostPipe >= 0)
        ::close(m_lostPipe);
    if (m_terminal >= 0)
        ::close(m_terminal);
}

bool Runner::isInForeground() const
{
    return m_terminal >= 0 && ::tcgetpgrp(m_terminal) == ::getpgrp();
}

void Runner::signalAll(int number)
{
    // If the command is in this process's group, its processes are searched in /proc, which may be missing.
    if (!ProcessTree::signal(::getpid(), m_childGroup, number, [this] { return m_lossCommand.id(); }))
        m_child.signal(number);
}

bool Runner::isAnybodyAlive() const
{
#ifdef Q_OS_LINUX
    return ProcessTree::hasChildren();
#else
    return m_childGroup != 0 && ::kill(-m_childGroup, 0) == 0;
#endif
}

void Runner::startChild()
{
    ChildProcess::Setup setup;
    if (m_invocation.has(Option::ShellCommand)) {
        const QByteArray shell = qgetenv("SHELL");
        setup.command = {shell.isEmpty() ? "/bin/sh"_ba : shell, "-c"_ba, m_invocation.childCommand().first()};
    } else {
        setup.command = m_invocation.childCommand();
    }
    m_program = QString::fromUtf8(setup.command.first());
    setup.ownGroup = m_ownGroup;
    const OrphanPolicy orphan = orphanPolicyOf(m_invocation);
    setup.deathSignal = orphan == OrphanPolicy::Keep ? 0 : orphan == OrphanPolicy::Kill ? SIGKILL : SIGTERM;

    int ends[2];
    if (::pipe(ends) != 0)
        return giveUp(u"no pipe for the command: %1"_s.arg(qt_error_string(errno)));
    for (const int end : ends)
        ::fcntl(end, F_SETFD, FD_CLOEXEC);
    m_lostPipe = ends[1];
    setup.lostFd = ends[0];
    setup.lostFdInChild = ChildProcess::freeDescriptor();
    m_environment = childEnvironment(m_invocation.has(Option::PassEnvironment));
    m_environment += "QDISTLOCK_NAME=" + QDistLock::Detail::nameBytes(m_locks.nameText());
    m_environment += "QDISTLOCK_PLACE=" + m_session->placeText();
    m_environment += "QDISTLOCK_FENCE=" + m_locks.fenceText().toUtf8();
    m_environment += "QDISTLOCK_HELD=1"_ba;
    m_environment += m_invocation.has(Option::Shared) ? "QDISTLOCK_MODE=shared"_ba
            : m_invocation.has(Option::Limit)         ? "QDISTLOCK_MODE=permits"_ba
                                                      : "QDISTLOCK_MODE=exclusive"_ba;
    if (const QByteArray slotText = m_locks.slotText().toLatin1(); !slotText.isEmpty())
        m_environment += "QDISTLOCK_SLOT=" + slotText;
    setup.environment = m_environment;
    setup.environment += "QDISTLOCK_LOST_FD=" + QByteArray::number(setup.lostFdInChild);

    // By the child itself: if this process is killed right after the fork, its guardian must know of the child.
    setup.beforeExec = [this] { m_guardian->guard(::getpid(), m_ownGroup ? ::getpid() : 0); };

    termios settings = {};
    if (!m_ownGroup && isInForeground() && ::tcgetattr(m_terminal, &settings) == 0)
        m_terminalSettings = settings;

    m_phase = Running;
    deadlineChanged();
    const bool started = m_child.start(setup);
    const int error = errno;
    ::close(ends[0]);
    if (!started)
        return giveUp(u"no process for the command: %1"_s.arg(qt_error_string(error)));
    m_childGroup = m_child.group();
    m_guardian->guard(m_child.id(), m_childGroup);
    printDetail(u"holding lock %1, fencing token %2; the command is process %3"_s.arg(
            quoted(m_locks.nameText()), m_locks.fenceText(), QString::number(m_child.id())));
}

/// Without a command.
void Runner::giveUp(const QString &text)
{
    m_exitCode = m_session->fail(InternalError, text);
    release();
}

void Runner::startFailed(int error)
{
    m_exitCode = m_session->fail(error == ENOENT ? CommandNotFound : CannotExecute,
                                 u"cannot execute %1: %2"_s.arg(quoted(m_program), qt_error_string(error)));
}

void Runner::signalReceived(int number, bool fromTerminal)
{
    const bool wasStopped = m_child.isStopped();
    childrenChanged(); // its own notice may be the next one
    switch (m_phase) {
    case Waiting:
        if (UnixSignals::isRequestToEnd(number)) {
            m_exitCode = -number;
            release();
        } else if (number == SIGTSTP) {
            StatusLine::clear();
            UnixSignals::stopSelf();
        }
        break;
    case Running:
    case Ending:
        // In our group, the child has got it as well.
        if (m_ownGroup || !fromTerminal)
            m_child.signal(number);
        if (UnixSignals::isRequestToEnd(number) && m_child.isStopped())
            m_child.signal(SIGCONT); // else it would never notice
        if (m_lossCommand.isRunning())
            m_lossCommand.signal(number);
        // A command that is stopped already does not notice Ctrl+Z. (One that has just been stopped is childStopped().)
        if (number == SIGTSTP && fromTerminal && wasStopped && m_child.isStopped() && m_phase == Running)
            stopWithCommand();
        break;
    case Releasing:
        // The command has ended; do not wait for the server any longer.
        if (UnixSignals::isRequestToEnd(number))
            QCoreApplication::exit(m_exitCode);
        break;
    }
}

void Runner::childrenChanged()
{
    m_child.changed();
    m_lossCommand.changed();
    // Orphans that were adopted.
    siginfo_t ended = {};
    while (::waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid != 0
           && ended.si_pid != m_child.id() && ended.si_pid != m_lossCommand.id()) {
        ::waitpid(ended.si_pid, nullptr, WNOHANG);
        ProcessTree::reaped(ended.si_pid);
        ended = {};
    }
    if (m_phase == Ending)
        finishIfNothingRuns();
    if (std::exchange(m_mustStop, false))
        stopWithCommand();
}

void Runner::childStopped(int number)
{
    if (m_phase != Running)
        return;
    const bool usesTerminal = number == SIGTTIN || number == SIGTTOU;
    // Without a shell that shows it, a command that waits for the terminal would look like one that hangs.
    if (m_ownGroup && usesTerminal)
        printNote(u"the command is stopped, because it uses the terminal; use --foreground to allow that"_s);
    else if (usesTerminal || (number == SIGTSTP && (!m_ownGroup || isInForeground())))
        m_mustStop = true; // not here: what happened to the command meanwhile must not be taken for its own end
}

/// The shell must see that its job is stopped, to take the terminal back. Meanwhile nobody renews the lock.
void Runner::stopWithCommand()
{
    printNote(u"stopped; lock %1 ends in %2 unless it is continued before"_s.arg(
            quoted(m_locks.nameText()),
            roughText(std::chrono::duration_cast<milliseconds>(m_locks.deadline() - presentMoment()))));
    UnixSignals::stopSelf();
    childrenChanged();
    // Continued alone, or with the group, in which the command was not. Nobody may stop for the same Ctrl+Z twice.
    if (m_child.isStopped())
        m_child.signal(SIGCONT);
}

/// A command that was killed cannot do it.
void Runner::restoreTerminal()
{
    if (!m_terminalSettings)
        return;
    // A shell gives the terminal to a process group, which may be gone with it.
    const pid_t foreground = ::tcgetpgrp(m_terminal);
    if (foreground > 0 && ::kill(-foreground, 0) != 0 && errno == ESRCH)
        ::tcsetpgrp(m_terminal, ::getpgrp());
    if (isInForeground())
        ::tcsetattr(m_terminal, TCSANOW, &*m_terminalSettings);
}

void Runner::childEnded(int number)
{
    if (m_phase != Running)
        return;
    if (number == SIGKILL && m_killTimer.moment() <= presentMoment())
        killAll(); // by the guardian, which has not killed all others yet: this process was stopped, or is late
    else
        m_guardian->dismiss(); // it must not signal a process that has been given the child's number
}

void Runner::childFinished(int exitCode, int number)
{
    if (number != 0)
        restoreTerminal();
    if (m_exitCode == Success && !m_isLost) {
        m_exitCode = number == 0                      ? exitCode
                : UnixSignals::isRequestToEnd(number) ? -number // so that a loop of the calling shell ends, too
                                                      : SignalBase + number;
    }
    finishIfNothingRuns();
}

void Runner::deadlineChanged()
{
    if (m_phase != Running || !mayKill())
        return;
    const Moment deadline = m_locks.deadline();
    // A lock that was handed over has a short lease until its first renewal.
    const nanoseconds rest = std::max<nanoseconds>(0ns, deadline - presentMoment());
    const nanoseconds lease = std::min<nanoseconds>(rest, m_lease);
    const Moment killAt = deadline - reserveOf(lease);
    m_guardian->setKillAt(killAt + reserveOf(lease) / 4); // if this process has not done it by then
    // On a machine under load, or after SIGSTOP, the guardian hears of a renewal too late, and has killed the child.
    if (m_killTimer.moment() <= presentMoment()) {
        killAll();
        return;
    }
    m_killTimer.start(killAt);
    if (m_lossPolicy == LossPolicy::Term)
        m_termTimer.start(killAt - std::min<nanoseconds>(lease / 3, m_killAfter));
}

void Runner::atRisk(const QString &text)
{
    if (m_phase == Running && m_session->lockOptions().autoRenew)
        printNote(text);
}

void Runner::termTimeReached()
{
    if (m_phase != Running)
        return;
    const Moment killAt = m_killTimer.moment();
    const bool isRenewed = m_session->lockOptions().autoRenew;
    const QString text = (isRenewed ? notRenewedText()
                                    : u"the lease of lock %1 ends (--no-renew)"_s.arg(quoted(m_locks.nameText())))
            + endText(killAt);
    beginEnd(shortReason(DistributedLock::LeaseExpired), killAt);
    printError(text);
}

void Runner::lockLost(DistributedLock *lock, DistributedLock::LossReason reason)
{
    if (m_phase != Running)
        return;
    if (mayKill()) {
        const bool isKilledNow = m_lossPolicy == LossPolicy::Kill || reason == DistributedLock::LeaseExpired;
        const Moment killAt = isKilledNow ? presentMoment() : presentMoment() + m_killAfter;
        const QString text = withoutStop(lock->errorString()) + endText(killAt);
        beginEnd(shortReason(reason), killAt);
        printError(text);
    } else if (!std::exchange(m_isLost, true)) {
        m_exitCode = LockLost;
        ::close(std::exchange(m_lostPipe, -1));
        printError(withoutStop(lock->errorString()) + u"; the command goes on without the lock (--on-lost warn)"_s);
        runLossCommand(shortReason(reason));
    }
}

void Runner::guardianFailed(int error)
{
    const QString text = guardianProblem(error);
    if (m_phase == Waiting) {
        giveUp(text);
    } else if (m_phase == Running && mayKill()) {
        const Moment now = presentMoment();
        const Moment killAt = m_lossPolicy == LossPolicy::Kill ? now
                                                               : std::min(m_killTimer.moment(), now + m_killAfter);
        const QString end = endText(killAt);
        beginEnd(QString(), killAt);
        printError(text + end);
    } else if (m_phase == Running) {
        printError(text + u"; the command goes on without one (--on-lost warn)"_s);
    }
}

QString Runner::notRenewedText() const
{
    return u"lock %1 was not renewed in time%2"_s.arg(quoted(m_locks.nameText()),
                                                      m_locks.problemText(m_locks.presentLock()));
}

/// What a line about the loss says of the command.
QString Runner::endText(Moment killAt) const
{
    const Moment rest = killAt - presentMoment();
    if (m_lossPolicy == LossPolicy::Kill || rest <= 0ns)
        return u"; the command is killed (SIGKILL)"_s;
    return u"; the command is ended: by SIGTERM now, and by SIGKILL in %1"_s.arg(
            roughText(std::chrono::ceil<milliseconds>(rest)));
}

/// First the signals, then the words. Without a \a reason, the lock is not lost, and will be released.
void Runner::beginEnd(const QString &reason, Moment killAt)
{
    m_phase = Ending;
    m_isLost = !reason.isEmpty();
    m_exitCode = m_isLost ? LockLost : InternalError;
    m_termTimer.stop();
    m_killTimer.start(killAt);
    if (killAt <= presentMoment()) {
        killAll();
    } else if (m_lossPolicy == LossPolicy::Term) {
        signalAll(SIGTERM);
        signalAll(SIGCONT); // a stopped process would not notice
    }
    if (m_isLost) {
        ::close(std::exchange(m_lostPipe, -1));
        runLossCommand(reason);
    }
    m_guardian->setKillAt(killAt); // it must know whom to spare; until then, the moment before holds
}

void Runner::killAll()
{
    if (m_phase == Running) {
        beginEnd(shortReason(DistributedLock::LeaseExpired), presentMoment());
        printError(notRenewedText() + u"; the command is killed (SIGKILL)"_s);
        return;
    }
    if (m_phase != Ending)
        return;
    signalAll(SIGKILL);
    // A process may have been started between the list and the signal, or end only when the kernel lets it.
    if (m_killInterval >= KillReportedAfter) {
        childrenChanged(); // what has ended meanwhile
        m_isGivenUp = m_phase == Ending && !reportSurvivors();
    }
    if (m_phase == Ending && !m_isGivenUp)
        m_killTimer.start(presentMoment() + m_killInterval);
    m_killInterval *= 2;
    finishIfNothingRuns();
}

/// Who is still there after SIGKILL, and why. False if it is no use to wait for them.
bool Runner::reportSurvivors()
{
    std::vector<pid_t> found = ProcessTree::descendants(::getpid());
    const bool isNobodyFound = found.empty() && !m_child.isRunning() && !m_lossCommand.isRunning() && isAnybodyAlive();
    if (m_child.isRunning() && std::find(found.begin(), found.end(), m_child.id()) == found.end())
        found.push_back(m_child.id());
    QStringList refused;
    QStringList killed;
    for (const pid_t id : found) {
        if (ProcessTree::isRunning(id) && (!m_lossCommand.isRunning() || ::getpgid(id) != m_lossCommand.id()))
            (::kill(id, 0) == 0 ? killed : refused).append(QString::number(id));
    }
    const QString lock = quoted(m_locks.nameText());
    if (!refused.isEmpty()) {
        printError(
                u"processes of another user, as after sudo, cannot be killed, and go on without lock %1: %2; end them as root"_s
                        .arg(lock, refused.join(u", "_s)));
    }
    if (isNobodyFound) {
        printError(
                u"a process that the command has started goes on without lock %1; it has left the command's process group, and cannot be found, because /proc cannot be read; end it by hand"_s
                        .arg(lock));
    }
    const bool isWaiting = !killed.isEmpty() && m_killInterval < LongestKillInterval;
    if (!killed.isEmpty()) {
        printError(
                u"processes that have got SIGKILL do not end, perhaps because they wait for a disk or a file server: %1; %2"_s
                        .arg(killed.join(u", "_s), isWaiting ? u"still waiting"_s : u"not waiting any longer"_s));
    }
    return isWaiting || (killed.isEmpty() && refused.isEmpty() && !isNobodyFound);
}

void Runner::runLossCommand(const QString &reason)
{
    if (!m_invocation.has(Option::OnLostExec))
        return;
    ChildProcess::Setup setup;
    setup.command = {"/bin/sh"_ba, "-c"_ba, m_invocation.text(Option::OnLostExec).toUtf8()};
    setup.environment = m_environment;
    setup.environment += "QDISTLOCK_LOST=" + reason.toUtf8();
    // The guardian may be killing all others just now. By the child itself: this process may be late.
    setup.beforeExec = [this] { m_guardian->spare(::getpid()); };
    m_guardian->spareNext();
    const bool isStarted = m_lossCommand.start(setup);
    const int error = errno;
    m_guardian->spare(m_lossCommand.group());
    if (!isStarted)
        printError(u"no process for --on-lost-exec: %1"_s.arg(qt_error_string(error)));
}

void Runner::finishIfNothingRuns()
{
    if ((m_phase != Running && m_phase != Ending) || m_lossCommand.isRunning())
        return;
    // Under a lost lock nothing may go on; else a process that the command has left in the background may.
    if (!m_isGivenUp && (m_child.isRunning() || (m_phase == Ending && isAnybodyAlive())))
        return;
    release();
}

void Runner::release()
{
    if (m_phase == Ending)
        restoreTerminal();
    m_phase = Releasing;
    m_termTimer.stop();
    m_killTimer.stop();
    m_guardian->dismiss();
    m_locks.release();
}

void Runner::released(const QStringList &unconfirmed)
{
    // After a loss, the user knows already that the server is away.
    for (const QString &text : unconfirmed)
        (m_isLost ? printDetail : printNote)(text);
    QCoreApplication::exit(m_exitCode);
}

/// The program's name, by which others see who holds the lock.
QString applicationName(const Invocation &invocation)
{
    if (invocation.has(Option::ShellCommand))
        return u"sh"_s;
    return QFileInfo(QString::fromUtf8(invocation.childCommand().first())).fileName();
}

} // namespace

int runRun(const Invocation &invocation)
{
    UnixSignals signalSource;
    QCoreApplication::setApplicationName(applicationName(invocation));
    Session session(invocation);
    if (!session.isUsable())
        return session.exitCode();
    if (const QString error = session.usageError(); !error.isEmpty())
        return session.fail(UsageError, error);
    if (const QString error = childEnvironmentError(invocation.operands()); !error.isEmpty())
        return session.fail(UsageError, error);
    if (invocation.has(Option::Foreground) && invocation.has(Option::BackgroundGroup))
        return session.fail(UsageError, u"--foreground and --background-group exclude each other"_s);
    const milliseconds lease = session.lockOptions().lease;
    const milliseconds killAfter = killAfterOf(invocation, lease);
    if (killAfter > lease / 3) {
        return session.fail(UsageError,
                            u"--kill-after is %1; it must be at most a third of the lease of %2"_s.arg(
                                    durationText(killAfter), durationText(lease)));
    }
    ProcessTree::leaveOutPresent();
    // Then the guardian is a child of this process, which reaps it: the first process of a container may reap nobody.
    // But whatever waits for all children must tell it from the command's orphans.
    if (ProcessTree::canFind())
        ProcessTree::adoptOrphans();
    Guardian guardian;
    if (!guardian.start(orphanPolicyOf(invocation), killAfter))
        return session.fail(InternalError, guardianProblem(errno));
    ProcessTree::adoptOrphans();
    Runner runner(&session, &guardian, &signalSource);
    QMetaObject::invokeMethod(&runner, &Runner::start, Qt::QueuedConnection);
    return QCoreApplication::exec();
}

} // namespace Cli

#include "run.moc"
