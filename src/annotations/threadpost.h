// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qobject.h>

#include <functional>

namespace QDistLock {

/// Calls \a function in the thread of \a object. If that thread ends first, calls \a ended in it; if it has ended
/// already, calls \a ended at once. Calls neither after \a object was destroyed. Thread: any.
void postTo(QObject *object, std::function<void()> function, std::function<void()> ended);

} // namespace QDistLock
