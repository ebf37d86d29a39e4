// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "zookeeper/logging.h"

namespace QtZooKeeper {

Q_LOGGING_CATEGORY(lcZooKeeper, "qdistlock.zookeeper", QtInfoMsg)

} // namespace QtZooKeeper
