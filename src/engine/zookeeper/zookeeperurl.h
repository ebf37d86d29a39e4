// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "redis/endpoint.h"

#include <QtCore/qbytearray.h>
#include <QtCore/qlist.h>
#include <QtCore/qurl.h>

#include <chrono>
#include <optional>

namespace QDistLock {

/*!
    The servers of a ZooKeeper ensemble, the folder of the locks and the login, strictly parsed from
    zookeeper://[user[:password]@]host[:2181][/chroot]?node=host[:port]&session=MS. Thread: a plain value.
*/
struct ZooKeeperUrl
{
    QList<QtRedis::Endpoint> servers;
    QByteArray chroot; ///< "/a/b"; empty for the root
    std::chrono::milliseconds session{30'000};
    QByteArray user;                    ///< of a digest login; empty: none
    std::optional<QByteArray> password; ///< nullopt: the URL has none

    /// The password of the URL, otherwise that of QDISTLOCK_PASSWORD or of the file that QDISTLOCK_PASSWORD_FILE names,
    /// as they are now. nullopt, with \a problem set to a clause, if the file cannot be used.
    std::optional<QByteArray> readPassword(QString *problem) const;
    /// The path of the node that has the locks' nodes.
    QByteArray folder() const { return chroot.isEmpty() ? QByteArray("/") : chroot; }

    static constexpr quint16 DefaultPort = 2181;

    /// nullopt, with \a problem set in words and without secrets, for an invalid URL.
    static std::optional<ZooKeeperUrl> parse(const QUrl &url, QString *problem);
    /// The canonical spelling: equal for all URLs with the same result of parse(), whatever the order of the servers. A
    /// URL that cannot be used is returned unchanged.
    static QUrl normalized(const QUrl &url);
    /// "zookeeper://a:2181/chroot?node=b:2181"
    QString toDisplayString() const;
};

} // namespace QDistLock
