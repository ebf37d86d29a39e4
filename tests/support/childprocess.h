// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qprocess.h>

#include <csignal>

#include <sys/prctl.h>

namespace Support {

/// Before it is started: it is killed when the thread that starts it ends, in whatever way.
inline void setDiesWithParent(QProcess *process)
{
    process->setChildProcessModifier([] { ::prctl(PR_SET_PDEATHSIG, SIGKILL); });
}

} // namespace Support
