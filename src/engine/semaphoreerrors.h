// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "engine/engineerror.h"

namespace QDistLock {

/// Why a server refuses an acquire of permits or of a reader, whatever engine asks it. Thread-safe.
namespace SemaphoreErrors {

/// The server has \a serverPermits permits for the name, 0 = no number. The acquire expects \a said of them, which may
/// be LockOptions::ServerPermits, and wants to take \a take.
EngineError wrongPermits(int serverPermits, int said, int take);
/// The name is held by readers, and the acquire is one of permits, or the other way round.
EngineError otherKind(bool heldByReaders);

} // namespace SemaphoreErrors

} // namespace QDistLock
