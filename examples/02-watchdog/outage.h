// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/QUrl>

#include <chrono>

/// Sends CLIENT PAUSE to the Redis server at \a server (redis:// or unix://), over a separate connection: the server
/// then replies to no client for \a duration.
void pauseServer(const QUrl &server, std::chrono::milliseconds duration);
