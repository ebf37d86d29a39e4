// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/redis/noticemessage.h"

#include "engine/protocolconstants.h"
#include "engine/redis/permitslots.h"
#include "engine/redis/serverclock.h"

#include <QtCore/qcryptographichash.h>

#include <algorithm>
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

std::optional<NoticeMessage::Hold> takeHold(QByteArrayView *text)
{
    constexpr qsizetype ProofSize = 40;
    NoticeMessage::Hold hold;
    qint64 grantedAt = 0;
    qint32 ttl = 0;
    const auto isHexDigit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
    if (!skip(text, " ") || !takeNumber(text, &hold.fencingToken) || hold.fencingToken <= 0 || !skip(text, " ")
        || !takeNumber(text, &grantedAt) || grantedAt <= 0 || grantedAt > Protocol::MaxExact || !skip(text, " ")
        || !takeNumber(text, &ttl) || ttl <= 0 || !skip(text, " "))
        return std::nullopt;
    if (const qsizetype space = text->indexOf(' '); space >= 0) {
        const auto permitSlots = PermitSlots::parse(text->first(space));
        if (!permitSlots)
            return std::nullopt;
        hold.permitSlots = *permitSlots;
        *text = text->sliced(space + 1);
    }
    if (text->size() != ProofSize || !std::all_of(text->begin(), text->end(), isHexDigit))
        return std::nullopt;
    hold.grantedAt = std::chrono::microseconds(grantedAt);
    hold.ttl = std::chrono::milliseconds(ttl);
    hold.proof = text->toByteArray();
    *text = {};
    return hold;
}

} // namespace

bool NoticeMessage::Hold::isProvenBy(const QByteArray &token) const
{
    QByteArray text = token + ' ' + QByteArray::number(fencingToken) + ' '
            + QByteArray::number(qint64(grantedAt.count())) + ' ' + QByteArray::number(qint64(ttl.count()));
    if (!permitSlots.isEmpty())
        text += ' ' + PermitSlots::print(permitSlots);
    return QCryptographicHash::hash(text, QCryptographicHash::Sha1).toHex() == proof;
}

std::optional<LockEngine::Handover> NoticeMessage::handover(const std::optional<LockEngine::Waiter> &waiter,
                                                            const ServerClock &clock, LeaseTime now) const
{
    if (!hold || !waiter)
        return std::nullopt;
    const auto grantedAt = clock.earliest(hold->grantedAt, now);
    if (!grantedAt || !hold->isProvenBy(waiter->token))
        return std::nullopt;
    LockEngine::Handover handover{waiter->lock, waiter->token, hold->fencingToken, *grantedAt, hold->ttl};
    handover.grantedAt = hold->grantedAt;
    handover.permitSlots = hold->permitSlots;
    return handover;
}

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
    if (message.notice == LockEngine::Grant && !payload.isEmpty()) {
        message.hold = takeHold(&payload);
        if (!message.hold)
            return std::nullopt;
    }
    if (!payload.isEmpty())
        return std::nullopt;
    return message;
}

} // namespace QDistLock
