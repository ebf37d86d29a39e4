// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "redis/descriptorstream.h"

#include <QtTest/qtest.h>

#include <ctime>
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

double threadSeconds()
{
    timespec time;
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return double(time.tv_sec) + double(time.tv_nsec) / 1e9;
}

} // namespace

class tst_DescriptorStream : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void initTestCase();

    void nothingIsToldFromInsideWrite();
    void lookingForAnswersEnds_data();
    void lookingForAnswersEnds();
};

void tst_DescriptorStream::initTestCase()
{
    if (!DescriptorStream::isSupported())
        QSKIP("This system has no such sockets; Qt's are used.");
}

// The answer is there before write() returns, and is told from the event loop all the same.
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
    QTRY_COMPARE(answer, "answer");
}

void tst_DescriptorStream::lookingForAnswersEnds_data()
{
    QTest::addColumn<int>("answeredEvery");
    QTest::newRow("never answers") << 0;
    QTest::newRow("answers every other time") << 2;
}

// A peer that is slow, or one that answers to some only, does not cost 40 us for each write.
void tst_DescriptorStream::lookingForAnswersEnds()
{
    QFETCH(const int, answeredEvery);
    constexpr int Writes = 4000;
    const SocketPair sockets;
    QVERIFY(sockets.ok);
    DescriptorStream stream(sockets.own());
    double cpu = 0;
    char bytes[64];
    for (int i = 1; i <= Writes; ++i) {
        if (answeredEvery > 0 && i % answeredEvery == 0)
            QCOMPARE(::send(sockets.peer(), "answer", 6, 0), 6);
        const double before = threadSeconds();
        stream.write("question", 8);
        cpu += threadSeconds() - before;
        QCOMPARE(::recv(sockets.peer(), bytes, sizeof bytes, 0), 8);
        ::recv(sockets.own(), bytes, sizeof bytes, MSG_DONTWAIT);
    }
    // 4 000 or 2 000 looks in vain took 160 or 80 ms.
    QVERIFY2(cpu < 0.05, qPrintable(QString::number(cpu * 1e3, 'f', 1) + QLatin1String(" ms")));
}

QTEST_GUILESS_MAIN(tst_DescriptorStream)
#include "tst_descriptorstream.moc"
