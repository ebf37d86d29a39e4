// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "redis/codec.h"
#include "support/rows.h"

#include <QtTest/qtest.h>

#include <optional>

#if defined(__has_feature)
#  if __has_feature(address_sanitizer)
#    define WITH_ASAN
#  endif
#elif defined(__SANITIZE_ADDRESS__)
#  define WITH_ASAN
#endif
#ifdef WITH_ASAN
#  include <sanitizer/allocator_interface.h>
#elif defined(__GLIBC__)
#  include <malloc.h>
#endif

using namespace QtRedis;

namespace {

// A reply as text that shows its whole structure.
QByteArray show(const Reply &reply)
{
    switch (reply.type) {
    case Reply::Nil:
        return "nil";
    case Reply::Status:
        return '+' + reply.text;
    case Reply::Error:
        return '-' + reply.text;
    case Reply::Integer:
        return ':' + QByteArray::number(reply.integer);
    case Reply::Bulk:
        return '"' + reply.text + '"';
    case Reply::Array:
        break;
    }
    QByteArrayList parts;
    for (const Reply &element : reply.elements)
        parts.append(show(element));
    return '[' + parts.join(',') + ']';
}

QByteArrayList takeAll(ReplyReader *reader)
{
    QByteArrayList shown;
    Reply reply;
    while (reader->next(&reply))
        shown.append(show(reply));
    return shown;
}

// What malloc has given out, in bytes.
std::optional<size_t> allocated()
{
#if defined(WITH_ASAN)
    return __sanitizer_get_current_allocated_bytes();
#elif defined(__GLIBC__) && !defined(__SANITIZE_THREAD__)
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
#else
    return std::nullopt;
#endif
}

} // namespace

class tst_Codec : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void encodes_data();
    void encodes();
    void appendsToWhatIsThere();
    void encodesInParts();
    void encodedCommandReadsBack();

    void reads_data();
    void reads();
    void splitAnywhere_data() { reads_data(); }
    void splitAnywhere();
    void manyInOneFeed();

    void refuses_data();
    void refuses();
    void withinLimits_data();
    void withinLimits();
    void staysInError();
    void goodRepliesBeforeBadBytes();
    void limitsCountEachReplyAnew();
    void promisesCostNothing_data()
    {
        Support::addRows<QByteArray>("bytes",
                                     {{"array", QByteArray("*200000000\r\n")},
                                      {"array within the limit", QByteArray("*1048576\r\n")},
                                      {"nested arrays within the limit", QByteArray("*149796\r\n").repeated(7)},
                                      {"string", QByteArray("$2147483648\r\n")},
                                      {"string within the limit", QByteArray("$16777216\r\n")},
                                      {"depth", QByteArray("*1\r\n").repeated(1000000)}});
    }
    void promisesCostNothing();
    void endlessLineStopsAtTheLimit();

    void errorCode();
};

void tst_Codec::encodes_data()
{
    Support::addColumns<QList<QByteArray>, QByteArray>("arguments", "bytes");

    QTest::newRow("one") << QList<QByteArray>{"PING"} << QByteArray("*1\r\n$4\r\nPING\r\n");
    QTest::newRow("several") << QList<QByteArray>{"SET", "k", "v"}
                             << QByteArray("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n");
    QTest::newRow("empty argument") << QList<QByteArray>{"ECHO", ""} << QByteArray("*2\r\n$4\r\nECHO\r\n$0\r\n\r\n");
    QTest::newRow("null argument") << QList<QByteArray>{"ECHO", QByteArray()}
                                   << QByteArray("*2\r\n$4\r\nECHO\r\n$0\r\n\r\n");
    QTest::newRow("CR LF inside") << QList<QByteArray>{"ECHO", "a\r\nb"}
                                  << QByteArray("*2\r\n$4\r\nECHO\r\n$4\r\na\r\nb\r\n");
    QTest::newRow("zero byte") << QList<QByteArray>{QByteArray("a\0b", 3)} << QByteArray("*1\r\n$3\r\na\0b\r\n", 13);
    QTest::newRow("9 bytes") << QList<QByteArray>{QByteArray(9, 'x')}
                             << QByteArray("*1\r\n$9\r\n" + QByteArray(9, 'x') + "\r\n");
    QTest::newRow("10 bytes") << QList<QByteArray>{QByteArray(10, 'x')}
                              << QByteArray("*1\r\n$10\r\n" + QByteArray(10, 'x') + "\r\n");
    QTest::newRow("100000 bytes") << QList<QByteArray>{QByteArray(100000, 'x')}
                                  << QByteArray("*1\r\n$100000\r\n" + QByteArray(100000, 'x') + "\r\n");
    QTest::newRow("12 arguments") << QList<QByteArray>(12, "a")
                                  << QByteArray("*12\r\n" + QByteArray("$1\r\na\r\n").repeated(12));
}

