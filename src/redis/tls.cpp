// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "redis/tls.h"

#if QT_CONFIG(ssl)
#  include <QtCore/qfile.h>
#  include <QtNetwork/qsslcertificate.h>
#  include <QtNetwork/qsslkey.h>
#  include <QtNetwork/qsslsocket.h>

using namespace Qt::StringLiterals;

namespace QtRedis {

namespace {

/// Empty, with \a error set, if it cannot be read.
QByteArray readFile(const QString &fileName, QString *error)
{
    QFile file(fileName);
    if (file.open(QIODevice::ReadOnly))
        return file.readAll();
    *error = u"the file %1 cannot be read (%2)"_s.arg(fileName, file.errorString());
    return {};
}

QList<QSslCertificate> readCertificates(const QString &fileName, QString *error)
{
    *error = u"the file %1 has no PEM certificate"_s.arg(fileName);
    return QSslCertificate::fromData(readFile(fileName, error), QSsl::Pem);
}

QSslKey readKey(const QString &fileName, QString *error)
{
    *error = u"the file %1 has no unencrypted RSA, EC or DSA key in PEM"_s.arg(fileName);
    const QByteArray pem = readFile(fileName, error);
    for (const QSsl::KeyAlgorithm algorithm : {QSsl::Rsa, QSsl::Ec, QSsl::Dsa}) {
        const QSslKey key(pem, algorithm);
        if (!key.isNull())
            return key;
    }
    return {};
}

} // namespace

// The files are read again for each connection, so that renewed certificates are used.
std::optional<QSslConfiguration> tlsConfiguration(const ServerUrl &server, QString *error)
{
    QSslConfiguration configuration = QSslConfiguration::defaultConfiguration();
    configuration.setProtocol(QSsl::TlsV1_2OrLater);
    configuration.setPeerVerifyMode(QSslSocket::VerifyPeer);
    if (!server.caFile.isEmpty()) {
        const QList<QSslCertificate> authorities = readCertificates(server.caFile, error);
        if (authorities.isEmpty())
            return std::nullopt;
        configuration.setCaCertificates(authorities);
    }
    if (!server.certificateFile.isEmpty()) {
        const QList<QSslCertificate> chain = readCertificates(server.certificateFile, error);
        if (chain.isEmpty())
            return std::nullopt;
        const QSslKey key = readKey(server.keyFile, error);
        if (key.isNull())
            return std::nullopt;
        configuration.setLocalCertificateChain(chain);
        configuration.setPrivateKey(key);
    }
    return configuration;
}

QString certificateProblems(const QList<QSslError> &errors, const ServerUrl &server)
{
    QStringList problems;
    for (const QSslError &error : errors) {
        QString problem;
        switch (error.error()) {
        case QSslError::HostNameMismatch:
            problem = u"it was issued for another host name than \"%1\""_s.arg(server.endpoint().name());
            break;
        case QSslError::CertificateExpired:
            problem = u"it expired on %1"_s.arg(error.certificate().expiryDate().toString(Qt::ISODate));
            break;
        case QSslError::CertificateNotYetValid:
            problem = u"it is valid only from %1"_s.arg(error.certificate().effectiveDate().toString(Qt::ISODate));
            break;
        case QSslError::SelfSignedCertificate:
            problem = u"it is self-signed and not trusted (a CA of your own is given with ?ca=FILE)"_s;
            break;
        case QSslError::SelfSignedCertificateInChain: // of the authority itself
        case QSslError::UnableToGetIssuerCertificate:
        case QSslError::UnableToGetLocalIssuerCertificate:
        case QSslError::UnableToVerifyFirstCertificate:
        case QSslError::CertificateUntrusted:
        case QSslError::InvalidCaCertificate:
            problem = u"it was issued by an authority that is not trusted (a CA of your own is given with ?ca=FILE)"_s;
            break;
        default:
            problem = error.errorString();
        }
        if (!problems.contains(problem))
            problems.append(problem);
    }
    return problems.join(u"; "_s);
}

QString handshakeProblem(const QString &reason)
{
    const auto says = [&reason](const char *words) {
        return reason.contains(QLatin1String(words), Qt::CaseInsensitive);
    };
    if (says("alert")) {
        return u"the server refuses the TLS connection (%1); does it ask for a client certificate (?cert=FILE&key=FILE)?"_s
                .arg(reason);
    }
    if (says("wrong version") || says("unknown protocol") || says("packet length"))
        return plaintextProblem();
    return u"the TLS handshake failed (%1)"_s.arg(reason);
}

QString plaintextProblem()
{
    return u"the server does not speak TLS on this port; use its TLS port, or redis:// for a connection without encryption"_s;
}

} // namespace QtRedis

#endif
