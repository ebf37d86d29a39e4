// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qloggingcategory.h>

namespace QtRedis {

/// "qdistlock.redis": debug for changes of state, warning for what does not heal by itself. Never a
/// secret.
Q_DECLARE_LOGGING_CATEGORY(lcRedis)

} // namespace QtRedis
