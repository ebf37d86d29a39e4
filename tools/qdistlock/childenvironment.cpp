// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "childenvironment.h"

#include "options.h"

#include <QDistLock/LockRegistry>
#include <QDistLock/impl/namebytes.h>

#include <QtCore/qurl.h>

#include <algorithm>

#include <unistd.h>

using namespace Qt::StringLiterals;

extern char **environ;

namespace Cli {

namespace {

bool isSecret(const QByteArray &name, const QByteArray &value)
{
    if (name == "QDISTLOCK_URL") {
        // In a URL that cannot be used, any part may be a password.
        const QUrl url(QString::fromUtf8(value));
        return !url.password().isEmpty() || QDistLock::LockRegistry(url).error() != QDistLock::DistributedLock::NoError;
    }
    return name.startsWith("QDISTLOCK_") && name.endsWith("PASSWORD");
}

bool isOfOuterRun(const QByteArray &name)
{
    const QList<Explanation> &own = childEnvironmentTexts();
    return name == "QDISTLOCK_LOST" || std::any_of(own.cbegin(), own.cend(), [&name](const Explanation &variable) {
               return name == variable.name.toLatin1();
           });
}

} // namespace

QByteArrayList childEnvironment(bool withSecrets)
{
    QByteArrayList environment;
    for (char **entry = environ; *entry; ++entry) {
        const QByteArray variable(*entry);
        const qsizetype equals = std::max<qsizetype>(0, variable.indexOf('='));
        const QByteArray name = variable.first(equals);
        if (!isOfOuterRun(name) && (withSecrets || !isSecret(name, variable.sliced(equals + 1))))
            environment += variable;
    }
    return environment;
}

QString childEnvironmentError(const QStringList &names)
{
#ifdef Q_OS_LINUX
    const qsizetype longest = 32 * ::sysconf(_SC_PAGESIZE); // of one string, see execve(2)
#else
    const qsizetype longest = ::sysconf(_SC_ARG_MAX) / 4;
#endif
    constexpr qsizetype NameAndEnd = sizeof "QDISTLOCK_FENCE=";
    constexpr qsizetype TokenAndComma = 20;
    const qsizetype size = NameAndEnd
            + std::max(QDistLock::Detail::nameBytes(names.join(u',')).size(), names.size() * TokenAndComma);
    if (size <= longest)
        return {};
    return u"$QDISTLOCK_NAME and $QDISTLOCK_FENCE cannot carry %1 names and fencing tokens: %2 bytes, of %3 at most; name fewer locks"_s
            .arg(QString::number(names.size()), QString::number(size), QString::number(longest));
}

} // namespace Cli
