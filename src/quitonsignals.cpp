// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include <QDistLock/quitonsignals.h>

#include "logging.h"

#include <QtCore/qcoreapplication.h>
#include <QtCore/qpointer.h>
#include <QtCore/qsocketnotifier.h>
#include <QtCore/qthread.h>

#include <atomic>

#ifdef Q_OS_UNIX
#  include <cerrno>
#  include <fcntl.h>
#  include <signal.h>
#  include <unistd.h>
#elif defined(Q_OS_WIN)
#  include <qt_windows.h>
#endif

namespace QDistLock {

namespace {

#ifdef Q_OS_UNIX

constexpr int Signals[] = {SIGINT, SIGTERM, SIGHUP};

int pipeEnds[2] = {-1, -1};
pid_t process = 0;

// Calls nothing but what POSIX allows in a signal handler.
void handleSignal(int number)
{
    const int error = errno;
    for (const int each : Signals) {
        struct sigaction current;
        if (::sigaction(each, nullptr, &current) == 0 && current.sa_handler == handleSignal)
            ::signal(each, SIG_DFL); // the next one ends the program
    }
    if (::getpid() == process) {
        const auto byte = static_cast<unsigned char>(number);
        [[maybe_unused]] const auto written = ::write(pipeEnds[1], &byte, 1);
    } else {
        ::raise(number); // blocked until this handler returns
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
        qCWarning(lcLock, "quitOnSignals(): the system refused (%s)", qPrintable(qt_error_string(int(::GetLastError()))));
}

#else

void install() {}

#endif

} // namespace

void quitOnSignals()
{
    const QCoreApplication *const application = QCoreApplication::instance();
    if (!application || application->thread() != QThread::currentThread()) {
        qCWarning(lcLock, "quitOnSignals() must be called in the thread of the application object, when there is one; "
                          "signals end the program without giving locks back");
        return;
    }
    install();
}

} // namespace QDistLock
