// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qobject.h>
#include <QtCore/qsocketnotifier.h>

#include <memory>

namespace Cli {

/*!
    The Unix signals of this process as Qt signals. A signal that was ignored when the program began, as nohup and the
    background jobs of a shell script do it, stays ignored.

    Thread: the main thread; one object at a time.
*/
class UnixSignals : public QObject
{
    Q_OBJECT

public:
    UnixSignals();
    ~UnixSignals() override;

    /// Whether \a number ends a process that has not prepared for it, at the user's or the system's wish.
    static bool isRequestToEnd(int number);
    /// "SIGTERM".
    static QString name(int number);

    /// Blocks all signals in this thread until the object is destroyed, so that no handler of ours runs in a child
    /// after fork().
    class Blocked
    {
    public:
        Blocked();
        ~Blocked();

    private:
        Q_DISABLE_COPY_MOVE(Blocked)
        struct Mask;
        std::unique_ptr<Mask> m_previous;
    };

    /// For the child after fork(): gives each signal the disposition, and the thread the mask, that the program found
    /// when it began. Calls only what POSIX allows there.
    static void restoreInChild();

    /// Stops this process as Ctrl+Z does; returns when it is continued.
    static void stopSelf();
    /// Ends this process by \a number, so that whoever started it sees that signal, without a core dump.
    [[noreturn]] static void endBy(int number);

Q_SIGNALS:
    /// \a fromTerminal: the terminal sent it to the whole process group, as for Ctrl+C.
    void received(int number, bool fromTerminal);
    /// A child process has ended, stopped or continued.
    void childChanged();

private:
    void read();

    QSocketNotifier m_notifier;
};

} // namespace Cli
