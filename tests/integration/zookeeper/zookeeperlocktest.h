// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "support/eventually.h"
#include "support/locktest.h"
#include "support/zookeeperserver.h"

#include "zookeeper/session.h"

#include <algorithm>
#include <memory>
#include <optional>

namespace LockTesting {

/// With a ZooKeeper server. A second session, which knows nothing of locks, is the witness.
class ZooKeeperLockTest : public LockTest
{
    Q_OBJECT

protected:
    QUrl serverUrl() override { return url(); }
    static QUrl urlOf(quint16 port, const QString &items = {})
    {
        return QUrl(QStringLiteral("zookeeper://127.0.0.1:%1/tests/locks").arg(port) + items);
    }
    QUrl url(const QString &items = {}) const { return urlOf(m_server.port(), items); }
    template<typename Operation>
    static QtZooKeeper::Result wait(Operation operation)
    {
        std::optional<QtZooKeeper::Result> result;
        operation([&](const QtZooKeeper::Result &r) { result = r; });
        Support::EventLoopProbe::waitFor([&] { return result.has_value(); });
        return result.value_or(QtZooKeeper::Result());
    }
    static QByteArray pathOf(const QByteArray &name) { return "/tests/locks/lock:" + name; }
    QList<QByteArray> childrenOf(const QByteArray &name)
    {
        return wait([&](auto done) { m_witness->children(pathOf(name), done); }).children;
    }
    /// The number of locks of which there is a node and whose name begins with \a start.
    qsizetype locksNamed(const QByteArray &start)
    {
        const auto names = wait([&](auto done) { m_witness->children("/tests/locks", done); }).children;
        return std::count_if(names.cbegin(), names.cend(),
                             [&](const QByteArray &name) { return name.startsWith("lock:" + start); });
    }
    /// Without another client: the number that the server has for \a key.
    qint64 metric(const QByteArray &key)
    {
        for (const QByteArray &line : m_server.ask("mntr").split('\n')) {
            if (line.startsWith(key + '\t'))
                return qint64(line.mid(key.size() + 1).toDouble());
        }
        return -1;
    }

    Support::ZooKeeperServer m_server;
    std::unique_ptr<QtZooKeeper::Session> m_witness; ///< another one in each function

protected Q_SLOTS:
    void initTestCase()
    {
        if (!Support::ZooKeeperServer::isInstalled())
            QSKIP(Support::ZooKeeperServer::NotInstalled);
        QVERIFY2(m_server.start(), qPrintable(m_server.errorString()));
    }
    void init()
    {
        QtZooKeeper::Session::Options options;
        options.servers = {{QStringLiteral("127.0.0.1"), m_server.port()}};
        m_witness = std::make_unique<QtZooKeeper::Session>(options);
        m_witness->open();
    }
};

} // namespace LockTesting
