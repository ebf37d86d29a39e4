// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QDistLock/qdistlock_export.h>

#include <QtCore/qbytearrayview.h>

namespace QDistLock {

/// Matches bytes, as SCAN MATCH does: * ? [a-z] [^a] \x
QDISTLOCK_EXPORT bool globMatches(QByteArrayView pattern, QByteArrayView text);

} // namespace QDistLock
