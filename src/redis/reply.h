// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qbytearray.h>
#include <QtCore/qlist.h>

namespace QtRedis {

/// One RESP2 reply. Thread: a plain value.
struct Reply
{
    enum Type : quint8 { Nil, Status, Error, Integer, Bulk, Array };

    Type type = Nil;
    qint64 integer = 0;
    QByteArray text;       ///< of a Status, Error or Bulk
    QList<Reply> elements; ///< of an Array

    bool isError() const { return type == Error; }
    /// The first word of an error if it is in capital letters ("NOSCRIPT"); empty otherwise.
    QByteArray errorCode() const;
};

/// The value of a line "name:value" of \a info, the reply to INFO; empty if there is none.
QByteArray infoField(const QByteArray &info, const QByteArray &name);

} // namespace QtRedis
