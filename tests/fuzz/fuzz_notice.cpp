// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// The input is what somebody published on a client's channel, or wrote into a lock's key. Only what is exactly
// of the documented form is a message, or a token of ours.

#include "fuzz.h"

#include "engine/noticemessage.h"

#include <algorithm>
#include <cstring>
#include <limits>

using namespace QDistLock;

namespace {

QByteArray print(const NoticeMessage &message)
{
    switch (message.notice) {
    case LockEngine::Grant:
        return "grant " + QByteArray::number(message.sequence);
    case LockEngine::Next:
        return "next " + QByteArray::number(message.sequence) + ' '
                + QByteArray::number(qint64(message.delay.count()));
    case LockEngine::ForcedRelease:
        break;
    }
    return "force " + QByteArray::number(message.sequence);
}

/// What is a message has no other spelling than this one.
void checkMessage(QByteArrayView input)
{
    const auto message = NoticeMessage::parse(input);
    if (!message)
        return;
    FUZZ_CHECK(message->sequence > 0);
    FUZZ_CHECK(message->notice == LockEngine::Next || message->delay.count() == 0);
    FUZZ_CHECK(print(*message) == input);
}

/// What the scripts send is understood: the input as numbers.
void checkPrinted(QByteArrayView input)
{
    char raw[sizeof(quint64) + sizeof(qint32)] = {};
    std::copy_n(input.begin(), std::min<qsizetype>(sizeof raw, input.size()), raw);
    quint64 sequence = 0;
    qint32 ms = 0;
    std::memcpy(&sequence, raw, sizeof sequence);
    std::memcpy(&ms, raw + sizeof sequence, sizeof ms);
    for (const auto notice : {LockEngine::Grant, LockEngine::Next, LockEngine::ForcedRelease}) {
        const NoticeMessage sent{notice, std::max<quint64>(sequence, 1),
                                 std::chrono::milliseconds(notice == LockEngine::Next ? ms : 0)};
        const auto received = NoticeMessage::parse(print(sent));
        FUZZ_CHECK(received && received->notice == sent.notice && received->sequence == sent.sequence
                   && received->delay == sent.delay);
    }
}

void checkToken(QByteArrayView input)
{
    const QByteArray token = input.toByteArray();
    const QByteArray client = LockEngine::clientOf(token);
    const quint64 sequence = LockEngine::sequenceOf(token);
    const QList<QByteArray> parts = token.split(':');
    const auto isHex = [](const QByteArray &text) {
        return !text.isEmpty() && std::all_of(text.begin(), text.end(), [](char c) {
            return std::strchr("0123456789abcdef", c) && c != '\0';
        });
    };
    const auto isDecimal = [](const QByteArray &text) {
        return !text.isEmpty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
    };
    const bool ours = parts.size() == 3 && isHex(parts.at(0)) && isDecimal(parts.at(1)) && isHex(parts.at(2));
    FUZZ_CHECK(client == (ours ? parts.at(0) : QByteArray()));
    FUZZ_CHECK(sequence == (ours ? parts.at(1).toULongLong() : 0)); // 0 too where it is over 64 bits
}

} // namespace

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const QByteArrayView input = Fuzz::bytes(data, size);
    checkMessage(input);
    checkPrinted(input);
    checkToken(input);
    return 0;
}
