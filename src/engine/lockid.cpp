// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/lockid.h"

using namespace Qt::StringLiterals;

namespace QDistLock {

namespace {

constexpr qsizetype MaximumSize = 1024; // bytes of UTF-8

bool isExactUtf8(const QString &text, const QByteArray &utf8)
{
    return QString::fromUtf8(utf8) == text; // false for half a surrogate pair, or a byte order mark
}

} // namespace

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
    const QByteArray nameBytes = name.toUtf8();
    const QByteArray prefixBytes = prefix.toUtf8();
    if (nameBytes.size() > MaximumSize || prefixBytes.size() > MaximumSize) {
        return fail(
                u"name and key prefix may have %1 bytes of UTF-8 each at most; they have %2 and %3"_s.arg(MaximumSize)
                        .arg(nameBytes.size())
                        .arg(prefixBytes.size()));
    }
    if (!isExactUtf8(name, nameBytes) || !isExactUtf8(prefix, prefixBytes))
        return fail(u"name and key prefix must be valid Unicode: they must not contain half a surrogate pair "
                    "or begin with a byte order mark"_s);
    return LockId(prefixBytes + nameBytes, prefixBytes.size());
}

} // namespace QDistLock
