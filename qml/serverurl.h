// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QDistLock/lockregistry.h>

#include <QtCore/qstring.h>
#include <QtCore/qurl.h>

namespace QDistLock {

/// The server that a property `server` with this value means; one that is no URL gives an invalid one, which a
/// LockRegistry reports.
inline QUrl serverUrl(const QString &server)
{
    return server.isEmpty() ? LockRegistry::defaultServer() : QUrl(server, QUrl::StrictMode);
}

} // namespace QDistLock
