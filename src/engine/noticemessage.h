// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "lockengine.h"

#include <QtCore/qbytearrayview.h>

#include <chrono>
#include <optional>

namespace QDistLock {

/*!
    A message on a client's channel: `grant <sequence>`, `next <sequence> <ms>` or `force <sequence>`, see
    docs/protocol.md. Anybody may publish there. Thread: a plain value.
*/
struct NoticeMessage
{
    LockEngine::Notice notice = LockEngine::Grant;
    quint64 sequence = 0;               ///< never 0 once parsed
    std::chrono::milliseconds delay{0}; ///< Next, of 32 bits; negative where the server's PTTL was

    /// nullopt for all that is not exactly of this form, in the one canonical spelling of its numbers.
    static std::optional<NoticeMessage> parse(QByteArrayView payload);
};

} // namespace QDistLock
