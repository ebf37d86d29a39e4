// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/token.h"

#include <QtCore/qbytearrayview.h>
#include <QtCore/qrandom.h>

#ifdef Q_OS_UNIX
#  include <unistd.h>
#endif

#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

namespace QDistLock {

namespace {

constexpr size_t RandomBytes = 16;
constexpr qsizetype ClientIdSize = 16;
constexpr char ReaderMark = 'r';
constexpr char PermitsMark = 'p';
constexpr char SlotsMark = '@';

/// Fills \a bytes from the system's random source.
void fillRandom(char *bytes, size_t size)
{
#ifdef Q_OS_UNIX
    // QRandomGenerator::system() prefers the processor's generator, which takes longer than all the rest of a token.
    if (getentropy(bytes, size) == 0)
        return;
#endif
    QRandomGenerator::system()->fillRange(reinterpret_cast<quint32 *>(bytes), qsizetype(size / sizeof(quint32)));
}

struct TokenParts
{
    QByteArrayView client;
    QByteArrayView sequence;
    QByteArrayView random; ///< and what follows it
};

/// How many permits \a token takes; 0 if it is none of a holder of permits.
int permitsIn(QByteArrayView token)
{
    const qsizetype end = token.startsWith(PermitsMark) ? token.indexOf('/') : -1;
    QByteArrayView number = end < 0 ? QByteArrayView() : token.sliced(1, end - 1);
    if (number.endsWith(SlotsMark))
        number.chop(1);
    const int permits = number.toByteArray().toInt();
    return permits > 0 && number == QByteArray::number(permits) ? permits : 0;
}

/// \a token without what says its kind.
QByteArrayView withoutKind(QByteArrayView token)
{
    if (token.startsWith(ReaderMark))
        return token.sliced(1);
    return permitsIn(token) > 0 ? token.sliced(token.indexOf('/') + 1) : token;
}

bool isHex(QByteArrayView text)
{
    return !text.isEmpty() && std::all_of(text.begin(), text.end(), [](char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
    });
}

/// All parts are empty if \a token does not have the form of one.
TokenParts split(QByteArrayView token)
{
    const QByteArrayView whole = withoutKind(token);
    const qsizetype first = whole.indexOf(':');
    const qsizetype second = whole.indexOf(':', first + 1);
    if (first < 0 || second < 0)
        return {};
    const QByteArrayView client = whole.first(first);
    const QByteArrayView sequence = whole.sliced(first + 1, second - first - 1);
    const auto isDigit = [](char c) { return c >= '0' && c <= '9'; };
    const bool isNumber = !sequence.isEmpty() && std::all_of(sequence.begin(), sequence.end(), isDigit);
    const QByteArrayView random = whole.sliced(second + 1);
    if (!isHex(client) || !isNumber || !isHex(random))
        return {};
    return {client, sequence, random};
}

} // namespace

quint64 Token::sequenceOf(const QByteArray &token)
{
    return split(token).sequence.toULongLong();
}

QByteArray Token::clientOf(const QByteArray &token)
{
    return split(token).client.toByteArray();
}

bool Token::isOf(const QByteArray &token, const QByteArray &clientId)
{
    const QByteArrayView whole = withoutKind(token);
    return whole.size() > clientId.size() && whole.startsWith(clientId) && whole.at(clientId.size()) == ':';
}

bool Token::isClientId(const QByteArray &text)
{
    return text.size() == ClientIdSize && isHex(text);
}

QByteArray Token::ofReader(const QByteArray &token)
{
    return ReaderMark + token;
}

bool Token::isReader(const QByteArray &token)
{
    return token.startsWith(ReaderMark);
}

QByteArray Token::ofPermits(const QByteArray &token, int take, bool wantsSlots)
{
    return PermitsMark + QByteArray::number(take) + (wantsSlots ? QByteArray(1, SlotsMark) : QByteArray()) + '/'
            + token;
}

int Token::permitsOf(const QByteArray &token)
{
    return permitsIn(token);
}

bool Token::wantsSlots(const QByteArray &token)
{
    return permitsIn(token) > 0 && token.at(token.indexOf('/') - 1) == SlotsMark;
}

bool Token::isShared(const QByteArray &token)
{
    return token.startsWith(ReaderMark) || token.startsWith(PermitsMark);
}

QByteArray Token::connectionOf(const QByteArray &token)
{
    const QByteArrayView random = split(token).random;
    const QByteArray number = random.sliced(std::min<qsizetype>(2 * RandomBytes, random.size())).toByteArray();
    const qint64 value = number.toLongLong();
    return value > 0 && number == QByteArray::number(value) ? number : QByteArray();
}

TokenGenerator::TokenGenerator(const QByteArray &clientId)
    : m_clientId(clientId.isEmpty() ? QByteArray::number(ProtocolVersion, 16) + randomHex(8).sliced(1) : clientId)
{
}

QByteArray TokenGenerator::randomHex(size_t bytes)
{
    if (m_random.size() - m_randomUsed < bytes) {
        fillRandom(m_random.data(), m_random.size());
        m_randomUsed = 0;
    }
    const char *const begin = m_random.data() + std::exchange(m_randomUsed, m_randomUsed + bytes);
    return QByteArray::fromRawData(begin, qsizetype(bytes)).toHex();
}

QByteArray TokenGenerator::makeToken()
{
    char sequence[20];
    const auto end = std::to_chars(std::begin(sequence), std::end(sequence), ++m_sequence).ptr;
    QByteArray token;
    token.reserve(m_clientId.size() + qsizetype(sizeof sequence) + 34);
    token += m_clientId;
    token += ':';
    token.append(sequence, end - sequence);
    token += ':';
    token += randomHex(RandomBytes);
    return token;
}

} // namespace QDistLock
