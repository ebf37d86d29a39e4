// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "engine/engineerror.h"
#include "engine/lockid.h"

#include <QtCore/qurl.h>

#include <memory>

namespace QDistLock {

class LeaseClock;
class LockEngine;

/// The one place that knows all engines and the URL schemes that choose between them.
namespace EngineFactory {

/// Why no engine can use \a server, in words and without secrets; empty if one can. Does not connect. Thread-safe.
QString check(const QUrl &server);
/// Null, with \a error set, if check() refuses \a server. \a clock is not owned. The engine belongs to the calling
/// thread.
std::unique_ptr<LockEngine> create(const QUrl &server, const LeaseClock *clock, EngineError *error);

/// nullopt, with \a error in words, for a prefix or name that one of the engines cannot use, whichever is in use: an
/// application that was tested with "memory:" then also runs with Redis. Thread-safe.
std::optional<LockId> makeLockId(const QString &prefix, const QString &name, QString *error);

} // namespace EngineFactory
} // namespace QDistLock
