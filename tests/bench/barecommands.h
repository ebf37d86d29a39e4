// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qbytearray.h>
#include <QtCore/qurl.h>

#include <hiredis/hiredis.h>

#include <memory>

// What the bare loops have in common: the two commands every Redis lock comes down to.

namespace Bench {

struct FreeContext
{
    void operator()(redisContext *context) const { redisFree(context); }
};
using ContextPointer = std::unique_ptr<redisContext, FreeContext>;

struct FreeReply
{
    void operator()(void *reply) const { freeReplyObject(reply); }
};
using ReplyPointer = std::unique_ptr<redisReply, FreeReply>;

/// Blocking. redis://host:port and unix:///path only.
ContextPointer connectHiredis(const QUrl &server);
/// Loads compare-and-delete; its SHA1.
QByteArray loadReleaseScript(const QUrl &server);

/// Unique among the processes of one run.
QByteArray bareKey(const char *kind, int index);

} // namespace Bench
