// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "annotations/valuepath.h"
#include "engine/lockid.h"

#include <QDistLock/lockoptions.h>

#include <QtCore/qurl.h>

#include <optional>

namespace QDistLock {

/// What an annotated call does while another owner holds the lock.
enum class OnBusy {
    Wait,
    Skip,  ///< is dropped
    Fail,  ///< reports BusyError
    Latest ///< waits until a newer call of the same method of the same receiver replaces it
};

/// How many calls of one method of one receiver may wait if its annotation has no maxQueued.
constexpr int DefaultMaxQueued = 10000;

/// The options of an annotation, written as `name=value; name=value`.
struct AnnotationOptions
{
    LockOptions lock;
    OnBusy onBusy = OnBusy::Wait;
    int maxQueued = DefaultMaxQueued;
    QUrl server; ///< as normalizedServer() spells it; empty = the default server
    QString keyPrefix = LockId::defaultPrefix();
    std::optional<ValuePath> condition;
    bool conditionNegated = false;

    /// Parses any \a text. nullopt with an \a error that has positions, counted from 1.
    static std::optional<AnnotationOptions> parse(QStringView text, QString *error);
    /// Resolves the condition; returns an error, or an empty text.
    QString bind(const MethodSignature &signature);
    /// Only after bind(): whether the condition of the call is true, or there is none. nullopt with \a error.
    std::optional<bool> isWanted(const CallArguments &arguments, QString *error) const;
};

} // namespace QDistLock
