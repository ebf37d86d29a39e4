// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qstring.h>
#include <QtCore/qstringlist.h>

namespace Cli {

/// The shells that completionScript() knows.
QStringList completionShells();
/// The script that completes the commands and options of qdistlock, made from their tables. Empty for an unknown shell.
QString completionScript(const QString &shell);

} // namespace Cli
