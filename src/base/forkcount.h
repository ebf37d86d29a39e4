// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

/// How often this process and those before it were forked since the first call. An object that notes it when it is made
/// finds out that it has become a child's copy: it shares sockets with the parent then, and its threads are gone.
/// Thread-safe, and cheap: no system call.
int forkCount();
