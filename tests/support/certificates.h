// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qstring.h>
#include <QtCore/qtemporarydir.h>

namespace Support {

/*!
    Certificates for TLS tests, made with the openssl program in a temporary folder, which is deleted with this object.
    Server certificates are for localhost and 127.0.0.1 unless stated otherwise.
*/
class Certificates
{
public:
    struct Pair
    {
        QString certificate;
        QString key;
    };

    Certificates();

    bool isValid() const { return m_error.isEmpty(); }
    QString errorString() const { return m_error; }

    QString ca() const { return path("ca.crt"); }
    /// An authority that has signed none of the certificates below.
    QString otherCa() const { return path("other-ca.crt"); }
    Pair server() const { return pair("server"); }
    /// Valid only for elsewhere.example.
    Pair wrongHost() const { return pair("wrong-host"); }
    /// Expired in 2021.
    Pair expired() const { return pair("expired"); }
    /// Self-signed.
    Pair selfSigned() const { return pair("self-signed"); }
    Pair client() const { return pair("client"); }

private:
    QString path(const char *name) const;
    Pair pair(const char *name) const;
    bool run(const QStringList &arguments);
    bool makeAuthority(const QString &name);
    bool makeSigned(const QString &name, const QString &subject, const QString &extensions, bool expired = false);

    QTemporaryDir m_folder;
    QString m_error;
};

} // namespace Support
