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
    The resource that the lock protects: an amount of money in Redis. Workers read it with GET and write it back with
    SET, so that updates are lost if two workers do this at the same time.

    A payment is recorded in the same atomic step as the new content of the pot. So a worker that dies during a draw has
    either done both or neither.

    The fenced calls take the fencing token of the lock. The pot remembers the greatest token that it has seen, from
    reads and writes, and refuses calls with a smaller one. This protects it from a holder that was stopped while its
    lease ended, and continues.

    Calls block, usually for some ten microseconds and at most for five seconds. If the server fails, the program ends.
*/
class Pot
{
public:
    struct Content
    {
        qint64 cents = 0;
        int packets = 0; // the number of draws that are left
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
    // Deletes all keys of the pot.
    void remove();

    Content read();
    void write(const Content &content, const Payment &payment);

    // Returns std::nullopt if the token is out of date.
    std::optional<Content> readFenced(qint64 token);
    // Returns false if the token is out of date.
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
