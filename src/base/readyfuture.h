// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qfuture.h>
#include <QtCore/qglobal.h>

#include <type_traits>
#include <utility>

namespace QDistLock {

/// A finished future with \a value. Qt 6.6 deprecated makeReadyFuture(), and only from then on has its successor.
template<typename T>
QFuture<std::decay_t<T>> readyFuture(T &&value)
{
#if QT_VERSION >= QT_VERSION_CHECK(6, 6, 0)
    return QtFuture::makeReadyValueFuture(std::forward<T>(value));
#else
    return QtFuture::makeReadyFuture(std::forward<T>(value));
#endif
}

} // namespace QDistLock
