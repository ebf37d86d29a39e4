// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// The input is a text that another client published on this client's channel, or wrote into a lock's key. Only a text
// of exactly the documented form is parsed as a message, or as a token of this library.

#include "fuzz.h"

#include "engine/protocolconstants.h"
#include "engine/redis/noticemessage.h"
#include "engine/redis/permitslots.h"

#include <QtCore/qcryptographichash.h>

#include <algorithm>
#include <cstring>
#include <limits>

using namespace QDistLock;

namespace {

/// The part of a message that its proof covers.
QByteArray print(const NoticeMessage::Hold &hold)
{
    const QByteArray numbers = PermitSlots::print(hold.permitSlots);
    return ' ' + QByteArray::number(hold.fencingToken) + ' ' + QByteArray::number(qint64(hold.grantedAt.count())) + ' '
            + QByteArray::number(qint64(hold.ttl.count())) + (numbers.isEmpty() ? QByteArray() : ' ' + numbers);
}

QByteArray print(const NoticeMessage &message)
{
    switch (message.notice) {
    case LockEngine::Grant:
        return "grant " + QByteArray::number(message.sequence)
                + (message.hold ? print(*message.hold) + ' ' + message.hold->proof : QByteArray());
    case LockEngine::Next:
        return "next " + QByteArray::number(message.sequence) + ' ' + QByteArray::number(qint64(message.delay.count()));
    case LockEngine::ForcedRelease:
        break;
    }
    return "force " + QByteArray::number(message.sequence);
}

/// A message has exactly one spelling.
void checkMessage(QByteArrayView input)
{
    const auto message = NoticeMessage::parse(input);
    if (!message)
        return;
    FUZZ_CHECK(message->sequence > 0);
    FUZZ_CHECK(message->notice == LockEngine::Next || message->delay.count() == 0);
    FUZZ_CHECK(message->notice == LockEngine::Grant || !message->hold);
    FUZZ_CHECK(print(*message) == input);
    if (!message->hold)
        return;
    FUZZ_CHECK(message->hold->fencingToken > 0 && message->hold->grantedAt.count() > 0
               && message->hold->ttl.count() > 0);
    FUZZ_CHECK(!message->hold->isProvenBy("1a2b3c4d5e6f7081:7:ffeeddccbbaa99887766554433221100")); // in no input
}

/// Takes a number from the beginning of \a input.
template<typename Number>
Number take(QByteArrayView *input)
{
    Number number = 0;
    const qsizetype size = std::min<qsizetype>(sizeof number, input->size());
    std::copy_n(input->data(), size, reinterpret_cast<char *>(&number));
    *input = input->sliced(size);
    return number;
}

/// Messages as the scripts send them are parsed; the input gives their numbers.
void checkPrinted(QByteArrayView input)
{
    const auto sequence = take<quint64>(&input);
    const auto ms = take<qint32>(&input);
    for (const auto notice : {LockEngine::Grant, LockEngine::Next, LockEngine::ForcedRelease}) {
        const NoticeMessage sent{notice, std::max<quint64>(sequence, 1),
                                 std::chrono::milliseconds(notice == LockEngine::Next ? ms : 0), std::nullopt};
        const auto received = NoticeMessage::parse(print(sent));
        FUZZ_CHECK(received && received->notice == sent.notice && received->sequence == sent.sequence
                   && received->delay == sent.delay && !received->hold);
    }

    NoticeMessage grant;
    grant.sequence = std::max<quint64>(sequence, 1);
    const auto positive = [](qint64 number, qint64 most) { return qint64(quint64(number) % quint64(most)) + 1; };
    NoticeMessage::Hold hold;
    hold.fencingToken = positive(take<qint64>(&input), std::numeric_limits<qint64>::max());
    hold.grantedAt = std::chrono::microseconds(positive(take<qint64>(&input), Protocol::MaxExact));
    hold.ttl = std::chrono::milliseconds(positive(ms, std::numeric_limits<qint32>::max()));
    const auto first = take<quint8>(&input);
    for (int slot = first; slot < 4 * first; slot += 1 + first / 2) // none if it is 0
        hold.permitSlots.append(slot);
    const QByteArray token = input.toByteArray();
    hold.proof = QCryptographicHash::hash(token + print(hold), QCryptographicHash::Sha1).toHex();
    grant.hold = hold;
    const auto received = NoticeMessage::parse(print(grant));
    FUZZ_CHECK(received && received->sequence == grant.sequence && received->hold);
    FUZZ_CHECK(received->hold->fencingToken == hold.fencingToken && received->hold->grantedAt == hold.grantedAt
               && received->hold->ttl == hold.ttl && received->hold->permitSlots == hold.permitSlots);
    FUZZ_CHECK(received->hold->isProvenBy(token));
    FUZZ_CHECK(!received->hold->isProvenBy(token + '0'));
    const auto isProvenAfter = [&](auto change) {
        NoticeMessage::Hold changed = *received->hold;
        change(&changed);
        return changed.isProvenBy(token);
    };
    FUZZ_CHECK(!isProvenAfter([](auto *changed) { changed->fencingToken -= 1; }));
    FUZZ_CHECK(!isProvenAfter([](auto *changed) { changed->grantedAt += std::chrono::microseconds(1); }));
    FUZZ_CHECK(!isProvenAfter([](auto *changed) { changed->ttl += std::chrono::milliseconds(1); }));
    FUZZ_CHECK(!isProvenAfter([](auto *changed) { changed->permitSlots.append(1000); }));
    FUZZ_CHECK(!isProvenAfter([](auto *changed) { changed->proof[0] = changed->proof[0] == 'a' ? 'b' : 'a'; }));
}

void checkToken(QByteArrayView input)
{
    const QByteArray token = input.toByteArray();
    const QByteArray client = Token::clientOf(token);
    const quint64 sequence = Token::sequenceOf(token);
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
