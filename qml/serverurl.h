// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QDistLock/lockregistry.h>

#include <QtCore/qstring.h>
#include <QtCore/qurl.h>

namespace QDistLock {

/// Converts the value of a property `server`: an empty one means the default server. If it is no valid URL, the result
/// is invalid, and a LockRegistry that gets it reports an error.
inline QUrl serverUrl(const QString &server)
{
    return server.isEmpty() ? LockRegistry::defaultServer() : QUrl(server, QUrl::StrictMode);
}

} // namespace QDistLock
