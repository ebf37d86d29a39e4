// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "logging.h"

namespace QDistLock {

Q_LOGGING_CATEGORY(lcLock, "qdistlock.lock", QtInfoMsg)

} // namespace QDistLock
