// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qbytearray.h>
#include <QtCore/qlist.h>
#include <QtCore/qvarlengtharray.h>

namespace QDistLock::LockOrder {

/// Indices of nodes.
using Order = QVarLengthArray<int, 8>;

/// The order in which the servers called \a nodes are asked for the lock with this \a key, so that clients which want
/// the same lock meet at the same server, and different locks spread over all. It depends on the names of the nodes,
/// but not on the order in which they are given. Thread-safe.
Order of(const QByteArray &key, const QList<QByteArray> &nodes);

} // namespace QDistLock::LockOrder
