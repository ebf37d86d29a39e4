// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "support/respclient.h"

#include <QtCore/qstring.h>

namespace Chaos {

/*!
    What the locks guard, on a redis-server that no fault touches: for each lock a fenced record, which
    refuses a token smaller than the greatest it has seen, and a counter that refuses nothing.
    Blocks for one round trip over a Unix socket. Failing is fatal. Thread: one at a time.
*/
class GuardedResource
{
public:
    explicit GuardedResource(const QString &socketPath);

    struct Written
    {
        bool accepted;
        qint64 sequence; ///< of this write among all those to the record, refused ones included
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
