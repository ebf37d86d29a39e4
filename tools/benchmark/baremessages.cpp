// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "bareqtsocket.h"
#include "contender.h"

#include <QtCore/qeventloop.h>
#include <QtCore/qjsonarray.h>
#include <QtCore/qtimer.h>

#include <thread>

using namespace Qt::StringLiterals;

namespace Bench {
namespace {

/*
    The time from a PUBLISH in one process to its message in another: a sender and a receiver, each in a separate
    process. A message is the time at which it was sent, and the last one of a run is `end`.
*/

const QByteArray End = QByteArrayLiteral("end");

QByteArray channel(const char *kind)
{
    return QByteArray("bench:messages:") + kind;
}

/// The messages of one run.
class Messages
{
public:
    /// False if it is the end.
    bool add(const redisReply &reply)
    {
        const qint64 now = microseconds();
        if (reply.type != REDIS_REPLY_ARRAY || reply.elements != 3 || !reply.element[2]->str)
            return true; // the reply to SUBSCRIBE
        const QByteArray text(reply.element[2]->str, static_cast<qsizetype>(reply.element[2]->len));
        const qint64 sent = text.toLongLong();
        if (sent >= m_start) // otherwise it waited for the run to begin
            m_times.append(now - sent);
        return text != End;
    }

    QJsonObject result() const
    {
        QJsonObject result = m_stopwatch.finish(m_times.size()).toJson();
        result.insert(u"times"_s, m_times);
        return result;
    }

private:
    const Stopwatch m_stopwatch;
    const qint64 m_start = microseconds();
    QJsonArray m_times;
};

class HiredisReceiver : public Contender
{
public:
    explicit HiredisReceiver(const Setup &setup)
        : m_context(connectHiredis(setup.server))
    {
        const ReplyPointer reply(static_cast<redisReply *>(
                redisCommand(m_context.get(), "SUBSCRIBE %s", channel("hiredis").constData())));
    }

    QJsonObject run(std::chrono::milliseconds, int) override
    {
        Messages messages;
        for (;;) {
            void *object = nullptr;
            if (redisGetReply(m_context.get(), &object) != REDIS_OK)
                fail(u"hiredis: "_s + QString::fromLocal8Bit(m_context->errstr));
            if (!messages.add(*ReplyPointer(static_cast<redisReply *>(object))))
                return messages.result();
        }
    }

private:
    const ContextPointer m_context;
};

class HiredisSender : public Contender
{
public:
    explicit HiredisSender(const Setup &setup)
        : m_context(connectHiredis(setup.server))
        , m_interval(setup.work)
    {
    }

    QJsonObject run(std::chrono::milliseconds duration, int) override
    {
        const Stopwatch stopwatch;
        qint64 sent = 0;
        for (; stopwatch.seconds() < std::chrono::duration<double>(duration).count(); ++sent) {
            std::this_thread::sleep_for(m_interval);
            publish(QByteArray::number(microseconds()));
        }
        publish(End);
        return stopwatch.finish(sent).toJson();
    }

private:
    void publish(const QByteArray &message)
    {
        const ReplyPointer reply(static_cast<redisReply *>(
                redisCommand(m_context.get(), "PUBLISH %s %s", channel("hiredis").constData(), message.constData())));
        if (!reply || (message == End && reply->integer != 1))
            fail(u"hiredis: nobody receives"_s);
    }

    const ContextPointer m_context;
    const std::chrono::milliseconds m_interval;
};

class QtReceiver : public Contender, private BareQtSocket
{
public:
    explicit QtReceiver(const Setup &setup)
        : BareQtSocket(setup.server)
    {
        send({"SUBSCRIBE", channel("qt")});
        m_loop.exec();
    }

    QJsonObject run(std::chrono::milliseconds, int) override
    {
        Messages messages;
        m_messages = &messages;
        m_loop.exec();
        m_messages = nullptr;
        return messages.result();
    }

private:
    void received(const ReplyPointer &reply) override
    {
        if (!m_messages || !m_messages->add(*reply))
            m_loop.quit();
    }

    QEventLoop m_loop;
    Messages *m_messages = nullptr;
};

class QtSender : public Contender, private BareQtSocket
{
public:
    explicit QtSender(const Setup &setup)
        : BareQtSocket(setup.server)
    {
        m_timer.setTimerType(Qt::PreciseTimer);
        m_timer.setInterval(setup.work);
        QObject::connect(&m_timer, &QTimer::timeout, &m_timer, [this] { publish(); });
    }

    QJsonObject run(std::chrono::milliseconds duration, int) override
    {
        const Stopwatch stopwatch;
        m_end = microseconds() + std::chrono::microseconds(duration).count();
        m_sent = 0;
        m_timer.start();
        m_loop.exec();
        return stopwatch.finish(m_sent).toJson();
    }

private:
    void publish()
    {
        const qint64 now = microseconds();
        if (now >= m_end)
            m_timer.stop();
        send({"PUBLISH", channel("qt"), m_timer.isActive() ? QByteArray::number(now) : End});
    }

    void received(const ReplyPointer &reply) override
    {
        ++m_sent;
        if (m_timer.isActive())
            return;
        if (reply->integer != 1)
            fail(u"Qt socket: nobody receives"_s);
        m_loop.quit();
    }

    QTimer m_timer;
    QEventLoop m_loop;
    qint64 m_end = 0;
    qint64 m_sent = 0;
};

} // namespace

std::unique_ptr<Contender> makeHiredisReceiver(const Setup &setup)
{
    return std::make_unique<HiredisReceiver>(setup);
}

std::unique_ptr<Contender> makeHiredisSender(const Setup &setup)
{
    return std::make_unique<HiredisSender>(setup);
}

std::unique_ptr<Contender> makeQtReceiver(const Setup &setup)
{
    return std::make_unique<QtReceiver>(setup);
}

std::unique_ptr<Contender> makeQtSender(const Setup &setup)
{
    return std::make_unique<QtSender>(setup);
}

} // namespace Bench
