// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Which operations share a command, and the replies to acquires of permits with slots.

#include "engine/redis/commandbatch.h"

#include <QtTest/qtest.h>

using namespace Qt::StringLiterals;

using namespace QDistLock;
using namespace std::chrono_literals;

namespace {

struct Wanted
{
    LockOperation::Kind kind;
    int slot;
    QString name;
};

/// The names of the locks in each command.
QStringList split(const QList<Wanted> &wanted)
{
    LockOperations operations;
    for (const Wanted &one : wanted) {
        QString error;
        LockOperation operation{one.kind, *LockId::make(u"lock:"_s, one.name, &error), "token", 30s, nullptr};
        operation.slot = one.slot;
        operations.push_back(operation);
    }
    QStringList commands;
    CommandBatch::split(std::move(operations), [&](const LockOperations &batch, std::chrono::milliseconds) {
        QStringList names;
        for (const LockOperation &operation : batch)
            names.append(QString::fromUtf8(operation.lock.name()));
        commands.append(names.join(u' '));
    });
    return commands;
}

} // namespace

class tst_CommandBatch : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void renewalsOfOneSlotShareACommand();
    void theOrderOfOthersIsKept();
    void replyWithSlots_data();
    void replyWithSlots();
};

void tst_CommandBatch::renewalsOfOneSlotShareACommand()
{
    constexpr auto Renew = LockOperation::Renew;
    QCOMPARE(split({{Renew, 2, u"a"_s}, {Renew, 1, u"b"_s}, {Renew, 2, u"c"_s}, {Renew, 1, u"d"_s}}),
             (QStringList{u"b d"_s, u"a c"_s}));
    QCOMPARE(split({{Renew, -1, u"b"_s}, {Renew, -1, u"a"_s}}), QStringList{u"b a"_s}); // no cluster
}

void tst_CommandBatch::theOrderOfOthersIsKept()
{
    constexpr auto Renew = LockOperation::Renew;
    constexpr auto Release = LockOperation::Release;
    QCOMPARE(split({{Release, 2, u"a"_s}, {Release, 1, u"b"_s}, {Release, 2, u"c"_s}}),
             (QStringList{u"a"_s, u"b"_s, u"c"_s}));
    QCOMPARE(split({{Renew, 2, u"a"_s}, {Release, 1, u"b"_s}, {Renew, 1, u"c"_s}}),
             (QStringList{u"a"_s, u"b"_s, u"c"_s}));
}

void tst_CommandBatch::replyWithSlots_data()
{
    QTest::addColumn<bool>("wantsSlots");
    QTest::addColumn<QByteArray>("reply");
    QTest::addColumn<qint64>("fencingToken"); // 0: the reply is refused
    QTest::addColumn<QList<int>>("permitSlots");
    QTest::newRow("two") << true << QByteArray("42 0,12") << qint64(42) << QList<int>({0, 12});
    QTest::newRow("more than 1024 permits") << true << QByteArray("42") << qint64(42) << QList<int>();
    QTest::newRow("none wanted") << false << QByteArray("42") << qint64(42) << QList<int>();
    QTest::newRow("not wanted") << false << QByteArray("42 0") << qint64(0) << QList<int>();
    for (const char *const reply : {"42 ", "42 1,1", "42 2,1", "42 x", "42 1024", "42 -1", "42 0 1", " 0", "x 0"})
        QTest::newRow(reply) << true << QByteArray(reply) << qint64(0) << QList<int>();
}

void tst_CommandBatch::replyWithSlots()
{
    QFETCH(const bool, wantsSlots);
    QFETCH(const QByteArray, reply);
    QFETCH(const qint64, fencingToken);
    QFETCH(const QList<int>, permitSlots);
    QString error;
    LockOperation acquire{LockOperation::Acquire, *LockId::make(u"lock:"_s, u"a"_s, &error),
                          Token::ofPermits(TokenGenerator().makeToken(), 2, wantsSlots), 30s, nullptr};
    LockOperations operations;
    operations.push_back(std::move(acquire));
    const CommandBatch batch(std::move(operations), LeaseTime());
    const auto decoded = batch.decode(0, {QtRedis::Reply::Bulk, 0, reply, {}});
    QCOMPARE(decoded.reply.status, fencingToken ? EngineReply::Granted : EngineReply::Failed);
    QCOMPARE(decoded.isMalformed || !decoded.errorText.isEmpty(), fencingToken == 0);
    QCOMPARE(decoded.reply.permitSlots, permitSlots);
    if (fencingToken)
        QCOMPARE(decoded.reply.fencingToken, fencingToken);
}

QTEST_APPLESS_MAIN(tst_CommandBatch)
#include "tst_commandbatch.moc"
