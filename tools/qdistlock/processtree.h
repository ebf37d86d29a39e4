// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <sys/types.h>

namespace Cli {

/*!
    The processes that a command has started, in whatever group they are by now. A shell that is killed alone leaves the
    program behind that it runs.

    Linux only; elsewhere, and without /proc, there is nothing but the process group.
*/
namespace ProcessTree {

/// Descendants that lose their parent become children of this process, so that descendants() still finds them.
void adoptOrphans();

/// Which processes are meant.
struct Selection
{
    pid_t root = 0;   ///< its descendants; it is a member, too, unless it is this process
    pid_t group = 0;  ///< and the members of this process group; 0 = of none
    pid_t spared = 0; ///< but not this process and its descendants
};

/// Whether one of them is alive.
bool isAlive(const Selection &selection);

/// Sends \a number to each of them but \a exceptFor, once. A process that one of them starts meanwhile may be missed.
void signal(const Selection &selection, int number, pid_t exceptFor = 0);

} // namespace ProcessTree
} // namespace Cli
