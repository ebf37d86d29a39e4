// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// The shared library in a process that has another hiredis, and that loads and unloads plugins.

#include <QDistLock/DistributedLock>
#include <QDistLock/LockRegistry>
#include <QDistLock/LockResult>

#include <QtNetwork/qtcpserver.h>
#include <QtNetwork/qtcpsocket.h>
#include <QtTest/qsignalspy.h>
#include <QtTest/qtest.h>

#include <dlfcn.h>
#include <link.h>

using namespace Qt::StringLiterals;

using QDistLock::DistributedLock;
using QDistLock::LockRegistry;
using QDistLock::LockResult;

extern "C" void *redisReaderCreate();

class tst_AnotherHiredis : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void readerIsPrivate();
    void staysLoaded();
};

void tst_AnotherHiredis::readerIsPrivate()
{
    QVERIFY(dlsym(RTLD_DEFAULT, "redisReaderCreate") == reinterpret_cast<void *>(&redisReaderCreate));
    QTcpServer server; // answers whatever it is asked
    QVERIFY(server.listen(QHostAddress::LocalHost));
    connect(&server, &QTcpServer::newConnection, this, [&server] {
        QTcpSocket *const socket = server.nextPendingConnection();
        connect(socket, &QTcpSocket::readyRead, socket, [socket] {
            const qsizetype commands = socket->readAll().count('*');
            socket->write(QByteArray("-ERR unknown command, this is no Redis\r\n").repeated(commands));
        });
    });
    LockRegistry registry(QUrl(u"redis://127.0.0.1:%1"_s.arg(server.serverPort())));
    DistributedLock lock(&registry, u"job"_s);
    const QFuture<LockResult> result = lock.tryAcquireAsync();
    QTRY_VERIFY_WITH_TIMEOUT(result.isFinished(), 60000);
    QVERIFY2(result.result().errorString.contains(u"this is no Redis"_s), qPrintable(result.result().errorString));
}

/// Its threads live as long as the program. A plugin that uses it may be unloaded before.
void tst_AnotherHiredis::staysLoaded()
{
    void *const library = dlopen(CORE_LIBRARY, RTLD_NOW | RTLD_NOLOAD);
    QVERIFY(library);
    link_map *map = nullptr;
    QCOMPARE(dlinfo(library, RTLD_DI_LINKMAP, &map), 0);
    bool isKept = false;
    for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; ++entry)
        isKept |= entry->d_tag == DT_FLAGS_1 && (entry->d_un.d_val & DF_1_NODELETE);
    dlclose(library);
    QVERIFY(isKept);
}

QTEST_GUILESS_MAIN(tst_AnotherHiredis)
#include "tst_anotherhiredis.moc"
