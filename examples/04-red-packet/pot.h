// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/QByteArray>
#include <QtCore/QList>
#include <QtCore/QUrl>

#include <memory>
#include <optional>

struct redisContext;
struct redisReply;

/*
    The resource that the lock guards: money in Redis, read with GET and written back with SET,
    which is exactly what must not be done by several at once.

    Every payment is written down in the same atomic step as the new content of the pot. So a worker
    that dies in the middle of a draw has either paid and lowered the pot, or done neither.

    The fenced calls carry the fencing token of the lock. The pot keeps the greatest token it has
    seen, at reading already, and refuses whoever comes with a smaller one: that is what makes the
    lock safe against a holder that slept through the end of its lease.

    Calls block, for some ten microseconds as a rule and five seconds at most. A server that fails
    ends the program.
*/
class Pot
{
public:
    struct Content
    {
        qint64 cents = 0;
        int packets = 0; // how many draws are still to share the cents
    };

    struct Payment
    {
        int worker = 0;
        qint64 token = 0;
        qint64 cents = 0;
    };

    Pot(const QUrl &server, const QByteArray &name);
    ~Pot();

    void fill(const Content &content);

    Content read();
    void write(const Content &content, const Payment &payment);

    // No content: the token is out of date.
    std::optional<Content> readFenced(qint64 token);
    bool writeFenced(const Content &content, const Payment &payment);

    QList<Payment> payments();
    qint64 refusedWrites();

private:
    struct FreeContext
    {
        void operator()(redisContext *context) const;
    };
    struct FreeReply
    {
        void operator()(redisReply *reply) const;
    };
    using Reply = std::unique_ptr<redisReply, FreeReply>;

    Reply command(const QList<QByteArray> &arguments);

    std::unique_ptr<redisContext, FreeContext> m_context;
    const QByteArray m_content;
    const QByteArray m_payments;
    const QByteArray m_token;
    const QByteArray m_refused;
};
