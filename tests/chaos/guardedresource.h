// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "support/respclient.h"

#include <QtCore/qstring.h>

namespace Chaos {

/*!
    The resource that the locks guard, on a redis-server without faults. Each lock has a fenced record, which refuses a
    token smaller than the greatest it has seen, and a counter, which accepts every write.
    Each function blocks for one round trip over a Unix socket. A failure ends the program. Thread: one at a time.
*/
class GuardedResource
{
public:
    explicit GuardedResource(const QString &socketPath);

    struct Written
    {
        bool accepted;
        qint64 sequence; ///< counts the writes to the record, refused ones included
    };
    Written write(const QByteArray &lock, qint64 fencingToken);

    qint64 counter(const QByteArray &lock);
    /// The value that was overwritten.
    qint64 setCounter(const QByteArray &lock, qint64 value);

private:
    QVariant command(const QList<QByteArray> &arguments);
    Support::RespClient m_client;
};

} // namespace Chaos
