// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qbytearray.h>
#include <QtCore/qloggingcategory.h>
#include <QtCore/qstring.h>

namespace QDistLock {

Q_DECLARE_LOGGING_CATEGORY(lcLock)

/// \a text, and what grep and other programs can read in a line of the log: ` lock=… fence=… client=…`, in the form of
/// logfmt. Left out is what is empty or 0, and a name that is too long for a lock. \a client is the id of the client,
/// never a token.
QString withFields(const QString &text, const QString &lock, qint64 fencingToken = 0, const QByteArray &client = {});

} // namespace QDistLock
