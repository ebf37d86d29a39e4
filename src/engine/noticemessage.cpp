// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "noticemessage.h"

#include <charconv>
#include <cstring>

namespace QDistLock {

namespace {

/// Skips \a word if \a text begins with it.
bool skip(QByteArrayView *text, const char *word)
{
    if (!text->startsWith(word))
        return false;
    *text = text->sliced(qsizetype(std::strlen(word)));
    return true;
}

/// Takes a number from the beginning of \a text; neither "+1" nor "01" nor "-0" is one.
template<typename Number>
bool takeNumber(QByteArrayView *text, Number *number)
{
    const char *const begin = text->data();
    const auto [end, error] = std::from_chars(begin, begin + text->size(), *number);
    if (error != std::errc())
        return false;
    const char *const firstDigit = begin + (*begin == '-');
    if (*firstDigit == '0' && end - begin > 1)
        return false;
    *text = text->sliced(end - begin);
    return true;
}

} // namespace

std::optional<NoticeMessage> NoticeMessage::parse(QByteArrayView payload)
{
    NoticeMessage message;
    if (skip(&payload, "grant "))
        message.notice = LockEngine::Grant;
    else if (skip(&payload, "next "))
        message.notice = LockEngine::Next;
    else if (skip(&payload, "force "))
        message.notice = LockEngine::ForcedRelease;
    else
        return std::nullopt;
    if (!takeNumber(&payload, &message.sequence) || message.sequence == 0)
        return std::nullopt;
    if (message.notice == LockEngine::Next) {
        qint32 ms = 0;
        if (!skip(&payload, " ") || !takeNumber(&payload, &ms))
            return std::nullopt;
        message.delay = std::chrono::milliseconds(ms);
    }
    if (!payload.isEmpty())
        return std::nullopt;
    return message;
}

} // namespace QDistLock
