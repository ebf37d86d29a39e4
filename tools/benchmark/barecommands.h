// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qbytearray.h>
#include <QtCore/qurl.h>

#include <hiredis/hiredis.h>

#include <memory>

// Shared by the bare loops: the two commands that every Redis lock needs.

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

/// Blocks. Supports only redis://host:port and unix:///path.
ContextPointer connectHiredis(const QUrl &server);
/// Loads the compare-and-delete script, and returns its SHA1.
QByteArray loadReleaseScript(const QUrl &server);

/// Unique among the processes of one run.
QByteArray bareKey(const char *kind, int index);

} // namespace Bench
