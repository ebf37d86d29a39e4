// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qstring.h>
#include <QtCore/qvariant.h>

#include <optional>

namespace QDistLock {

/// \a value as text, not escaped. nullopt with \a error.
std::optional<QString> valueToKeyText(const QVariant &value, QString *error);
/// \a text, in which all characters but letters, digits, `-_.@+~` and those beyond ASCII are `%XX`, and so is \a
/// separator.
QString escapedForKey(QStringView text, char32_t separator = 0);
/// Whether escapedForKey() leaves \a c as it is.
bool isSafeInKeys(char16_t c);

} // namespace QDistLock
