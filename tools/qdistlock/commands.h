// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qbytearraylist.h>

namespace Cli {

class Invocation;

// One function for each command. Each is called once, in the main thread, when there is a QCoreApplication, and returns
// the exit code, or -N if this program must end by signal N. It runs the event loop itself, see Session.

int runRun(const Invocation &invocation);
int runHold(const Invocation &invocation);
int runAcquire(const Invocation &invocation);
int runRenew(const Invocation &invocation);
int runRelease(const Invocation &invocation);
int runPermits(const Invocation &invocation);
int runList(const Invocation &invocation);
int runShow(const Invocation &invocation);
int runWatch(const Invocation &invocation);
int runMetrics(const Invocation &invocation);
int runDoctor(const Invocation &invocation);
int runCompletion(const Invocation &invocation);
/// `__complete`, for the scripts of `completion`.
int runComplete(const QByteArrayList &words);

} // namespace Cli
