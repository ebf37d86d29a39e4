// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qbytearraylist.h>
#include <QtCore/qstringlist.h>

namespace Cli {

/// The environment of this process, NAME=VALUE, for the child of `run`: without the variables that an outer `run` has
/// set, and, unless \a withSecrets, without those that contain a password.
QByteArrayList childEnvironment(bool withSecrets);

/// Why the child cannot get the names and fencing tokens of \a names in its environment; empty if it can.
QString childEnvironmentError(const QStringList &names);

} // namespace Cli
