// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qbytearray.h>

namespace QtRedis {

/// A Lua script and the SHA1 (40 lower-case hex digits) under which the server keeps it. Constants, generated at build
/// time.
struct Script
{
    const char *name;
    const char *text;
    const char *sha1;
};

} // namespace QtRedis
