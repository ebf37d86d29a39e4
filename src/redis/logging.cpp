// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "redis/logging.h"

namespace QtRedis {

Q_LOGGING_CATEGORY(lcRedis, "qdistlock.redis", QtInfoMsg)

} // namespace QtRedis
