// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "childenvironment.h"

#include "options.h"

#include <QtCore/qurl.h>

extern char **environ;

namespace Cli {

namespace {

bool isSecret(const QByteArray &name, const QByteArray &value)
{
    if (name == "QDISTLOCK_URL") {
        // In a text that is not a URL, the part before an @ may be a password.
        const QUrl url(QString::fromUtf8(value));
        return url.isValid() ? !url.password().isEmpty() : value.contains('@');
    }
    return name.startsWith("QDISTLOCK_") && name.endsWith("PASSWORD");
}

bool isOfOuterRun(const QByteArray &name)
{
    if (name == "QDISTLOCK_LOST")
        return true;
    for (const Explanation &variable : childEnvironmentTexts()) {
        if (name == variable.name)
            return true;
    }
    return false;
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

} // namespace Cli
