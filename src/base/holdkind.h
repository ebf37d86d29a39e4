// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QDistLock/lockoptions.h>

namespace QDistLock {

/// How a lock is held with certain options. Those who hold it at the same time hold it in the same way.
enum class HoldKind { Exclusive, Reader, Permits };

HoldKind kindOf(const LockOptions &options);
/// Whether an owner that has acquired a lock with \a held may acquire it once more with \a wanted, as one more level of
/// the same hold. Otherwise it would wait for itself.
bool covers(const LockOptions &held, const LockOptions &wanted);
/// Why it may not, in words that follow its name.
QString whyNotCovered(const LockOptions &held, const LockOptions &wanted);

} // namespace QDistLock
