// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qbytearray.h>

namespace Cli {

/// The page qdistlock(1), in roff with the macros of man(7), made from the tables of commands and options. ASCII.
QByteArray manPage();

} // namespace Cli
