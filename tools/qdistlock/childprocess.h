// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qbytearraylist.h>
#include <QtCore/qobject.h>
#include <QtCore/qsocketnotifier.h>

#include <functional>
#include <memory>
#include <optional>

#include <sys/types.h>

namespace Cli {

/*!
    A child process with the standard input, output, file descriptors and signals that this program was started with.
    (QProcess would replace standard input, and has its own handling of signals.)

    Needs a UnixSignals object; call changed() when it emits childChanged(). Thread: the main thread, with whose end the
    kernel ends the child.
*/
class ChildProcess : public QObject
{
    Q_OBJECT

public:
    struct Setup
    {
        QByteArrayList command;     ///< program, searched in PATH, and arguments
        QByteArrayList environment; ///< NAME=VALUE
        bool ownGroup = true;       ///< else it stays in the group of this process
        int deathSignal = 0;        ///< sent to the child when this process ends; 0 = none (Linux)
        int lostFd = -1;            ///< passed to the child, as descriptor lostFdInChild
        int lostFdInChild = -1;
        std::function<void()>
                beforeExec; ///< called in the child; may call only what POSIX allows between fork and exec
    };

    ChildProcess() = default;

    /// False, with errno, if the system refuses to make a process.
    bool start(const Setup &setup);
    /// 0 if there is none, or if it was reaped.
    pid_t id() const { return m_id; }
    bool isRunning() const { return m_id > 0; }
    /// At the last changed().
    bool isStopped() const { return m_isStopped; }
    /// 0 if it has none.
    pid_t group() const { return m_hasGroup ? m_id : 0; }
    /// Sends \a number to its group, or to itself if it has none.
    void signal(int number) const;

    /// Polls its state, and emits stopped(), or ended(), which finished() follows.
    void changed();

    /// A descriptor of 3 or more that the child does not inherit, as small as possible, because the syntax of some
    /// shells allows only one digit.
    static int freeDescriptor();

Q_SIGNALS:
    /// It cannot be executed; finished() follows.
    void failed(int error);
    void stopped(int signal);
    /// It has ended, by \a signal unless that is 0. It is reaped afterwards: its number is still its own.
    void ended(int signal);
    /// It was reaped. One of \a exitCode and \a signal is 0 and has no meaning, unless both are 0.
    void finished(int exitCode, int signal);

private:
    void readError();

    pid_t m_id = 0;
    bool m_isStopped = false;
    bool m_hasGroup = false;
    int m_errorPipe = -1;
    std::unique_ptr<QSocketNotifier> m_errorNotifier;
};

} // namespace Cli
