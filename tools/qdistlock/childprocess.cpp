// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "childprocess.h"

#include "unixsignals.h"

#include <cerrno>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef Q_OS_LINUX
#  include <sys/prctl.h>
#endif

extern char **environ;

namespace Cli {

namespace {

/// Pointers into \a texts, as exec() wants them.
std::vector<char *> pointers(const QByteArrayList &texts)
{
    std::vector<char *> result;
    result.reserve(size_t(texts.size()) + 1);
    for (const QByteArray &text : texts)
        result.push_back(const_cast<char *>(text.constData()));
    result.push_back(nullptr);
    return result;
}

/// One of \a states of the child \a id; si_pid is 0 if it is in none of them.
siginfo_t stateOf(pid_t id, int states)
{
    siginfo_t state = {};
    if (id <= 0 || ::waitid(P_PID, id_t(id), &state, states | WNOHANG) != 0)
        state = {};
    return state;
}

/// In the child, between fork() and exec(): calls only what POSIX allows there. (glibc's execvp() is as harmless.)
[[noreturn]] void execute(const ChildProcess::Setup &setup, char **arguments, char **environment, pid_t parent,
                          int errorPipe)
{
    if (setup.ownGroup)
        ::setpgid(0, 0);
#ifdef Q_OS_LINUX
    if (setup.deathSignal != 0) {
        ::prctl(PR_SET_PDEATHSIG, setup.deathSignal);
        if (::getppid() != parent) // it has ended before the call
            ::_exit(128 + setup.deathSignal);
    }
#endif
    if (setup.lostFd == setup.lostFdInChild && setup.lostFd >= 0)
        ::fcntl(setup.lostFd, F_SETFD, 0);
    else if (setup.lostFd >= 0)
        ::dup2(setup.lostFd, setup.lostFdInChild);
    if (setup.beforeExec) {
        setup.beforeExec();
        ::signal(SIGPIPE, SIG_IGN); // forgets one that is pending because the guardian has ended
    }
    environ = environment;
    UnixSignals::restoreInChild();
    ::execvp(arguments[0], arguments);
    const int error = errno;
    [[maybe_unused]] const ssize_t written = ::write(errorPipe, &error, sizeof error);
    ::_exit(127);
}

} // namespace

int ChildProcess::freeDescriptor()
{
    // Everything of this program has FD_CLOEXEC.
    for (int fd = 3;; ++fd) {
        const int flags = ::fcntl(fd, F_GETFD);
        if (flags < 0 || (flags & FD_CLOEXEC))
            return fd;
    }
}

bool ChildProcess::start(const Setup &setup)
{
    int ends[2];
    if (::pipe(ends) != 0)
        return false;
    for (int &end : ends) {
        // Out of the way of lostFdInChild.
        const int high = ::fcntl(end, F_DUPFD_CLOEXEC, 64);
        if (high >= 0)
            ::close(std::exchange(end, high));
        ::fcntl(end, F_SETFD, FD_CLOEXEC);
    }
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    std::vector<char *> arguments = pointers(setup.command);
    std::vector<char *> environment = pointers(setup.environment);
    const pid_t parent = ::getpid();
    {
        const UnixSignals::Blocked blocked;
        m_id = ::fork();
        if (m_id == 0)
            execute(setup, arguments.data(), environment.data(), parent, ends[1]);
    }
    const int error = errno;
    ::close(ends[1]);
    if (m_id < 0) {
        m_id = 0;
        ::close(ends[0]);
        errno = error;
        return false;
    }
    m_hasGroup = setup.ownGroup;
    if (m_hasGroup)
        ::setpgid(m_id, m_id); // the child does the same: whoever comes first
    // Not read at once: searching the program on a network file system may take time in which a lock must be renewed.
    m_errorPipe = ends[0];
    m_errorNotifier = std::make_unique<QSocketNotifier>(m_errorPipe, QSocketNotifier::Read);
    connect(m_errorNotifier.get(), &QSocketNotifier::activated, this, &ChildProcess::readError);
    return true;
}

void ChildProcess::readError()
{
    if (m_errorPipe < 0)
        return;
    int error = 0;
    const ssize_t size = ::read(m_errorPipe, &error, sizeof error);
    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    m_errorNotifier->setEnabled(false);
    m_errorNotifier.release()->deleteLater(); // this is its slot
    ::close(std::exchange(m_errorPipe, -1));
    if (size == sizeof error)
        Q_EMIT failed(error);
}

void ChildProcess::signal(int number) const
{
    if (m_id > 0)
        ::kill(m_hasGroup ? -m_id : m_id, number);
}

void ChildProcess::changed()
{
    for (siginfo_t state; (state = stateOf(m_id, WSTOPPED | WCONTINUED)).si_pid != 0;) {
        m_isStopped = state.si_code == CLD_STOPPED;
        if (m_isStopped)
            Q_EMIT stopped(state.si_status);
    }
    // One poll only: it may end between two of them.
    const siginfo_t end = stateOf(m_id, WEXITED | WNOWAIT);
    if (end.si_pid == 0)
        return;
    const bool isExit = end.si_code == CLD_EXITED;
    m_isStopped = false;
    readError(); // a program that could not be executed is reported as such first
    Q_EMIT ended(isExit ? 0 : end.si_status);
    ::waitpid(m_id, nullptr, 0);
    m_id = 0;
    Q_EMIT finished(isExit ? end.si_status : 0, isExit ? 0 : end.si_status);
}

} // namespace Cli
