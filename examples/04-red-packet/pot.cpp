// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "pot.h"

#include <hiredis/hiredis.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

// Ends the program: without the server there is nothing to do.
[[noreturn]] void fail(const char *what, const char *reason)
{
    std::fprintf(stderr, "red-packet: %s: %s\n", what, reason);
    std::exit(69); // EX_UNAVAILABLE
}

const QByteArray readScript = R"(
if tonumber(ARGV[1]) < tonumber(redis.call('GET', KEYS[2]) or 0) then
    return false
end
redis.call('SET', KEYS[2], ARGV[1])
return redis.call('GET', KEYS[1])
)";

const QByteArray writeScript = R"(
if tonumber(ARGV[1]) < tonumber(redis.call('GET', KEYS[2]) or 0) then
    redis.call('INCR', KEYS[4])
    return 0
end
redis.call('SET', KEYS[2], ARGV[1])
redis.call('SET', KEYS[1], ARGV[2])
redis.call('RPUSH', KEYS[3], ARGV[3])
return 1
)";

QByteArray toBytes(const Pot::Content &content)
{
    return QByteArray::number(content.cents) + ' ' + QByteArray::number(content.packets);
}

QByteArray toBytes(const Pot::Payment &payment)
{
    return QByteArray::number(payment.worker) + ' ' + QByteArray::number(payment.token) + ' '
            + QByteArray::number(payment.cents);
}

QByteArray text(const redisReply &reply)
{
    return QByteArray(reply.str, static_cast<qsizetype>(reply.len));
}

Pot::Content contentFrom(const redisReply &reply)
{
    const QList<QByteArray> words = text(reply).split(' ');
    return {words.value(0).toLongLong(), words.value(1).toInt()};
}

} // namespace

void Pot::FreeContext::operator()(redisContext *context) const
{
    redisFree(context);
}

void Pot::FreeReply::operator()(redisReply *reply) const
{
    freeReplyObject(reply);
}

Pot::Pot(const QUrl &server, const QByteArray &name)
    : m_content("red-packet:" + name)
    , m_payments(m_content + ":payments")
    , m_token(m_content + ":token")
    , m_refused(m_content + ":refused")
{
    const timeval timeout{5, 0};
    if (server.scheme() == QLatin1String("unix"))
        m_context.reset(redisConnectUnixWithTimeout(server.path().toLocal8Bit().constData(), timeout));
    else
        m_context.reset(redisConnectWithTimeout(server.host().toLatin1().constData(), server.port(6379), timeout));
    if (!m_context || m_context->err)
        fail("cannot reach the server", m_context ? m_context->errstr : "out of memory");
    redisSetTimeout(m_context.get(), timeout);
}

Pot::~Pot() = default;

void Pot::fill(const Content &content)
{
    command({"DEL", m_payments, m_token, m_refused});
    command({"SET", m_content, toBytes(content)});
}

void Pot::remove()
{
    command({"DEL", m_content, m_payments, m_token, m_refused});
}

Pot::Content Pot::read()
{
    return contentFrom(*command({"GET", m_content}));
}

void Pot::write(const Content &content, const Payment &payment)
{
    command({"MULTI"});
    command({"SET", m_content, toBytes(content)});
    command({"RPUSH", m_payments, toBytes(payment)});
    command({"EXEC"});
}

std::optional<Pot::Content> Pot::readFenced(qint64 token)
{
    const Reply reply = command({"EVAL", readScript, "2", m_content, m_token, QByteArray::number(token)});
    if (reply->type == REDIS_REPLY_NIL)
        return std::nullopt;
    return contentFrom(*reply);
}

bool Pot::writeFenced(const Content &content, const Payment &payment)
{
    return command({"EVAL", writeScript, "4", m_content, m_token, m_payments, m_refused,
                    QByteArray::number(payment.token), toBytes(content), toBytes(payment)})
                   ->integer
            == 1;
}

QList<Pot::Payment> Pot::payments()
{
    const Reply reply = command({"LRANGE", m_payments, "0", "-1"});
    QList<Payment> payments;
    for (size_t i = 0; i < reply->elements; ++i) {
        const QList<QByteArray> words = text(*reply->element[i]).split(' ');
        payments.append({words.value(0).toInt(), words.value(1).toLongLong(), words.value(2).toLongLong()});
    }
    return payments;
}

qint64 Pot::refusedWrites()
{
    const Reply reply = command({"GET", m_refused});
    return reply->type == REDIS_REPLY_STRING ? text(*reply).toLongLong() : 0;
}

Pot::Reply Pot::command(const QList<QByteArray> &arguments)
{
    std::vector<const char *> data;
    std::vector<size_t> sizes;
    for (const QByteArray &argument : arguments) {
        data.push_back(argument.constData());
        sizes.push_back(static_cast<size_t>(argument.size()));
    }
    Reply reply(static_cast<redisReply *>(
            redisCommandArgv(m_context.get(), static_cast<int>(data.size()), data.data(), sizes.data())));
    if (!reply)
        fail("no reply from the server", m_context->errstr);
    if (reply->type == REDIS_REPLY_ERROR)
        fail("the server refused a command", reply->str);
    return reply;
}
