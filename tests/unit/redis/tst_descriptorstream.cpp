// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "redis/descriptorstream.h"

#include <QtTest/qtest.h>

#include <sys/socket.h>
#include <unistd.h>

using namespace QtRedis;

namespace {

struct SocketPair
{
    SocketPair() { ok = ::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0; }
    ~SocketPair()
    {
        ::close(ends[0]);
        ::close(ends[1]);
    }

    int own() const { return ends[0]; }
    int peer() const { return ends[1]; }

    int ends[2] = {-1, -1};
    bool ok = false;
};

} // namespace

class tst_DescriptorStream : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void initTestCase();

    void nothingIsToldFromInsideWrite();
};

void tst_DescriptorStream::initTestCase()
{
    if (!DescriptorStream::isSupported())
        QSKIP("This system has no such sockets; Qt's are used.");
}

// The reply arrives before write() returns; readyRead() is emitted from the event loop nevertheless.
void tst_DescriptorStream::nothingIsToldFromInsideWrite()
{
    const SocketPair sockets;
    QVERIFY(sockets.ok);
    DescriptorStream stream(sockets.own());
    QByteArray answer;
    connect(&stream, &DescriptorStream::readyRead, this, [&] {
        char text[16];
        answer.append(text, stream.read(text, sizeof text));
    });
    QCOMPARE(::send(sockets.peer(), "answer", 6, 0), 6);
    stream.write("question", 8);
    QVERIFY(answer.isEmpty());
    QTRY_COMPARE_WITH_TIMEOUT(answer, "answer", 60'000);
}

QTEST_GUILESS_MAIN(tst_DescriptorStream)
#include "tst_descriptorstream.moc"