void tst_Codec::encodes()
{
    QFETCH(QList<QByteArray>, arguments);
    QFETCH(QByteArray, bytes);
    QCOMPARE(encodeCommand(arguments), bytes);
}

void tst_Codec::appendsToWhatIsThere()
{
    QByteArray buffer = "before";
    const QByteArray copy = buffer;
    appendCommand(&buffer, {"A"});
    appendCommand(&buffer, {"B"});
    QCOMPARE(buffer, "before*1\r\n$1\r\nA\r\n*1\r\n$1\r\nB\r\n");
    QCOMPARE(copy, "before");
}

void tst_Codec::encodesInParts()
{
    QByteArray buffer = "x";
    appendCommand(&buffer, {"EVALSHA", "f00", QByteArray::number(1)}, {"key"}, {"a", ""});
    QCOMPARE(buffer, 'x' + encodeCommand({"EVALSHA", "f00", "1", "key", "a", ""}));
}

// A command is an array of strings, so the reader can judge the encoder.
void tst_Codec::encodedCommandReadsBack()
{
    QByteArray all;
    for (int byte = 0; byte < 256; ++byte)
        all.append(char(byte));
    ReplyReader reader;
    const QByteArray bytes = encodeCommand({"SET", all, ""});
    QVERIFY(reader.feed(bytes.constData(), bytes.size()));
    Reply reply;
    QVERIFY(reader.next(&reply));
    QCOMPARE(reply.elements.size(), 3);
    QCOMPARE(reply.elements[1].text, all);
    QCOMPARE(reply.elements[2].text, QByteArray());
}

void tst_Codec::reads_data()
{
    Support::addColumns<QByteArray, QByteArrayList>("bytes", "replies");

    const auto row = [](const char *name, const QByteArray &bytes, const QByteArrayList &replies) {
        QTest::newRow(name) << bytes << replies;
    };
    row("status", "+OK\r\n", {"+OK"});
    row("empty status", "+\r\n", {"+"});
    row("error", "-ERR no\r\n", {"-ERR no"});
    row("integer", ":42\r\n", {":42"});
    row("zero", ":0\r\n", {":0"});
    row("negative", ":-7\r\n", {":-7"});
    row("largest integer", ":9223372036854775807\r\n", {":9223372036854775807"});
    row("smallest integer", ":-9223372036854775808\r\n", {":-9223372036854775808"});
    row("string", "$3\r\nabc\r\n", {"\"abc\""});
    row("empty string", "$0\r\n\r\n", {"\"\""});
    row("string with CR LF", "$5\r\na\r\nbc\r\n", {"\"a\r\nbc\""});
    row("string that looks like a reply", "$5\r\n:12\r\n\r\n", {"\":12\r\n\""});
    row("nil string", "$-1\r\n", {"nil"});
    row("nil array", "*-1\r\n", {"nil"});
    row("empty array", "*0\r\n", {"[]"});
    row("array", "*3\r\n:1\r\n$1\r\na\r\n+OK\r\n", {"[:1,\"a\",+OK]"});
    row("nil in array", "*3\r\n$-1\r\n*-1\r\n:1\r\n", {"[nil,nil,:1]"});
    row("error in array", "*2\r\n-ERR x\r\n:1\r\n", {"[-ERR x,:1]"});
    row("nested", "*2\r\n*2\r\n:1\r\n*0\r\n*1\r\n$0\r\n\r\n", {"[[:1,[]],[\"\"]]"});
    row("7 deep", QByteArray("*1\r\n").repeated(7) + ":5\r\n", {"[[[[[[[:5]]]]]]]"});
    row("7 deep, empty", QByteArray("*1\r\n").repeated(6) + "*0\r\n", {"[[[[[[[]]]]]]]"});
    row("several", "+a\r\n*1\r\n:1\r\n$-1\r\n:2\r\n", {"+a", "[:1]", "nil", ":2"});
    row("message", "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\np\r\n", {"[\"message\",\"c\",\"p\"]"});
}

