// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "barecommands.h"

#include "contender.h"

#include <QtCore/qcoreapplication.h>

using namespace Qt::StringLiterals;

namespace Bench {

ContextPointer connectHiredis(const QUrl &server)
{
    ContextPointer context(server.scheme() == QLatin1String("unix")
                                   ? redisConnectUnix(server.path().toLocal8Bit().constData())
                                   : redisConnect(server.host().toLatin1().constData(), server.port(6379)));
    if (!context || context->err)
        fail(u"hiredis cannot connect to %1: %2"_s.arg(server.toString(QUrl::RemoveUserInfo),
                                                       context ? QString::fromLocal8Bit(context->errstr) : QString()));
    return context;
}

QByteArray loadReleaseScript(const QUrl &server)
{
    static constexpr char text[] =
            "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
    const ContextPointer context = connectHiredis(server);
    const ReplyPointer reply(static_cast<redisReply *>(redisCommand(context.get(), "SCRIPT LOAD %s", text)));
    if (!reply || reply->type != REDIS_REPLY_STRING)
        fail(u"SCRIPT LOAD failed"_s);
    return QByteArray(reply->str, static_cast<qsizetype>(reply->len));
}

QByteArray bareKey(const char *kind, int index)
{
    return QByteArray("bench:") + kind + ':' + QByteArray::number(QCoreApplication::applicationPid()) + ':'
            + QByteArray::number(index);
}

} // namespace Bench
