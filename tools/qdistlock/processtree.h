// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <functional>
#include <vector>

#include <sys/types.h>

namespace Cli {

/*!
    The processes that a command has started. A shell that is killed alone leaves the program behind that it runs.

    Most of them are in one process group. The others are found as descendants: on Linux only.
*/
namespace ProcessTree {

/// Whether processes can be found. Without /proc, only those in the command's group are reached.
bool canFind();

/// Descendants that lose their parent become children of this process, so that they can still be found.
void adoptOrphans();

/// The present descendants of this process are not the command's: a shell has started them before it became this
/// program. All functions here leave them out, with what they start; so does a process that is forked later.
void leaveOutPresent();
/// The same for \a id, another helper of this program.
void leaveOut(pid_t id);
/// \a id was reaped; its number may be given to another process.
void reaped(pid_t id);

/// Whether this process has children, zombies included. Unlike the lists below, this misses nobody; after
/// adoptOrphans(), there is no descendant without a child.
bool hasChildren();
/// The descendants of \a ancestor, zombies included, but not this process. Processes that are started meanwhile may be
/// missing, and others while one of them ends.
std::vector<pid_t> descendants(pid_t ancestor);
/// Not a zombie. Works without /proc, too, where a zombie counts as running.
bool isRunning(pid_t id);
/// The living members of a process group; searches all processes of the machine, which takes milliseconds.
std::vector<pid_t> groupMembers(pid_t group);

/// For spared groups: all of them.
constexpr pid_t Everybody = -1;

/// Sends \a number to the process group \a group (0 = none), and to all descendants of \a ancestor outside of it but
/// those in the group \a spared() (0 = none); SIGKILL also to those that turn up meanwhile. \a spared() is asked after
/// each search. Returns whether there was anybody.
bool signal(pid_t ancestor, pid_t group, int number, const std::function<pid_t()> &spared);

} // namespace ProcessTree
} // namespace Cli
