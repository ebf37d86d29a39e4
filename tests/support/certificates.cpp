// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "certificates.h"

#include <QtCore/qdir.h>
#include <QtCore/qfile.h>
#include <QtCore/qprocess.h>
#include <QtCore/qstringlist.h>

namespace Support {

namespace {

constexpr char configuration[] = R"([ca]
default_ca = authority
[authority]
dir = .
new_certs_dir = .
database = index.txt
rand_serial = yes
default_md = sha256
default_days = 3650
policy = policy
unique_subject = no
[policy]
commonName = supplied
[req]
distinguished_name = names
prompt = no
[names]
commonName = localhost
[authority_extensions]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign,cRLSign
subjectKeyIdentifier = hash
[here]
basicConstraints = CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = serverAuth
subjectAltName = DNS:localhost,IP:127.0.0.1
[elsewhere]
basicConstraints = CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = serverAuth
subjectAltName = DNS:elsewhere.example
[client]
basicConstraints = CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = clientAuth
)";

QStringList newKey(const QString &name)
{
    return {QStringLiteral("req"),
            QStringLiteral("-config"),
            QStringLiteral("openssl.cnf"),
            QStringLiteral("-newkey"),
            QStringLiteral("ec"),
            QStringLiteral("-pkeyopt"),
            QStringLiteral("ec_paramgen_curve:prime256v1"),
            QStringLiteral("-nodes"),
            QStringLiteral("-keyout"),
            name + QLatin1String(".key")};
}

} // namespace

Certificates::Certificates()
    : m_folder(QDir::tempPath() + QLatin1String("/qdl-tls-XXXXXX"))
{
    QFile file(path("openssl.cnf"));
    QFile index(path("index.txt"));
    if (!file.open(QIODevice::WriteOnly) || file.write(configuration) < 0 || !file.flush()
        || !index.open(QIODevice::WriteOnly)) {
        m_error = QStringLiteral("cannot write into %1").arg(m_folder.path());
        return;
    }
    const bool made = makeAuthority(QStringLiteral("ca"))
            && makeAuthority(QStringLiteral("other-ca"))
            && makeSigned(QStringLiteral("server"), QStringLiteral("/CN=localhost"),
                          QStringLiteral("here"))
            && makeSigned(QStringLiteral("wrong-host"), QStringLiteral("/CN=elsewhere.example"),
                          QStringLiteral("elsewhere"))
            && makeSigned(QStringLiteral("expired"), QStringLiteral("/CN=localhost"),
                          QStringLiteral("here"), true)
            && makeSigned(QStringLiteral("client"), QStringLiteral("/CN=client"),
                          QStringLiteral("client"))
            && run(newKey(QStringLiteral("self-signed"))
                   + QStringList{QStringLiteral("-x509"), QStringLiteral("-days"),
                                 QStringLiteral("3650"), QStringLiteral("-subj"),
                                 QStringLiteral("/CN=localhost"), QStringLiteral("-extensions"),
                                 QStringLiteral("here"), QStringLiteral("-out"),
                                 QStringLiteral("self-signed.crt")});
    if (!made)
        qWarning("Certificates: %ls", qUtf16Printable(m_error));
}

bool Certificates::makeAuthority(const QString &name)
{
    return run(newKey(name)
               + QStringList{QStringLiteral("-x509"), QStringLiteral("-days"),
                             QStringLiteral("3650"), QStringLiteral("-subj"),
                             QLatin1String("/CN=Test authority ") + name,
                             QStringLiteral("-extensions"), QStringLiteral("authority_extensions"),
                             QStringLiteral("-out"), name + QLatin1String(".crt")});
}

bool Certificates::makeSigned(const QString &name, const QString &subject,
                              const QString &extensions, bool expired)
{
    const QString request = name + QLatin1String(".csr");
    // "openssl ca", as "openssl x509 -req" of OpenSSL 3.0 knows no past dates.
    QStringList sign = {QStringLiteral("ca"),
                        QStringLiteral("-config"),
                        QStringLiteral("openssl.cnf"),
                        QStringLiteral("-batch"),
                        QStringLiteral("-notext"),
                        QStringLiteral("-cert"),
                        QStringLiteral("ca.crt"),
                        QStringLiteral("-keyfile"),
                        QStringLiteral("ca.key"),
                        QStringLiteral("-extensions"),
                        extensions,
                        QStringLiteral("-in"),
                        request,
                        QStringLiteral("-out"),
                        name + QLatin1String(".crt")};
    if (expired) {
        sign += {QStringLiteral("-startdate"), QStringLiteral("20200101000000Z"),
                 QStringLiteral("-enddate"), QStringLiteral("20210101000000Z")};
    }
    return run(newKey(name)
               + QStringList{QStringLiteral("-new"), QStringLiteral("-subj"), subject,
                             QStringLiteral("-out"), request})
            && run(sign);
}

bool Certificates::run(const QStringList &arguments)
{
    QProcess process;
    process.setWorkingDirectory(m_folder.path());
    process.setProcessChannelMode(QProcess::MergedChannels);
    process.start(QStringLiteral("openssl"), arguments);
    process.closeWriteChannel();
    if (process.waitForFinished() && process.exitStatus() == QProcess::NormalExit
        && process.exitCode() == 0)
        return true;
    m_error = QStringLiteral("openssl %1: %2 %3")
                      .arg(arguments.join(QLatin1Char(' ')), process.errorString(),
                           QString::fromLocal8Bit(process.readAll()));
    return false;
}

QString Certificates::path(const char *name) const
{
    return m_folder.filePath(QLatin1String(name));
}

Certificates::Pair Certificates::pair(const char *name) const
{
    const QString base = path(name);
    return {base + QLatin1String(".crt"), base + QLatin1String(".key")};
}

} // namespace Support
