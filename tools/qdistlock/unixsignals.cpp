// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "unixsignals.h"

#include <QtCore/qlist.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

using namespace Qt::StringLiterals;

namespace Cli {

namespace {

struct Named
{
    int number;
    const char *name;
};

/// Those that can be passed on. The others stop or kill (STOP, KILL), come from an error of this process (SEGV, …), or
/// from its own use of a terminal or pipe (TTIN, TTOU, PIPE).
constexpr Named Forwarded[] = {
        {SIGHUP, "SIGHUP"},   {SIGINT, "SIGINT"},     {SIGQUIT, "SIGQUIT"},     {SIGTERM, "SIGTERM"},
        {SIGUSR1, "SIGUSR1"}, {SIGUSR2, "SIGUSR2"},   {SIGALRM, "SIGALRM"},     {SIGCONT, "SIGCONT"},
        {SIGTSTP, "SIGTSTP"}, {SIGWINCH, "SIGWINCH"}, {SIGVTALRM, "SIGVTALRM"}, {SIGPROF, "SIGPROF"},
        {SIGURG, "SIGURG"},   {SIGIO, "SIGIO"},
#ifdef SIGPWR
        {SIGPWR, "SIGPWR"},
#endif
};

/// The record that the signal handler writes to the pipe.
struct Message
{
    int number;
    bool isOfKernel;
};

/// Whether the kernel has sent a signal \a number to a whole process group, as it does for Ctrl+C. When a terminal is
/// closed, only the leader of its session gets SIGHUP and SIGCONT. Other signals, such as that of alarm(), are sent to
/// one process.
bool isSentToGroups(int number)
{
    const bool isOfTerminalsEnd = number == SIGHUP || number == SIGCONT;
    return number == SIGINT || number == SIGQUIT || number == SIGTSTP || number == SIGWINCH
            || (isOfTerminalsEnd && ::getsid(0) != ::getpid());
}

int pipeEnds[2] = {-1, -1};
sigset_t initialMask;
struct sigaction initialActions[NSIG];
bool isChanged[NSIG] = {};

// Calls nothing but what POSIX allows in a signal handler.
void handle(int number, siginfo_t *information, void *)
{
    const int error = errno;
    Message message{number, information->si_pid == 0};
#ifdef SI_KERNEL
    message.isOfKernel = information->si_code == SI_KERNEL;
#endif
    // If the pipe is full, thousands of signals wait in it.
    [[maybe_unused]] const auto written = ::write(pipeEnds[1], &message, sizeof message);
    errno = error;
}

void install(int number, void (*handler)(int, siginfo_t *, void *), bool alsoIfIgnored = false)
{
    struct sigaction &initial = initialActions[number];
    if (::sigaction(number, nullptr, &initial) != 0)
        return;
    if (!(initial.sa_flags & SA_SIGINFO) && initial.sa_handler == SIG_IGN && !alsoIfIgnored)
        return;
    struct sigaction action = {};
    ::sigfillset(&action.sa_mask);
    if (handler) {
        action.sa_sigaction = handler;
        action.sa_flags = SA_SIGINFO | SA_RESTART;
    } else {
        action.sa_handler = SIG_IGN;
    }
    isChanged[number] = ::sigaction(number, &action, nullptr) == 0;
}

int openPipe()
{
    if (pipeEnds[0] < 0) {
        if (::pipe(pipeEnds) != 0)
            qFatal("no pipe for signals: %s", qPrintable(qt_error_string(errno)));
        for (const int end : pipeEnds) {
            ::fcntl(end, F_SETFD, FD_CLOEXEC);
            ::fcntl(end, F_SETFL, O_NONBLOCK);
        }
    }
    return pipeEnds[0];
}

} // namespace

struct UnixSignals::Blocked::Mask
{
    sigset_t set;
};

UnixSignals::Blocked::Blocked()
    : m_previous(std::make_unique<Mask>())
{
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &m_previous->set);
}

UnixSignals::Blocked::~Blocked()
{
    ::pthread_sigmask(SIG_SETMASK, &m_previous->set, nullptr);
}

UnixSignals::UnixSignals()
    : m_notifier(openPipe(), QSocketNotifier::Read)
{
    connect(&m_notifier, &QSocketNotifier::activated, this, &UnixSignals::read);
    for (const Named &signal : Forwarded)
        install(signal.number, handle);
#ifdef SIGRTMIN
    for (int number = SIGRTMIN; number <= SIGRTMAX; ++number)
        install(number, handle);
#endif
    install(SIGCHLD, handle, true);
    // A write to a closed pipe fails, and one to a terminal from the background succeeds, instead of ending or stopping
    // a program that has a lock to renew.
    install(SIGPIPE, nullptr);
    install(SIGXFSZ, nullptr); // a log that has reached its largest size
    install(SIGTTOU, nullptr);
    install(SIGTTIN, nullptr);
    // A mask that was inherited would hide what must be passed on.
    sigset_t none;
    ::sigemptyset(&none);
    ::pthread_sigmask(SIG_SETMASK, &none, &initialMask);
}

UnixSignals::~UnixSignals()
{
    for (int number = 1; number < NSIG; ++number) {
        if (std::exchange(isChanged[number], false))
            ::sigaction(number, &initialActions[number], nullptr);
    }
    ::pthread_sigmask(SIG_SETMASK, &initialMask, nullptr);
}

bool UnixSignals::isRequestToEnd(int number)
{
    return number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGQUIT;
}

QString UnixSignals::name(int number)
{
    for (const Named &signal : Forwarded) {
        if (signal.number == number)
            return QString::fromLatin1(signal.name);
    }
    return u"signal %1"_s.arg(number);
}

void UnixSignals::restoreInChild()
{
    for (int number = 1; number < NSIG; ++number) {
        if (isChanged[number])
            ::sigaction(number, &initialActions[number], nullptr);
    }
    ::sigprocmask(SIG_SETMASK, &initialMask, nullptr);
}

void UnixSignals::stopSelf()
{
    struct sigaction stop = {};
    struct sigaction previous = {};
    stop.sa_handler = SIG_DFL;
    ::sigemptyset(&stop.sa_mask);
    ::sigaction(SIGTSTP, &stop, &previous);
    ::raise(SIGTSTP);
    ::sigaction(SIGTSTP, &previous, nullptr);
}

void UnixSignals::endBy(int number)
{
    const rlimit noCore{0, 0};
    ::setrlimit(RLIMIT_CORE, &noCore);
    ::signal(number, SIG_DFL);
    sigset_t none;
    ::sigemptyset(&none);
    ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
    ::raise(number);
    ::_exit(128 + number); // the signal does not end processes
}

void UnixSignals::read()
{
    std::array<Message, 64> messages;
    const ssize_t size = ::read(pipeEnds[0], messages.data(), sizeof messages);
    const auto count = size > 0 ? size_t(size) / sizeof(Message) : 0;
    for (size_t i = 0; i < count; ++i) {
        if (messages[i].number == SIGCHLD)
            Q_EMIT childChanged();
        else
            Q_EMIT received(messages[i].number, messages[i].isOfKernel && isSentToGroups(messages[i].number));
    }
}

} // namespace Cli
