// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qurl.h>

namespace QDistLock {

/// The one spelling of a server's URL, of all schemes, in which servers are compared, sorted and used as keys. A URL that
/// cannot be used is returned as it is. Names and addresses of one host are different servers: nothing is resolved.
QUrl normalizedServer(const QUrl &server);

/// What two servers in that spelling have in common exactly if their locks are the same: where the server is, and its
/// database. Login and certificates make another connection, but no other lock.
QString lockSpace(const QUrl &normalizedServer);
bool isSameLockSpace(const QUrl &normalizedServer, const QUrl &other);

} // namespace QDistLock
