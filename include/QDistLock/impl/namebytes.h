// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qbytearray.h>
#include <QtCore/qstring.h>

#include <algorithm>

namespace QDistLock::Detail {

/*!
    Names of locks as texts and as the bytes of keys. Other programs may have made keys that are not UTF-8: a byte that
    does not belong to a character is half a surrogate pair, U+DC80 to U+DCFF, as with Python's surrogateescape.

    A text stands for one name only if nameText(nameBytes(text)) is the same text. Any bytes become such a text.
*/
inline QByteArray nameBytes(QStringView text)
{
    QByteArray bytes;
    qsizetype begin = 0; // of what is not in bytes yet
    for (qsizetype i = 0; i < text.size(); ++i) {
        const QChar c = text.at(i);
        if (c.isHighSurrogate() && i + 1 < text.size() && text.at(i + 1).isLowSurrogate()) {
            ++i;
        } else if (c >= QChar(0xdc80) && c <= QChar(0xdcff)) {
            bytes += text.sliced(begin, i - begin).toUtf8();
            bytes += char(c.unicode() - 0xdc00);
            begin = i + 1;
        }
    }
    return bytes + text.sliced(begin).toUtf8();
}

/// The order in which several locks are acquired, in all forms, so that nobody waits in a circle.
inline bool isAcquiredBefore(QStringView first, QStringView second)
{
    return nameBytes(first) < nameBytes(second);
}

inline QString nameText(QByteArrayView bytes)
{
    const QString whole = QString::fromUtf8(bytes);
    if (whole.toUtf8() == bytes)
        return whole; // else the decoder has replaced something, or dropped a byte order mark
    QString text;
    while (!bytes.isEmpty()) {
        const auto lead = uchar(bytes.front());
        const qsizetype size = std::min<qsizetype>(lead < 0x80           ? 1
                                                           : lead < 0xe0 ? 2
                                                           : lead < 0xf0 ? 3
                                                                         : 4,
                                                   bytes.size());
        const QString character = QString::fromUtf8(bytes.first(size));
        const bool isCharacter = character.toUtf8() == bytes.first(size);
        text += isCharacter ? character : QString(QChar(0xdc00 + lead));
        bytes = bytes.sliced(isCharacter ? size : 1);
    }
    return text;
}

} // namespace QDistLock::Detail
