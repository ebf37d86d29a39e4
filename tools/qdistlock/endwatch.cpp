// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "endwatch.h"

#include <array>
#include <cerrno>
#include <functional>
#include <limits>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef Q_OS_LINUX
#  include <sys/syscall.h>
#endif

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;

namespace Cli {

namespace {

/// Where the system does not notify the end of a process that is no child.
constexpr auto PollInterval = 200ms;
/// When a process in the background tries again to read the terminal.
constexpr auto TerminalRetryInterval = 1s;

int openProcess(pid_t id)
{
#if defined(Q_OS_LINUX) && defined(SYS_pidfd_open)
    return int(::syscall(SYS_pidfd_open, id, 0)); // with FD_CLOEXEC
#else
    Q_UNUSED(id)
    errno = ENOSYS;
    return -1;
#endif
}

} // namespace

class EndWatch::ProcessWatch
{
public:
    /// \a isAlive is polled where there is no descriptor for \a id.
    ProcessWatch(pid_t id, std::function<bool()> isAlive, std::function<void()> ended)
        : m_ended(std::move(ended))
    {
        m_descriptor = openProcess(id);
        if (m_descriptor >= 0) {
            m_notifier = std::make_unique<QSocketNotifier>(m_descriptor, QSocketNotifier::Read);
            QObject::connect(m_notifier.get(), &QSocketNotifier::activated, m_notifier.get(), [this] { end(); });
        } else {
            QObject::connect(&m_timer, &QTimer::timeout, &m_timer, [this, isAlive] {
                if (!isAlive())
                    end();
            });
            m_timer.start(PollInterval);
        }
    }
    ~ProcessWatch()
    {
        m_notifier.reset();
        if (m_descriptor >= 0)
            ::close(m_descriptor);
    }

private:
    Q_DISABLE_COPY_MOVE(ProcessWatch)
    void end()
    {
        m_timer.stop();
        if (m_notifier)
            m_notifier->setEnabled(false);
        m_ended();
    }

    std::function<void()> m_ended;
    int m_descriptor = -1;
    std::unique_ptr<QSocketNotifier> m_notifier;
    QTimer m_timer;
};

EndWatch::EndWatch()
{
    m_retryTimer.setSingleShot(true);
    connect(&m_retryTimer, &QTimer::timeout, this, [this] { m_notifier->setEnabled(true); });
}

EndWatch::~EndWatch()
{
    m_notifier.reset();
    if (m_isOwnFd)
        ::close(m_fd);
}

bool EndWatch::watchProcess(qint64 id, QString *error)
{
    const bool isPossible = id > 0 && id <= std::numeric_limits<pid_t>::max();
    if (!isPossible || (::kill(pid_t(id), 0) != 0 && errno != EPERM)) {
        *error = u"--pid: there is no process %1"_s.arg(id);
        return false;
    }
    const auto isAlive = [id] { return ::kill(pid_t(id), 0) == 0 || errno == EPERM; };
    m_process = std::make_unique<ProcessWatch>(pid_t(id), isAlive,
                                               [this, id] { Q_EMIT ended(u"process %1 has ended"_s.arg(id)); });
    return true;
}

void EndWatch::watchParent()
{
    const pid_t parent = ::getppid();
    if (parent <= 0)
        return;
    const auto isAlive = [parent] { return ::getppid() == parent; };
    const auto end = [this] { Q_EMIT ended(u"the parent process has ended"_s); };
    m_parent = std::make_unique<ProcessWatch>(parent, isAlive, end);
    if (!isAlive()) // before it was watched
        end();
}

bool EndWatch::watchDescriptor(qint64 number, QString *error)
{
    const int fd = number >= 0 && number <= std::numeric_limits<int>::max() ? int(number) : -1;
    // With FD_CLOEXEC it is one of this program, not of the one that has started it.
    const int ownFlags = ::fcntl(fd, F_GETFD);
    const int flags = ::fcntl(fd, F_GETFL);
    struct stat status = {};
    if (ownFlags < 0 || (ownFlags & FD_CLOEXEC) || (flags & O_ACCMODE) == O_WRONLY || ::fstat(fd, &status) != 0) {
        *error = fd == STDIN_FILENO ? u"standard input is closed; use --pid or --fd"_s
                                    : u"--fd: file descriptor %1 is not open for reading"_s.arg(number);
        return false;
    }
    m_what = fd == STDIN_FILENO ? u"standard input has ended"_s : u"file descriptor %1 has reached its end"_s.arg(fd);
    m_fd = fd;
    m_isSocket = S_ISSOCK(status.st_mode);
    if (S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode)) {
        // Another process may read the same pipe or terminal; then nothing would be left for a read that blocks. The
        // mode of the inherited description belongs to all who share it.
        const int own = ::open(qPrintable(u"/dev/fd/%1"_s.arg(fd)), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        m_isOwnFd = own >= 0;
        m_fd = m_isOwnFd ? own : fd;
    }
    // As the shell's `&`, cron and systemd leave standard input.
    if (S_ISREG(status.st_mode) || isAtEnd()) {
        *error = (fd == STDIN_FILENO ? u"standard input is at its end, as /dev/null is"_s
                                     : u"--fd: file descriptor %1 is at its end"_s.arg(fd))
                + u", so it does not show how long to hold the lock; use --pid with the process that needs the lock, or --fd with a pipe that it keeps open"_s;
        return false;
    }
    m_notifier = std::make_unique<QSocketNotifier>(m_fd, QSocketNotifier::Read);
    connect(m_notifier.get(), &QSocketNotifier::activated, this, &EndWatch::readDescriptor);
    return true;
}

bool EndWatch::isAtEnd() const
{
    pollfd state{m_fd, POLLIN, 0};
    char discarded = 0;
    if (::isatty(m_fd) == 1 || ::poll(&state, 1, 0) != 1)
        return false;
    return m_isSocket ? ::recv(m_fd, &discarded, 1, MSG_DONTWAIT) == 0 : ::read(m_fd, &discarded, 1) == 0;
}

void EndWatch::readDescriptor()
{
    std::array<char, 4096> discarded;
    const ssize_t size = m_isSocket ? ::recv(m_fd, discarded.data(), discarded.size(), MSG_DONTWAIT)
                                    : ::read(m_fd, discarded.data(), discarded.size());
    if (size > 0 || (size < 0 && (errno == EAGAIN || errno == EINTR)))
        return;
    m_notifier->setEnabled(false);
    const bool isRefused = size < 0 && errno == EIO;
    const pid_t foreground = ::tcgetpgrp(m_fd);
    if (isRefused && foreground > 0 && foreground != ::getpgrp()) {
        m_retryTimer.start(TerminalRetryInterval); // the terminal belongs to another job at present
        return;
    }
    Q_EMIT ended(m_what);
}

} // namespace Cli