void tst_Codec::reads()
{
    QFETCH(QByteArray, bytes);
    QFETCH(QByteArrayList, replies);
    ReplyReader reader;
    QVERIFY2(reader.feed(bytes.constData(), bytes.size()), qPrintable(reader.errorString()));
    QCOMPARE(takeAll(&reader), replies);
    QVERIFY(!reader.hasError());
}

void tst_Codec::splitAnywhere()
{
    QFETCH(QByteArray, bytes);
    QFETCH(QByteArrayList, replies);
    for (qsizetype split = 0; split <= bytes.size(); ++split) {
        ReplyReader reader;
        QVERIFY(reader.feed(bytes.constData(), split));
        QByteArrayList got = takeAll(&reader);
        QVERIFY(reader.feed(bytes.constData() + split, bytes.size() - split));
        got += takeAll(&reader);
        QCOMPARE(got, replies);
    }
    ReplyReader reader;
    QByteArrayList got;
    for (const char byte : bytes) {
        QVERIFY(reader.feed(&byte, 1));
        got += takeAll(&reader);
    }
    QCOMPARE(got, replies);
}

void tst_Codec::manyInOneFeed()
{
    QByteArray bytes;
    for (int i = 0; i < 20000; ++i)
        bytes += ':' + QByteArray::number(i) + "\r\n";
    ReplyReader reader;
    QVERIFY(reader.feed(bytes.constData(), bytes.size()));
    Reply reply;
    for (int i = 0; i < 20000; ++i) {
        QVERIFY(reader.next(&reply));
        QCOMPARE(reply.integer, i);
    }
    QVERIFY(!reader.next(&reply));
}

