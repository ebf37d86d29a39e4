// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#ifndef QDISTLOCK_LOCKCLIENT_H
#define QDISTLOCK_LOCKCLIENT_H

#include <QDistLock/qdistlock_export.h>

#include <QtCore/qmetatype.h>
#include <QtCore/qstring.h>

namespace QDistLock {

/*!
    Who holds a lock, or waits for it. A plain value that any thread may use.
*/
struct LockClient
{
    /// Identifies the LockRegistry; empty for another library. Not the token, which is a secret: whoever knows a token
    /// can release the lock.
    QString id;
    /// Its process, see LockRegistry::setIdentity(). Empty, and 0, if it shows no identity, if it is not connected or
    /// foreign, or if the user may not list the server's connections.
    ///@{
    QString host;
    qint64 pid = 0;
    QString application;
    ///@}
    /// False if it has no connection to the server: it has ended, or its network is down. Also true if it cannot be
    /// known, as for another library.
    bool connected = false;

    /// For people: "nightly on db7, pid 812"; "client 0a1b…" if it shows no identity; or "another library".
    QDISTLOCK_EXPORT QString toString() const;
};

} // namespace QDistLock

Q_DECLARE_METATYPE(QDistLock::LockClient)

#endif
