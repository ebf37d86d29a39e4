// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "lockengine.h"

#include <QtCore/qrandom.h>

#ifdef Q_OS_UNIX
#  include <unistd.h>
#endif

#include <algorithm>
#include <charconv>
#include <iterator>

namespace QDistLock {

namespace {

constexpr qsizetype MaximumNameSize = 1024; // bytes of UTF-8

/// Fills \a bytes from the system's random source.
void fillRandom(char *bytes, size_t size)
{
#ifdef Q_OS_UNIX
    // What QRandomGenerator::system() ends in where the processor has no generator of its own; that one
    // takes longer for each token than all the rest of it.
    if (getentropy(bytes, size) == 0)
        return;
#endif
    QRandomGenerator::system()->fillRange(reinterpret_cast<quint32 *>(bytes), qsizetype(size / sizeof(quint32)));
}

bool isExactUtf8(const QString &text, const QByteArray &utf8)
{
    return QString::fromUtf8(utf8) == text; // false for half a surrogate pair, or a byte order mark
}

/// The part of a key that decides its cluster slot: between the first '{' and the next '}', if not empty.
bool hasHashTag(const QByteArray &key)
{
    const qsizetype open = key.indexOf('{');
    if (open < 0)
        return false;
    return key.indexOf('}', open + 1) > open + 1;
}

/// Splits `<client id>:<sequence>:<random bits>`; the parts are empty if it is nothing of the kind.
std::array<QByteArrayView, 2> splitToken(const QByteArray &token)
{
    const auto isHex = [](QByteArrayView text) {
        return !text.isEmpty() && std::all_of(text.begin(), text.end(), [](char c) {
            return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
        });
    };
    const qsizetype first = token.indexOf(':');
    const qsizetype second = token.indexOf(':', first + 1);
    if (first < 0 || second < 0)
        return {};
    const QByteArrayView whole(token);
    const QByteArrayView client = whole.first(first);
    const QByteArrayView sequence = whole.sliced(first + 1, second - first - 1);
    const auto isDigit = [](char c) { return c >= '0' && c <= '9'; };
    const bool isNumber = !sequence.isEmpty() && std::all_of(sequence.begin(), sequence.end(), isDigit);
    if (!isHex(client) || !isNumber || !isHex(whole.sliced(second + 1)))
        return {};
    return {client, sequence};
}

} // namespace

std::optional<LockKeys> LockKeys::make(const QString &prefix, const QString &name, QString *error)
{
    const auto fail = [error](const QString &text) {
        *error = text;
        return std::nullopt;
    };
    if (name.isEmpty())
        return fail(QStringLiteral("the name is empty; give the lock a name"));
    if (name.contains(QChar::Null) || prefix.contains(QChar::Null))
        return fail(QStringLiteral("name and key prefix must not contain NUL characters"));
    const QByteArray utf8 = name.toUtf8();
    LockKeys keys;
    keys.prefix = prefix.toUtf8();
    if (utf8.size() > MaximumNameSize || keys.prefix.size() > MaximumNameSize) {
        return fail(QStringLiteral("name and key prefix may have %1 bytes of UTF-8 each at most; they have %2 and %3")
                            .arg(MaximumNameSize)
                            .arg(utf8.size())
                            .arg(keys.prefix.size()));
    }
    if (!isExactUtf8(name, utf8) || !isExactUtf8(prefix, keys.prefix))
        return fail(QStringLiteral("name and key prefix must be valid Unicode; half a surrogate pair is not, "
                                   "and a byte order mark must not stand first"));
    keys.lock = keys.prefix + utf8;
    if (hasHashTag(keys.lock)) {
        keys.queue = keys.lock + ":queue";
        keys.fence = keys.lock + ":fence";
        if (keys.lock.startsWith('{') && keys.lock.indexOf('}') == keys.lock.size() - 1) {
            return fail(QStringLiteral("a {hash tag} and nothing else has the side keys of the lock that is named "
                                       "in it; add something to the name"));
        }
        if (keys.lock.endsWith(":queue") || keys.lock.endsWith(":fence")) {
            return fail(QStringLiteral("a name with a {hash tag} must not end in \":queue\" or \":fence\"; "
                                       "these are the side keys of other locks"));
        }
    } else {
        if (keys.lock.contains('}')) {
            return fail(QStringLiteral("with this '}' the lock's side keys would lie in another cluster slot; "
                                       "use a {hash tag} with something in it, or no '}'"));
        }
        keys.queue = '{' + keys.lock + "}:queue";
        keys.fence = '{' + keys.lock + "}:fence";
    }
    return keys;
}

LockEngine::LockEngine(QObject *parent)
    : QObject(parent)
    , m_clientId(QByteArray::number(ProtocolVersion, 16) + randomHex(8).sliced(1))
{
}

QByteArray LockEngine::randomHex(size_t bytes)
{
    if (m_random.size() - m_randomUsed < bytes) {
        fillRandom(m_random.data(), m_random.size());
        m_randomUsed = 0;
    }
    const char *const begin = m_random.data() + std::exchange(m_randomUsed, m_randomUsed + bytes);
    return QByteArray::fromRawData(begin, qsizetype(bytes)).toHex();
}

QByteArray LockEngine::makeToken()
{
    char sequence[20];
    const auto end = std::to_chars(std::begin(sequence), std::end(sequence), ++m_sequence).ptr;
    QByteArray token;
    token.reserve(m_clientId.size() + qsizetype(sizeof sequence) + 34);
    token += m_clientId;
    token += ':';
    token.append(sequence, end - sequence);
    token += ':';
    token += randomHex(16);
    return token;
}

quint64 LockEngine::sequenceOf(const QByteArray &token)
{
    return splitToken(token)[1].toULongLong();
}

QByteArray LockEngine::clientOf(const QByteArray &token)
{
    return splitToken(token)[0].toByteArray();
}

} // namespace QDistLock
