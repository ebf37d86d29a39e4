// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qstring.h>
#include <QtCore/qstringlist.h>
#include <QtCore/qurl.h>

#include <optional>

namespace QtRedis {

/*!
    The address of a Redis server and the login, strictly parsed from redis://, rediss:// and unix:// URLs. Thread: a
    plain value.
*/
struct ServerUrl
{
    enum Scheme { Tcp, Tls, Unix };

    Scheme scheme = Tcp;
    QString host;
    quint16 port = 6379;
    QString path; ///< of a Unix socket
    int database = 0;
    QString user;     ///< percent-decoded
    QString password; ///< percent-decoded; from QDISTLOCK_PASSWORD where the URL has none
    QString caFile, certificateFile, keyFile;

    /// nullopt, with \a error set, for an invalid URL. The error shows the URL and names the part that is wrong, but
    /// never user name or password; it also lists \a otherSchemes, which the caller accepts.
    static std::optional<ServerUrl> parse(const QUrl &url, QString *error, const QStringList &otherSchemes = {});
    /// \a url without user name, password and query, fit for logs. If its parts cannot be separated reliably, because
    /// of an unescaped '/' in the password for instance, only the scheme remains.
    static QUrl withoutSecrets(const QUrl &url);
    /// The canonical spelling of \a url: equal for all URLs with the same result of parse(). It contains the port, but
    /// neither the database 0 nor a password from QDISTLOCK_PASSWORD. A URL that cannot be used is returned unchanged.
    static QUrl normalized(const QUrl &url);
    /// Fit for logs and errors: "redis://host:6379/0".
    QString toDisplayString() const;
    /// An error text of the server, made fit for logs and errors: user name and password are replaced. The error code,
    /// which is the first word if it is in capital letters, remains.
    QString shown(const QByteArray &serverText) const;
};

} // namespace QtRedis
