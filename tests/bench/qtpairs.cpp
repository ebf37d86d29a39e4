// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "barecommands.h"
#include "contender.h"

#include <QtCore/qeventloop.h>
#include <QtCore/qlist.h>
#include <QtCore/qqueue.h>
#include <QtNetwork/qlocalsocket.h>
#include <QtNetwork/qnetworkproxy.h>
#include <QtNetwork/qtcpsocket.h>

namespace Bench {
namespace {

struct FreeReader
{
    void operator()(redisReader *reader) const { redisReaderFree(reader); }
};

/*
    A Qt socket with hiredis's formatter and reader, as one would write it first: each command goes
    to write() by itself, and Qt hands the bytes to the kernel when the event loop comes round. Each
    lock goes its own way: the reply to its SET sends its EVALSHA, whose reply sends the next SET.
*/
class QtPairs : public Contender
{
public:
    QtPairs(const QUrl &server, int locks)
        : m_sha1(loadReleaseScript(server))
        , m_reader(redisReaderCreate())
    {
        for (int i = 0; i < locks; ++i)
            m_locks.append({bareKey("qt", i), {}, false});
        bool connected = false;
        if (server.scheme() == QLatin1String("unix")) {
            auto socket = std::make_unique<QLocalSocket>();
            socket->connectToServer(server.path());
            connected = socket->waitForConnected();
            m_socket = std::move(socket);
        } else {
            auto socket = std::make_unique<QTcpSocket>();
            socket->setProxy(QNetworkProxy::NoProxy);
            socket->connectToHost(server.host(), static_cast<quint16>(server.port(6379)));
            connected = socket->waitForConnected();
            socket->setSocketOption(QAbstractSocket::LowDelayOption, 1);
            m_socket = std::move(socket);
        }
        if (!connected)
            fail(QStringLiteral("Qt socket: ") + m_socket->errorString());
        QObject::connect(m_socket.get(), &QIODevice::readyRead, m_socket.get(),
                         [this] { readReplies(); });
    }

    QJsonObject run(std::chrono::milliseconds duration, int) override
    {
        m_limit = std::chrono::duration<double>(duration).count();
        m_pairs = 0;
        const Stopwatch stopwatch;
        m_stopwatch = &stopwatch;
        for (Lock &lock : m_locks)
            acquire(&lock);
        m_loop.exec();
        return stopwatch.finish(m_pairs).toJson();
    }

private:
    struct Lock
    {
        QByteArray key;
        QByteArray token;
        bool held;
    };

    void send(Lock *lock, std::initializer_list<QByteArray> arguments)
    {
        const char *data[8];
        size_t sizes[8];
        int count = 0;
        for (const QByteArray &argument : arguments) {
            data[count] = argument.constData();
            sizes[count++] = static_cast<size_t>(argument.size());
        }
        char *command = nullptr;
        const int size = static_cast<int>(redisFormatCommandArgv(&command, count, data, sizes));
        m_socket->write(command, size);
        redisFreeCommand(command);
        m_pending.enqueue(lock);
    }

    void acquire(Lock *lock)
    {
        lock->token = "bare-token-" + QByteArray::number(++m_sequence).rightJustified(12, '0');
        send(lock, {"SET", lock->key, lock->token, "NX", "PX", "30000"});
    }

    void readReplies()
    {
        char buffer[16 * 1024];
        for (;;) {
            const qint64 size = m_socket->read(buffer, sizeof buffer);
            if (size <= 0)
                break;
            redisReaderFeed(m_reader.get(), buffer, static_cast<size_t>(size));
        }
        for (;;) {
            void *object = nullptr;
            if (redisReaderGetReply(m_reader.get(), &object) != REDIS_OK)
                fail(QStringLiteral("Qt socket: ") + QString::fromLocal8Bit(m_reader->errstr));
            if (!object)
                break;
            handle(m_pending.dequeue(), ReplyPointer(static_cast<redisReply *>(object)));
        }
        if (m_pending.isEmpty())
            m_loop.quit();
    }

    void handle(Lock *lock, const ReplyPointer &reply)
    {
        if (!lock->held) {
            if (reply->type != REDIS_REPLY_STATUS)
                fail(QStringLiteral("Qt socket: a free lock was not acquired"));
            lock->held = true;
            send(lock, {"EVALSHA", m_sha1, "1", lock->key, lock->token});
            return;
        }
        if (reply->integer != 1)
            fail(QStringLiteral("Qt socket: a held lock was not released"));
        lock->held = false;
        ++m_pairs;
        if (m_stopwatch->seconds() < m_limit)
            acquire(lock);
    }

    const QByteArray m_sha1;
    const std::unique_ptr<redisReader, FreeReader> m_reader;
    std::unique_ptr<QIODevice> m_socket;
    QList<Lock> m_locks;
    QQueue<Lock *> m_pending;
    QEventLoop m_loop;
    const Stopwatch *m_stopwatch = nullptr;
    double m_limit = 0;
    qint64 m_pairs = 0;
    qint64 m_sequence = 0;
};

} // namespace

std::unique_ptr<Contender> makeQtPairs(const Setup &setup)
{
    return std::make_unique<QtPairs>(setup.server, setup.locks);
}

} // namespace Bench