void tst_Codec::refuses_data()
{
    Support::addColumns<QByteArray, QString>("bytes", "reason");

    const auto row = [](const char *name, const QByteArray &bytes, const char *reason) {
        QTest::newRow(name) << bytes << QString::fromUtf8(reason);
    };
    // Kinds of reply there are not
    row("text", "HTTP/1.1 400\r\n", "type");
    row("line end", "\r\n", "type");
    row("zero byte", QByteArray("\0", 1), "type");
    row("high byte", "\xff", "0xff");
    row("RESP3 nil", "_\r\n", "type");
    row("RESP3 boolean", "#t\r\n", "type");
    row("RESP3 double", ",1.5\r\n", "type");
    row("RESP3 big number", "(123\r\n", "type");
    row("RESP3 bulk error", "!3\r\nERR\r\n", "type");
    row("RESP3 verbatim", "=7\r\ntxt:abc\r\n", "type");
    row("RESP3 map", "%1\r\n:1\r\n:2\r\n", "type");
    row("RESP3 set", "~1\r\n:1\r\n", "type");
    row("RESP3 attribute", "|1\r\n:1\r\n:2\r\n", "type");
    row("RESP3 push", ">1\r\n:1\r\n", "type");
    row("wrong type in array", "*1\r\n_\r\n", "type");
    // Numbers
    row("integer: letter", ":1a\r\n", "digit");
    row("integer: plus", ":+1\r\n", "digit");
    row("integer: space", ": 1\r\n", "digit");
    row("integer: two signs", ":--1\r\n", "digit");
    row("integer: sign behind", ":1-\r\n", "digit");
    row("integer: none", ":\r\n", "digit");
    row("integer: only a sign", ":-\r\n", "digit");
    row("integer: -0", ":-0\r\n", "-0");
    row("integer: leading zero", ":01\r\n", "zero");
    row("integer: too large", ":9223372036854775808\r\n", "64 bits");
    row("integer: too small", ":-9223372036854775809\r\n", "64 bits");
    row("integer: endless", ":" + QByteArray(100, '9'), "64 bits");
    row("string: letter", "$a\r\n", "digit");
    row("string: no length", "$\r\n", "digit");
    row("string: -2", "$-2\r\n", "negative");
    row("string: hugely negative", "$-9223372036854775808\r\n", "");
    row("string: streamed", "$?\r\n", "digit");
    row("string: 2^31", "$2147483648\r\n", "string of more than");
    row("string: 2^63-1", "$9223372036854775807\r\n", "string of more than");
    row("string: 2^64", "$18446744073709551616\r\n", "string of more than");
    row("array: letter", "*x\r\n", "digit");
    row("array: no length", "*\r\n", "digit");
    row("array: -2", "*-2\r\n", "negative");
    row("array: 200000000", "*200000000\r\n", "elements");
    row("array: 2^32", "*4294967296\r\n", "elements");
    row("array: 2^63-1", "*9223372036854775807\r\n", "elements");
    // Line ends
    row("status: LF alone", "+OK\n", "CR LF");
    row("status: CR alone", "+O\rK\r\n", "CR LF");
    row("integer: LF alone", ":1\n", "");
    row("string: LF alone", "$1\na\r\n", "");
    row("string: longer than said", "$1\r\nab\r\n", "longer");
    row("string: CR without LF", "$1\r\na\rb", "longer");
    row("empty string: no line end", "$0\r\n:1\r\n", "longer");
    // Depth
    row("8 deep", QByteArray("*1\r\n").repeated(8) + ":5\r\n", "deep");
    row("8 deep, empty", QByteArray("*1\r\n").repeated(7) + "*0\r\n", "deep");
    row("100000 deep", QByteArray("*1\r\n").repeated(100000), "deep");
}

void tst_Codec::refuses()
{
    QFETCH(QByteArray, bytes);
    QFETCH(QString, reason);

    ReplyReader reader;
    QVERIFY(!reader.feed(bytes.constData(), bytes.size()));
    QVERIFY(reader.hasError());
    QVERIFY2(reader.errorString().contains(reason), qPrintable(reader.errorString()));
    QCOMPARE(takeAll(&reader), QByteArrayList());

    // The same however it is cut
    ReplyReader bytewise;
    bool valid = true;
    for (qsizetype i = 0; valid && i < bytes.size(); ++i)
        valid = bytewise.feed(bytes.constData() + i, 1);
    QVERIFY(!valid);
    QCOMPARE(bytewise.errorString(), reader.errorString());
}

void tst_Codec::withinLimits_data()
{
    Support::addColumns<QByteArray, QByteArray, QString>("allowed", "refused", "reason");

    const auto row = [](const char *name, const QByteArray &allowed, const QByteArray &refused, const char *reason) {
        QTest::newRow(name) << allowed << refused << QString::fromUtf8(reason);
    };
    row("line", "+" + QByteArray(20, 'x') + "\r\n", "+" + QByteArray(21, 'x') + "\r\n", "line of more than 20");
    row("error line", "-" + QByteArray(20, 'x') + "\r\n", "-" + QByteArray(21, 'x') + "\r\n", "line of more than 20");
    row("string", "$50\r\n" + QByteArray(50, 'x') + "\r\n", "$51\r\n", "string of more than 50");
    row("elements", "*4\r\n" + QByteArray(":1\r\n").repeated(4), "*5\r\n", "more than 4 elements");
    row("elements of all arrays", "*2\r\n*1\r\n:1\r\n*1\r\n:1\r\n", "*2\r\n*1\r\n:1\r\n*2\r\n", "more than 4 elements");
    row("depth", "*1\r\n*1\r\n:1\r\n", "*1\r\n*1\r\n*1\r\n", "more than 2 deep");
    // 4 + 2 x (5 + 38 + 2) + (5 + 1) = 100
    const QByteArray half = "$38\r\n" + QByteArray(38, 'x') + "\r\n";
    row("size", "*3\r\n" + half + half + "+abc\r\n", "*3\r\n" + half + half + "+abcd\r\n", "more than 100 bytes");
    row("size, told by a header", "*3\r\n" + half + half + "+abc\r\n", "*3\r\n" + half + half + "$9\r\n",
        "more than 100 bytes");
}

