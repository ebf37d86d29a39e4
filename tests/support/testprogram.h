// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qprocess.h>

#include <chrono>

namespace Support {

/*!
    Another process, whose program is part of the tests. It is killed when this object is destroyed, if it still runs.
    Thread: one, with an event loop.
*/
class TestProgram : public QProcess
{
public:
    TestProgram() = default;
    /// Starts \a program.
    TestProgram(const QString &program, const QStringList &arguments, ProcessChannelMode mode = ForwardedErrorChannel);
    ~TestProgram() override;

    /// Everything that the process has written to its standard output.
    const QByteArray &output();
    /// Runs an event loop until the output contains \a text, or until the time-out.
    bool waitForOutput(const QByteArray &text, std::chrono::milliseconds timeout = std::chrono::seconds(60));
    /// Runs an event loop until the process has ended, or until the time-out.
    bool waitForEnd(std::chrono::milliseconds timeout = std::chrono::seconds(60));
    /// The process has ended with exit status 0.
    bool hasSucceeded() const { return state() == NotRunning && exitStatus() == NormalExit && exitCode() == 0; }
    void sendSignal(int number);

private:
    QByteArray m_output;
};

} // namespace Support
