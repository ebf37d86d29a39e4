// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qloggingcategory.h>

namespace QtZooKeeper {

Q_DECLARE_LOGGING_CATEGORY(lcZooKeeper)

} // namespace QtZooKeeper
