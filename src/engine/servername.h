// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qurl.h>

namespace QDistLock {

bool isZooKeeper(const QUrl &server);

/// The canonical spelling of a server's URL, in which servers are compared, sorted and used as keys. A URL that cannot
/// be used is returned unchanged. Names are not resolved: a host's name and its address are different servers.
QUrl normalizedServer(const QUrl &server);

/// \a normalizedServer, without the final dots of its host names: with a dot and without it, they mean the same server.
QUrl withoutFinalDots(const QUrl &normalizedServer);

/// Identifies the locks of a server: equal for two URLs exactly if they lead to the same locks. It contains the address
/// and the database, but not login and certificates, with which the connection is another one, but the locks are the
/// same.
QString lockSpace(const QUrl &normalizedServer);
bool isSameLockSpace(const QUrl &normalizedServer, const QUrl &other);

/// \a server without user name, password and query, but with the nodes in it, fit for logs.
QUrl withoutSecrets(const QUrl &server);
/// \a text, in which there may be a server's URL, without the user name and password of that.
QString withoutSecrets(QString text);

} // namespace QDistLock
