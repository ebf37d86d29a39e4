// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "testprogram.h"

#include "eventloopprobe.h"

#include <signal.h>

namespace Support {

TestProgram::TestProgram(const QString &program, const QStringList &arguments, ProcessChannelMode mode)
{
    setProcessChannelMode(mode);
    start(program, arguments);
}

TestProgram::~TestProgram()
{
    if (state() != NotRunning)
        kill();
    waitForFinished();
}

const QByteArray &TestProgram::output()
{
    m_output += readAllStandardOutput();
    return m_output;
}

bool TestProgram::waitForOutput(const QByteArray &text, std::chrono::milliseconds timeout)
{
    return EventLoopProbe::waitFor([&] { return output().contains(text); }, timeout);
}

bool TestProgram::waitForEnd(std::chrono::milliseconds timeout)
{
    return EventLoopProbe::waitFor([this] { return state() == NotRunning; }, timeout);
}

void TestProgram::sendSignal(int number)
{
    // Without a process, 0 would mean the group of the test itself.
    if (const qint64 id = processId(); id > 0)
        ::kill(pid_t(id), number);
}

} // namespace Support
