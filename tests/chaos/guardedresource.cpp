// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "guardedresource.h"

namespace Chaos {

namespace {

// Tokens are below 2^53, so that Lua's numbers hold them exactly.
const QByteArray fencedWrite = QByteArrayLiteral(R"lua(
local sequence = redis.call('INCR', KEYS[2])
if tonumber(ARGV[1]) < tonumber(redis.call('GET', KEYS[1]) or '0') then
  return {0, sequence}
end
redis.call('SET', KEYS[1], ARGV[1])
return {1, sequence}
)lua");

} // namespace

GuardedResource::GuardedResource(const QString &socketPath)
{
    if (!m_client.connectToUnix(socketPath))
        qFatal("cannot reach the guarded resource: %ls", qUtf16Printable(m_client.errorString()));
}

QVariant GuardedResource::command(const QList<QByteArray> &arguments)
{
    const QVariant reply = m_client.command(arguments, std::chrono::seconds(30));
    if (Support::isError(reply))
        qFatal("the guarded resource failed: %s", reply.toByteArray().constData());
    return reply;
}

GuardedResource::Written GuardedResource::write(const QByteArray &lock, qint64 fencingToken)
{
    const QVariantList reply = command({"EVAL", fencedWrite, "2", "record:" + lock, "writes:" + lock,
                                        QByteArray::number(fencingToken)})
                                       .toList();
    return {reply.value(0).toLongLong() == 1, reply.value(1).toLongLong()};
}

qint64 GuardedResource::counter(const QByteArray &lock)
{
    return command({"GET", "counter:" + lock}).toByteArray().toLongLong();
}

qint64 GuardedResource::setCounter(const QByteArray &lock, qint64 value)
{
    return command({"SET", "counter:" + lock, QByteArray::number(value), "GET"}).toByteArray().toLongLong();
}

} // namespace Chaos
