// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "contender.h"

#include <QtCore/qcoreapplication.h>
#include <QtCore/qurlquery.h>

#include <poll.h>
#include <sys/time.h>
#include <zookeeper/zookeeper.h>

#include <memory>
#include <vector>

using namespace Qt::StringLiterals;

namespace Bench {
namespace {

[[noreturn]] void failWith(const char *what, int code)
{
    fail(u"ZooKeeper: %1: %2"_s.arg(QLatin1String(what), QString::fromLatin1(zerror(code))));
}

/*
    The C client for event loops, without one: poll() for its socket. Each lock is an ephemeral node with a number, made
    in a folder that nobody else uses; then the folder's nodes are listed, as every lock must, and the node is deleted.
*/
class ZooKeeperPairs : public Contender
{
public:
    ZooKeeperPairs(const QUrl &server, int locks)
    {
        zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
        QString hosts = server.authority();
        for (const QString &node : QUrlQuery(server).allQueryItemValues(u"node"_s))
            hosts += u',' + node;
        constexpr int SessionTimeout = 600'000; // between two runs nothing is sent
        m_handle = zookeeper_init(hosts.toLatin1().constData(), nullptr, SessionTimeout, nullptr, nullptr, 0);
        if (!m_handle)
            fail(u"ZooKeeper: no client for %1"_s.arg(hosts));
        while (zoo_state(m_handle) != ZOO_CONNECTED_STATE)
            process();
        for (int i = 0; i < locks; ++i) {
            const QByteArray folder = "/bare-" + QByteArray::number(QCoreApplication::applicationPid()) + '-'
                    + QByteArray::number(i);
            m_locks.push_back(std::make_unique<Lock>(Lock{this, folder, {}}));
            m_busy = 1;
            check(zoo_acreate(m_handle, folder.constData(), nullptr, -1, &ZOO_OPEN_ACL_UNSAFE, 0, folderCreated, this));
            while (m_busy > 0)
                process();
        }
    }

    ~ZooKeeperPairs() override { zookeeper_close(m_handle); }

    QJsonObject run(std::chrono::milliseconds duration, int) override
    {
        m_limit = std::chrono::duration<double>(duration).count();
        m_pairs = 0;
        m_busy = static_cast<int>(m_locks.size());
        const Stopwatch stopwatch;
        m_stopwatch = &stopwatch;
        for (const auto &lock : m_locks)
            acquire(lock.get());
        while (m_busy > 0)
            process();
        return stopwatch.finish(m_pairs).toJson();
    }

private:
    struct Lock
    {
        ZooKeeperPairs *contender;
        QByteArray folder;
        QByteArray node;
    };

    void check(int code)
    {
        if (code != ZOK)
            failWith("a request", code);
    }

    void process()
    {
        int descriptor = -1;
        int wanted = 0;
        timeval time = {};
        if (const int code = zookeeper_interest(m_handle, &descriptor, &wanted, &time); code != ZOK)
            failWith("the connection", code);
        pollfd entry = {descriptor, 0, 0};
        entry.events = static_cast<short>((wanted & ZOOKEEPER_READ ? POLLIN : 0)
                                          | (wanted & ZOOKEEPER_WRITE ? POLLOUT : 0));
        ::poll(&entry, 1, static_cast<int>(time.tv_sec * 1000 + time.tv_usec / 1000 + 1));
        const int ready = (entry.revents & (POLLIN | POLLHUP | POLLERR) ? ZOOKEEPER_READ : 0)
                | (entry.revents & POLLOUT ? ZOOKEEPER_WRITE : 0);
        if (const int code = zookeeper_process(m_handle, ready); code != ZOK && code != ZNOTHING)
            failWith("the connection", code);
    }

    static void folderCreated(int code, const char *, const void *contender)
    {
        if (code != ZOK)
            failWith("creating a folder", code);
        self(contender)->m_busy = 0;
    }

    void acquire(Lock *lock)
    {
        const QByteArray path = lock->folder + "/lock-";
        check(zoo_acreate(m_handle, path.constData(), "bare", 4, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL | ZOO_SEQUENCE,
                          created, lock));
    }

    static void created(int code, const char *path, const void *data)
    {
        if (code != ZOK)
            failWith("creating a node", code);
        Lock *const lock = lockOf(data);
        lock->node = path;
        lock->contender->check(zoo_aget_children(lock->contender->m_handle, lock->folder.constData(), 0, listed, lock));
    }

    static void listed(int code, const String_vector *names, const void *data)
    {
        if (code != ZOK || names->count != 1)
            failWith("listing the nodes", code);
        Lock *const lock = lockOf(data);
        lock->contender->check(zoo_adelete(lock->contender->m_handle, lock->node.constData(), -1, deleted, lock));
    }

    static void deleted(int code, const void *data)
    {
        if (code != ZOK)
            failWith("deleting a node", code);
        Lock *const lock = lockOf(data);
        ZooKeeperPairs *const contender = lock->contender;
        ++contender->m_pairs;
        if (contender->m_stopwatch->seconds() < contender->m_limit)
            contender->acquire(lock);
        else
            --contender->m_busy;
    }

    static ZooKeeperPairs *self(const void *data) { return static_cast<ZooKeeperPairs *>(const_cast<void *>(data)); }
    static Lock *lockOf(const void *data) { return static_cast<Lock *>(const_cast<void *>(data)); }

    zhandle_t *m_handle = nullptr;
    std::vector<std::unique_ptr<Lock>> m_locks;
    const Stopwatch *m_stopwatch = nullptr;
    double m_limit = 0;
    qint64 m_pairs = 0;
    int m_busy = 0;
};

} // namespace

std::unique_ptr<Contender> makeZooKeeperPairs(const Setup &setup)
{
    return std::make_unique<ZooKeeperPairs>(setup.server, setup.locks);
}

} // namespace Bench
