// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qbytearray.h>
#include <QtCore/qlist.h>
#include <QtCore/qmetatype.h>
#include <QtCore/qvariant.h>

namespace Support {

/*!
    An error reply, unchanged ("-WRONGTYPE Operation against…"). Failures of the test client itself read "-WITNESS …".
    QVariant::toByteArray() returns the text.
*/
struct RedisError
{
    QByteArray text;

    friend bool operator==(const RedisError &a, const RedisError &b) { return a.text == b.text; }
    friend bool operator!=(const RedisError &a, const RedisError &b) { return !(a == b); }
};

bool isError(const QVariant &reply);

/// RESP2 for the tests. Shares no code with the tested library.
namespace Resp {

enum class Status { Complete, Incomplete, Invalid };

/// Status and bulk strings as QByteArray, integers as qint64, arrays as QVariantList, nil as an
/// invalid QVariant, errors as RedisError. \a size is the size of the first reply in \a data.
Status parseReply(QByteArrayView data, qsizetype *size, QVariant *value = nullptr);

/// Arrays of bulk strings only, no inline commands.
Status parseCommand(QByteArrayView data, qsizetype *size, QList<QByteArray> *arguments);

QByteArray encodeCommand(const QList<QByteArray> &arguments);
QByteArray encodeBulk(QByteArrayView text);

} // namespace Resp
} // namespace Support

Q_DECLARE_METATYPE(Support::RedisError)
