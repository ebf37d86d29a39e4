// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "annotations/valuepath.h"

#include <QtCore/qlist.h>
#include <QtCore/qstring.h>

#include <algorithm>
#include <optional>

namespace QDistLock {

/*!
    The key of an annotation: literal text with `{path}` in it, or `{path?}` if the value may be empty; `{{` and `}}`
    are braces.

    Different values never give the same key: they are escaped, and the text between two of them has a character that
    the first of them, once escaped, does not contain.
*/
class KeyTemplate
{
public:
    /// Parses any \a text. nullopt with an \a error that has a position, counted from 1.
    static std::optional<KeyTemplate> parse(QStringView text, QString *error);
    /// Resolves the paths. Returns an error, or an empty text.
    QString bind(const MethodSignature &signature);
    /// Only after bind(). The key of one call; nullopt with \a error.
    std::optional<QString> evaluate(const CallArguments &arguments, QString *error) const;
    /// Whether the key of a call depends on the call.
    bool hasValues() const
    {
        return std::any_of(m_parts.begin(), m_parts.end(), [](const Part &part) { return part.value.has_value(); });
    }
    /// The error if no call can have a lock of such a name; empty otherwise.
    QString nameProblem(const QString &prefix) const;
    /// Only after bind(): whether both, after their key prefixes, give the same key for each call.
    bool isSame(const QString &prefix, const KeyTemplate &other, const QString &otherPrefix) const;

private:
    struct Part
    {
        QString literal; ///< before the value
        std::optional<ValuePath> value;
        bool mayBeEmpty = false;
        char32_t separator = 0; ///< a character of the next literal if another value follows it; escaped in the value
    };
    QList<Part> m_parts;
};

} // namespace QDistLock
