// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "aclrules.h"

#include <QtCore/qfile.h>

namespace Support {

QByteArrayList aclLines()
{
    QFile file(QStringLiteral(ACL_FILE));
    if (!file.open(QIODevice::ReadOnly))
        qFatal("%s cannot be read", ACL_FILE);
    return file.readAll().trimmed().split('\n');
}

QByteArrayList aclRule(const QByteArray &user, const QByteArray &password)
{
    const QByteArrayList lines = aclLines();
    for (const QByteArray &line : lines) {
        QByteArrayList words = line.split(' ');
        if (words.size() > 3 && words.first(3) == QByteArrayList{"ACL", "SETUSER", user}) {
            words.replace(words.indexOf(">SECRET"), '>' + password);
            return words.sliced(3);
        }
    }
    qFatal("%s has no rule for %s", ACL_FILE, user.constData());
    return {};
}

} // namespace Support
