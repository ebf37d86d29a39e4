// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qbytearray.h>
#include <QtCore/qbytearrayview.h>
#include <QtCore/qlist.h>

#include <optional>

namespace QDistLock {

/// The numbers of the permits that a holder has, as a script writes them: separated by commas. Thread-safe.
namespace PermitSlots {

/// nullopt for all that is not exactly of this form: ascending, each in its one canonical spelling, and one at least.
std::optional<QList<int>> parse(QByteArrayView text);
/// The text that parse() reads.
QByteArray print(const QList<int> &numbers);

} // namespace PermitSlots

} // namespace QDistLock
