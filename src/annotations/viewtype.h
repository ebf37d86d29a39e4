// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qmetatype.h>
#include <QtCore/qvariant.h>

namespace QDistLock {

/// A type of views in QVariants, which an argument that waits cannot keep.
struct ViewType
{
    QMetaType view;
    QMetaType owner;                            ///< the type of an argument for a parameter that is such a view
    QVariant (*own)(const QVariant &view);      ///< see Detail::ownedArgument()
    QVariant (*make)(const QVariant &argument); ///< a view of \a argument, which is of the type owner
};

/// Null if \a type is no view that a parameter of invokeLocked() may be.
const ViewType *findViewType(QMetaType type);

} // namespace QDistLock
