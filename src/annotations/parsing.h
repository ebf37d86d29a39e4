// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "engine/lockengine.h"

#include <QtCore/qstring.h>

#include <algorithm>
#include <optional>

/// Helpers shared by the parsers of keys, paths and options.
namespace QDistLock::Parsing {

using namespace Qt::StringLiterals;

inline std::nullopt_t fail(QString *error, const QString &text)
{
    *error = text;
    return std::nullopt;
}

inline QString atPosition(qsizetype index, const QString &text)
{
    return u"at position %1: %2"_s.arg(index + 1).arg(text);
}

inline bool isLetter(QChar c)
{
    return (c >= u'a' && c <= u'z') || (c >= u'A' && c <= u'Z') || c == u'_';
}

inline bool isDigit(QChar c)
{
    return c >= u'0' && c <= u'9';
}

/// The number in \a text, decimal digits only; nullopt if it has anything else or does not fit.
inline std::optional<qint64> toNumber(QStringView text)
{
    if (text.isEmpty() || !std::all_of(text.begin(), text.end(), isDigit))
        return std::nullopt;
    bool ok = false;
    const qint64 number = text.toLongLong(&ok);
    return ok ? std::optional(number) : std::nullopt;
}

/// A name or path as it is; quoted and cut if it is long or has anything but letters, digits, '_', '.' and ':'.
inline QString nameForError(const QString &name)
{
    const bool isName = !name.isEmpty() && name.size() <= 100 && std::all_of(name.begin(), name.end(), [](QChar c) {
        return isLetter(c) || isDigit(c) || c == u'.' || c == u':';
    });
    return isName ? name : Detail::quoted(name);
}

} // namespace QDistLock::Parsing