void tst_Codec::withinLimits()
{
    QFETCH(QByteArray, allowed);
    QFETCH(QByteArray, refused);
    QFETCH(QString, reason);
    ReplyLimits limits;
    limits.lineLength = 20;
    limits.bulkSize = 50;
    limits.replySize = 100;
    limits.elements = 4;
    limits.depth = 2;

    ReplyReader reader(limits);
    QVERIFY2(reader.feed(allowed.constData(), allowed.size()), qPrintable(reader.errorString()));
    QCOMPARE(takeAll(&reader).size(), 1);

    QVERIFY(!reader.feed(refused.constData(), refused.size()));
    QVERIFY2(reader.errorString().contains(reason), qPrintable(reader.errorString()));
}

void tst_Codec::staysInError()
{
    ReplyReader reader;
    QVERIFY(!reader.feed("?", 1));
    const QString reason = reader.errorString();
    QVERIFY(!reader.feed("+OK\r\n", 5));
    QCOMPARE(reader.errorString(), reason);
    Reply reply;
    QVERIFY(!reader.next(&reply));
}

void tst_Codec::goodRepliesBeforeBadBytes()
{
    ReplyReader reader;
    QVERIFY(reader.feed("*2\r\n:1\r\n", 8));
    const QByteArray rest = ":2\r\n+OK\r\n*1\r\n?";
    QVERIFY(!reader.feed(rest.constData(), rest.size()));
    QCOMPARE(takeAll(&reader), QByteArrayList({"[:1,:2]", "+OK"}));
    QVERIFY(reader.hasError());
}

void tst_Codec::limitsCountEachReplyAnew()
{
    ReplyLimits limits;
    limits.elements = 3;
    limits.replySize = 30;
    ReplyReader reader(limits);
    const QByteArray bytes = QByteArray("*3\r\n:1\r\n:2\r\n:3\r\n").repeated(1000);
    QVERIFY2(reader.feed(bytes.constData(), bytes.size()), qPrintable(reader.errorString()));
    QCOMPARE(takeAll(&reader).size(), 1000);
}

void tst_Codec::promisesCostNothing()
{
    QFETCH(QByteArray, bytes);
    if (!allocated())
        QSKIP("this allocator does not tell what it has given out");
    ReplyReader reader;
    const size_t before = *allocated();
    reader.feed(bytes.constData(), bytes.size());
    QCOMPARE(takeAll(&reader), QByteArrayList());
    const size_t after = *allocated();
    QVERIFY2(after < before + 256 * 1024, qPrintable(QString::number(after - before)));
}

void tst_Codec::endlessLineStopsAtTheLimit()
{
    for (const char type : {'+', '-'}) {
        ReplyReader reader;
        QVERIFY(reader.feed(&type, 1));
        const QByteArray chunk(1000, 'x');
        int fed = 0;
        while (reader.feed(chunk.constData(), chunk.size())) {
            ++fed;
            QVERIFY(fed <= 66);
        }
        QCOMPARE(fed, 65); // 65536 bytes are allowed
    }
}

void tst_Codec::errorCode()
{
    Reply reply;
    reply.type = Reply::Error;
    reply.text = "NOSCRIPT No matching script.";
    QCOMPARE(reply.errorCode(), "NOSCRIPT");
    reply.text = "OOPS";
    QCOMPARE(reply.errorCode(), "OOPS");
    reply.type = Reply::Bulk;
    QCOMPARE(reply.errorCode(), QByteArray());
}

QTEST_GUILESS_MAIN(tst_Codec)
#include "tst_codec.moc"
