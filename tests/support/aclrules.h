// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qbytearraylist.h>

namespace Support {

/// The lines of docs/acl.txt.
QByteArrayList aclLines();
/// The words of the line for \a user in docs/acl.txt that follow "ACL SETUSER <user>", with \a password instead of
/// SECRET. Ends the test if there is no such line.
QByteArrayList aclRule(const QByteArray &user, const QByteArray &password);

} // namespace Support
