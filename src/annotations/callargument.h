// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qmetatype.h>
#include <QtCore/qstring.h>
#include <QtCore/qvariant.h>

namespace QDistLock {

/// How well an argument matches a parameter. Among overloads, the one that matches best is called.
enum class ArgumentMatch {
    None,      ///< it cannot be passed
    Converted, ///< as QVariant converts it
    Related,   ///< a number for a number, a list for a list, a pointer for a pointer
    Same       ///< it has the parameter's type
};

/*!
    Converts \a argument to \a type, the type of a parameter. Returns ArgumentMatch::None with \a error if that is
    impossible or would lose a part of the value (1.5 or NaN for an int, -1 for an unsigned, null for text), since the
    method would then run under the lock of another value.
*/
ArgumentMatch convertArgument(QVariant *argument, QMetaType type, QString *error);

} // namespace QDistLock
