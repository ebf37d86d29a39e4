// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "redis/reply.h"

#include <QtCore/qstring.h>

#include <initializer_list>
#include <memory>

namespace QtRedis {

/// One command as RESP. Arguments may hold any bytes.
QByteArray encodeCommand(const QList<QByteArray> &arguments);
void appendCommand(QByteArray *buffer, const QList<QByteArray> &arguments);
/// One command whose arguments are all three, one after the other.
void appendCommand(QByteArray *buffer, std::initializer_list<QByteArrayView> first, const QList<QByteArray> &second,
                   const QList<QByteArray> &third);

/// Limits of the replies that are accepted. They are checked before hiredis reads the bytes, because hiredis reserves
/// the memory that a header announces.
struct ReplyLimits
{
    qsizetype lineLength = 64 * 1024;       ///< bytes of a header, status, error or integer line
    qsizetype bulkSize = 16 * 1024 * 1024;  ///< bytes of one string
    qsizetype replySize = 64 * 1024 * 1024; ///< bytes of one whole reply
    qsizetype elements = 1024 * 1024;       ///< announced by all arrays of one reply together
    int depth = 7;                          ///< of nested arrays, including the outermost; 7 at most
};

/*!
    Parses the bytes of one connection into replies. After an error only the replies that were complete before it can
    still be taken: the connection must be made again, with a new reader.
    Thread: one at a time.
*/
class ReplyReader
{
public:
    explicit ReplyReader(const ReplyLimits &limits = {});
    ~ReplyReader();

    /// False on bytes that are not a valid reply or break a limit; errorString() says which.
    bool feed(const char *data, qsizetype size);
    /// True while there is a complete reply; moves it to \a reply.
    bool next(Reply *reply);
    bool hasError() const;
    /// The kind of invalid bytes as a noun, such as "a line of more than 65536 bytes"; never the bytes themselves.
    QString errorString() const;

private:
    Q_DISABLE_COPY_MOVE(ReplyReader)
    class Private;
    std::unique_ptr<Private> d;
};

} // namespace QtRedis
