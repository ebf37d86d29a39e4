// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include <QDistLock/quitonsignals.h>

#include "base/logging.h"

#include <QtCore/qcoreapplication.h>
#include <QtCore/qpointer.h>
#include <QtCore/qsocketnotifier.h>
#include <QtCore/qthread.h>

#include <atomic>

#ifdef Q_OS_UNIX
#  include <cerrno>
#  include <fcntl.h>
#  include <signal.h>
#  include <time.h>
#  include <unistd.h>
#elif defined(Q_OS_WIN)
#  include <qt_windows.h>
#endif

namespace QDistLock {

namespace {

#ifdef Q_OS_UNIX

constexpr int Signals[] = {SIGINT, SIGTERM, SIGHUP};

/// In nanoseconds: signals that follow the first one this closely are copies of it. timeout(1) signals the process and
/// then its process group; npm repeats the terminal's Ctrl+C.
constexpr qint64 CopiesWithin = 500'000'000;

int pipeEnds[2] = {-1, -1};
pid_t process = 0;
std::atomic<qint64> firstSignal{0}; ///< on the monotonic clock, in nanoseconds; 0 before the first one
static_assert(std::atomic<qint64>::is_always_lock_free, "a signal handler cannot wait for a mutex");

// Calls nothing but what POSIX allows in a signal handler.
void handleSignal(int number)
{
    const int error = errno;
    timespec time = {};
    ::clock_gettime(CLOCK_MONOTONIC, &time);
    const qint64 now = qint64(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
    qint64 first = 0;
    if (::getpid() != process) {
        ::signal(number, SIG_DFL);
        ::raise(number); // blocked until this handler returns
    } else if (firstSignal.compare_exchange_strong(first, now)) {
        const auto byte = static_cast<unsigned char>(number);
        [[maybe_unused]] const auto written = ::write(pipeEnds[1], &byte, 1);
    } else if (now - first > CopiesWithin) {
        ::signal(number, SIG_DFL);
        ::raise(number);
    }
    errno = error;
}

bool openPipe()
{
    if (pipeEnds[0] >= 0)
        return true;
    if (::pipe(pipeEnds) != 0)
        return false;
    for (const int end : pipeEnds) {
        ::fcntl(end, F_SETFD, FD_CLOEXEC);
        ::fcntl(end, F_SETFL, O_NONBLOCK);
    }
    return true;
}

void install()
{
    static QPointer<QSocketNotifier> notifier; // a child of the application object, of which there may be several
    if (notifier)
        return;
    if (!openPipe()) {
        qCWarning(lcLock, "quitOnSignals(): there is no pipe (%s); signals end the program without giving locks back",
                  qPrintable(qt_error_string(errno)));
        return;
    }
    process = ::getpid();
    notifier = new QSocketNotifier(pipeEnds[0], QSocketNotifier::Read, QCoreApplication::instance());
    QObject::connect(notifier, &QSocketNotifier::activated, notifier, [] {
        unsigned char number;
        if (::read(pipeEnds[0], &number, 1) == 1)
            QCoreApplication::exit(128 + number);
    });
    for (const int number : Signals) {
        struct sigaction action = {};
        if (::sigaction(number, nullptr, &action) != 0 || action.sa_handler == SIG_IGN)
            continue;
        action = {};
        action.sa_handler = handleSignal;
        action.sa_flags = SA_RESTART;
        ::sigemptyset(&action.sa_mask);
        ::sigaction(number, &action, nullptr);
    }
}

#elif defined(Q_OS_WIN)

// In a thread of the system's. Once it returns from any but the first two events, Windows ends the process.
BOOL WINAPI handleEvent(DWORD event)
{
    static std::atomic<bool> again{false};
    if (again.exchange(true))
        return FALSE; // the default: the process ends at once
    const bool interrupt = event == CTRL_C_EVENT || event == CTRL_BREAK_EVENT;
    if (QCoreApplication *const application = QCoreApplication::instance()) {
        QMetaObject::invokeMethod(
                application, [interrupt] { QCoreApplication::exit(interrupt ? 130 : 143); }, Qt::QueuedConnection);
    }
    if (!interrupt)
        ::Sleep(INFINITE); // the program ends meanwhile, or Windows ends it after 5 s
    return TRUE;
}

void install()
{
    static const BOOL installed = ::SetConsoleCtrlHandler(handleEvent, TRUE);
    if (!installed)
        qCWarning(lcLock, "quitOnSignals(): the system refused (%s)",
                  qPrintable(qt_error_string(int(::GetLastError()))));
}

#else

void install() {}

#endif

} // namespace

void quitOnSignals()
{
    const QCoreApplication *const application = QCoreApplication::instance();
    if (!application || application->thread() != QThread::currentThread()) {
        qCWarning(
                lcLock,
                "quitOnSignals() must be called in the thread of the application object, when there is one; signals end the program without giving locks back");
        return;
    }
    install();
}

} // namespace QDistLock
