// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "certificates.h"

#include <QtCore/qdir.h>
#include <QtCore/qfile.h>
#include <QtCore/qprocess.h>
#include <QtCore/qstringlist.h>

using namespace Qt::StringLiterals;

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
    return {u"req"_s,
            u"-config"_s,
            u"openssl.cnf"_s,
            u"-newkey"_s,
            u"ec"_s,
            u"-pkeyopt"_s,
            u"ec_paramgen_curve:prime256v1"_s,
            u"-nodes"_s,
            u"-keyout"_s,
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
        m_error = u"cannot write into %1"_s.arg(m_folder.path());
        return;
    }
    const bool made = makeAuthority(u"ca"_s) && makeAuthority(u"other-ca"_s)
            && makeSigned(u"server"_s, u"/CN=localhost"_s, u"here"_s)
            && makeSigned(u"wrong-host"_s, u"/CN=elsewhere.example"_s, u"elsewhere"_s)
            && makeSigned(u"expired"_s, u"/CN=localhost"_s, u"here"_s, true)
            && makeSigned(u"client"_s, u"/CN=client"_s, u"client"_s)
            && run(newKey(u"self-signed"_s)
                   + QStringList{u"-x509"_s, u"-days"_s, u"3650"_s, u"-subj"_s, u"/CN=localhost"_s, u"-extensions"_s,
                                 u"here"_s, u"-out"_s, u"self-signed.crt"_s});
    if (!made)
        qWarning("Certificates: %ls", qUtf16Printable(m_error));
}

bool Certificates::makeAuthority(const QString &name)
{
    return run(newKey(name)
               + QStringList{u"-x509"_s, u"-days"_s, u"3650"_s, u"-subj"_s, QLatin1String("/CN=Test authority ") + name,
                             u"-extensions"_s, u"authority_extensions"_s, u"-out"_s, name + QLatin1String(".crt")});
}

bool Certificates::makeSigned(const QString &name, const QString &subject, const QString &extensions, bool expired)
{
    const QString request = name + QLatin1String(".csr");
    // "openssl ca", because "openssl x509 -req" of OpenSSL 3.0 cannot set a date in the past.
    QStringList sign = {u"ca"_s,    u"-config"_s, u"openssl.cnf"_s, u"-batch"_s, u"-notext"_s,
                        u"-cert"_s, u"ca.crt"_s,  u"-keyfile"_s,    u"ca.key"_s, u"-extensions"_s,
                        extensions, u"-in"_s,     request,          u"-out"_s,   name + QLatin1String(".crt")};
    if (expired) {
        sign += {u"-startdate"_s, u"20200101000000Z"_s, u"-enddate"_s, u"20210101000000Z"_s};
    }
    return run(newKey(name) + QStringList{u"-new"_s, u"-subj"_s, subject, u"-out"_s, request}) && run(sign);
}

bool Certificates::run(const QStringList &arguments)
{
    QProcess process;
    process.setWorkingDirectory(m_folder.path());
    process.setProcessChannelMode(QProcess::MergedChannels);
    process.start(u"openssl"_s, arguments);
    process.closeWriteChannel();
    if (process.waitForFinished() && process.exitStatus() == QProcess::NormalExit && process.exitCode() == 0)
        return true;
    m_error = u"openssl %1: %2 %3"_s.arg(arguments.join(QLatin1Char(' ')), process.errorString(),
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
