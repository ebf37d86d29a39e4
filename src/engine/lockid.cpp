// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/lockid.h"

#include <QDistLock/impl/namebytes.h>

using namespace Qt::StringLiterals;

namespace QDistLock {

namespace {

constexpr qsizetype MaximumSize = 1024; // bytes

} // namespace

QString LockId::defaultPrefix()
{
    return u"lock:"_s;
}

std::optional<LockId> LockId::make(const QString &prefix, const QString &name, QString *error)
{
    const auto fail = [error](const QString &text) {
        *error = text;
        return std::nullopt;
    };
    if (name.isEmpty())
        return fail(u"the name is empty; give the lock a name"_s);
    if (name.contains(QChar::Null) || prefix.contains(QChar::Null))
        return fail(u"name and key prefix must not contain NUL characters"_s);
    const QByteArray keyName = Detail::nameBytes(name);
    const QByteArray keyPrefix = Detail::nameBytes(prefix);
    if (keyName.size() > MaximumSize || keyPrefix.size() > MaximumSize) {
        return fail(
                u"name and key prefix may have %1 bytes of UTF-8 each at most; they have %2 and %3"_s.arg(MaximumSize)
                        .arg(keyName.size())
                        .arg(keyPrefix.size()));
    }
    // Two texts must not be one name.
    if (Detail::nameText(keyName) != name || Detail::nameText(keyPrefix) != prefix)
        return fail(
                u"name and key prefix must be valid Unicode: they must not contain half a surrogate pair or begin with a byte order mark"_s);
    return LockId(keyPrefix + keyName, keyPrefix.size());
}

} // namespace QDistLock
