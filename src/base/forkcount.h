// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

/// The number of forks between the process of the first call and this one. An object that was made at another count is
/// a copy in a child process: it shares its sockets with the parent, and its threads do not exist here. Thread-safe;
/// makes no system call.
int forkCount();
