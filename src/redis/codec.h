// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "reply.h"

#include <QtCore/qstring.h>

#include <initializer_list>
#include <memory>

namespace QtRedis {

/// One command as RESP. Arguments may hold any bytes.
QByteArray encodeCommand(const QList<QByteArray> &arguments);
void appendCommand(QByteArray *buffer, const QList<QByteArray> &arguments);
/// All three after one another as the arguments of one command.
void appendCommand(QByteArray *buffer, std::initializer_list<QByteArrayView> first,
                   const QList<QByteArray> &second, const QList<QByteArray> &third);

/// What a server may send; checked before hiredis sees the bytes, since hiredis reserves what a
/// header promises.
struct ReplyLimits
{
    qsizetype lineLength = 64 * 1024;       ///< bytes of a header, status, error or integer line
    qsizetype bulkSize = 16 * 1024 * 1024;  ///< bytes of one string
    qsizetype replySize = 64 * 1024 * 1024; ///< bytes of one whole reply
    qsizetype elements = 1024 * 1024;       ///< announced by all arrays of one reply together
    int depth = 7; ///< arrays within each other, the outermost counted; 7 at most
};

/*!
    Bytes in, replies out. After an error it stays in error: make a new reader and a new connection.
    The replies that were complete before the bad bytes are still given out.
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
    /// What the server sent, as a noun: "a line of more than 65536 bytes". Nothing of what it said.
    QString errorString() const;

private:
    Q_DISABLE_COPY_MOVE(ReplyReader)
    class Private;
    std::unique_ptr<Private> d;
};

} // namespace QtRedis
