// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "barecommands.h"
#include "contender.h"

#include <QtCore/qjsonarray.h>
#include <QtCore/qlist.h>

using namespace Qt::StringLiterals;

namespace Bench {
namespace {

/*
    Blocking hiredis, in lockstep: all locks are acquired in one pipeline, then all are released in one. With one lock
    this is the plain blocking loop: command, reply, command, reply. On request it reports when each round ended, in µs.
*/
class HiredisPairs : public Contender
{
public:
    HiredisPairs(const QUrl &server, int locks, bool tellTimes)
        : m_context(connectHiredis(server))
        , m_sha1(loadReleaseScript(server))
        , m_tellTimes(tellTimes)
    {
        for (int i = 0; i < locks; ++i)
            m_keys.append(bareKey("hiredis", i));
    }

    QJsonObject run(std::chrono::milliseconds duration, int) override
    {
        const double limit = std::chrono::duration<double>(duration).count();
        const Stopwatch stopwatch;
        qint64 pairs = 0;
        QJsonArray times;
        do {
            const QByteArray token = "bare-token-" + QByteArray::number(++m_sequence).rightJustified(12, '0');
            for (const QByteArray &key : std::as_const(m_keys))
                append({"SET", key, token, "NX", "PX", "30000"});
            for (qsizetype i = 0; i < m_keys.size(); ++i) {
                if (read()->type != REDIS_REPLY_STATUS)
                    fail(u"hiredis: a free lock was not acquired"_s);
            }
            for (const QByteArray &key : std::as_const(m_keys))
                append({"EVALSHA", m_sha1, "1", key, token});
            for (qsizetype i = 0; i < m_keys.size(); ++i) {
                if (read()->integer != 1)
                    fail(u"hiredis: a held lock was not released"_s);
            }
            pairs += m_keys.size();
            if (m_tellTimes)
                times.append(microseconds());
        } while (stopwatch.seconds() < limit);
        QJsonObject result = stopwatch.finish(pairs).toJson();
        if (m_tellTimes)
            result.insert(u"times"_s, times);
        return result;
    }

private:
    void append(std::initializer_list<QByteArray> arguments)
    {
        const char *data[8];
        size_t sizes[8];
        int count = 0;
        for (const QByteArray &argument : arguments) {
            data[count] = argument.constData();
            sizes[count++] = static_cast<size_t>(argument.size());
        }
        redisAppendCommandArgv(m_context.get(), count, data, sizes);
    }

    ReplyPointer read()
    {
        void *reply = nullptr;
        if (redisGetReply(m_context.get(), &reply) != REDIS_OK)
            fail(u"hiredis: "_s + QString::fromLocal8Bit(m_context->errstr));
        return ReplyPointer(static_cast<redisReply *>(reply));
    }

    const ContextPointer m_context;
    const QByteArray m_sha1;
    const bool m_tellTimes;
    QList<QByteArray> m_keys;
    qint64 m_sequence = 0;
};

} // namespace

std::unique_ptr<Contender> makeHiredisPairs(const Setup &setup)
{
    return std::make_unique<HiredisPairs>(setup.server, setup.locks, false);
}

std::unique_ptr<Contender> makeHiredisTimes(const Setup &setup)
{
    return std::make_unique<HiredisPairs>(setup.server, 1, true);
}

} // namespace Bench
