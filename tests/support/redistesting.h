// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "eventloopprobe.h"

#include "redis/serverurl.h"

#include <QtCore/qdebug.h>

/// Shared by the tests of the Redis client.
namespace RedisTesting {

/// Runs an event loop until \a condition is true, or until the time-out.
inline bool waitFor(const std::function<bool()> &condition,
                    std::chrono::milliseconds timeout = std::chrono::seconds(60))
{
    return Support::EventLoopProbe::waitFor(condition, timeout);
}

/// Parses \a url; ends the test if it is invalid.
inline QtRedis::ServerUrl serverUrl(const QUrl &url)
{
    QString error;
    const auto server = QtRedis::ServerUrl::parse(url, &error);
    if (!server)
        qFatal("%s", qPrintable(error));
    return *server;
}

} // namespace RedisTesting
