// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qstring.h>
#include <QtCore/qstringlist.h>
#include <QtCore/qurl.h>

#include <optional>

namespace QtRedis {

/*!
    Where one Redis server is and how to log in: redis://, rediss:// and unix:// URLs, strictly
    parsed. Thread: a plain value.
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

    /// On failure nullopt, and \a error shows the URL and names the part that is wrong, never user name or password.
    /// \a otherSchemes: further ones that the caller accepts, for the error.
    static std::optional<ServerUrl> parse(const QUrl &url, QString *error, const QStringList &otherSchemes = {});
    /// \a url without user name, password and query, fit for logs. Only the scheme of a URL whose
    /// parts cannot be told apart for sure, such as one with an unescaped '/' in the password.
    static QUrl withoutSecrets(const QUrl &url);
    /// The one spelling of \a url: equal for all URLs that parse() reads in the same way. It has the port, but no database 0,
    /// and no password that comes from QDISTLOCK_PASSWORD. A URL that cannot be used is returned as it is.
    static QUrl normalized(const QUrl &url);
    /// Fit for logs and errors: "redis://host:6379/0".
    QString toDisplayString() const;
    /// An error text of the server, fit for logs and errors: user name and password are blanked. An error code,
    /// the first word in capital letters, stays.
    QString shown(const QByteArray &serverText) const;
};

} // namespace QtRedis
