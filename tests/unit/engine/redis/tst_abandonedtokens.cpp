// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/redis/abandonedtokens.h"
#include "support/fakeclock.h"

#include <QtTest/qtest.h>

using namespace Qt::StringLiterals;

using namespace QDistLock;
using namespace std::chrono_literals;

namespace {

const QByteArray Mine = "1aaaaaaaaaaaaaaa:7:00000000000000000000000000000000";

struct Bench
{
    Support::FakeClock clock;
    std::vector<LockOperation> sent;
    bool isReady = true;
    AbandonedTokens tokens{&clock, [this](const LockId &) { return isReady; },
                           [this](LockOperation cancel) { sent.push_back(cancel); }};

    Bench() { add(Mine); }
    void add(const QByteArray &token)
    {
        QString error;
        tokens.add(*LockId::make(u"lock:"_s, u"job"_s, &error), token, 30s, 0ms, 1h);
    }
    /// The server's reply to the last cancel.
    void reply(EngineReply::Status status)
    {
        EngineReply reply;
        reply.status = status;
        sent.back().completion(reply);
    }
    void fail(const EngineError &error)
    {
        EngineReply reply;
        reply.error = error;
        sent.back().completion(reply);
    }
};

} // namespace

class tst_AbandonedTokens : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void cancelledOnce();
    void foundLater();
    void foundWhileTheCancelIsInFlight();
    void refusedForGood();
    void abandonedAgain();
    void sameNumberOfAnotherClient();
    void serverAway();
};

void tst_AbandonedTokens::cancelledOnce()
{
    Bench bench;
    QCOMPARE(bench.sent.size(), 1u);
    QVERIFY(bench.tokens.needConnection());
    bench.reply(EngineReply::Done);
    QCOMPARE(bench.sent.size(), 1u);
    QVERIFY(!bench.tokens.needConnection());
    QVERIFY(bench.tokens.unconfirmed().empty());
}

void tst_AbandonedTokens::foundLater()
{
    Bench bench;
    bench.reply(EngineReply::Gone);
    bench.tokens.found(7);
    QCOMPARE(bench.sent.size(), 2u);
    bench.reply(EngineReply::Done);
    QCOMPARE(bench.sent.size(), 2u);
    QVERIFY(!bench.tokens.needConnection());
}

// The acquire ran on another connection: the cancel may have run before it, although its reply comes later.
void tst_AbandonedTokens::foundWhileTheCancelIsInFlight()
{
    Bench bench;
    bench.tokens.found(7);
    QCOMPARE(bench.sent.size(), 1u);
    bench.reply(EngineReply::Gone);
    QCOMPARE(bench.sent.size(), 2u);
    QVERIFY(bench.tokens.needConnection());
    bench.reply(EngineReply::Done);
    QCOMPARE(bench.sent.size(), 2u);
    QVERIFY(!bench.tokens.needConnection());
}

void tst_AbandonedTokens::refusedForGood()
{
    Bench bench;
    bench.fail(EngineError::permanent(DistributedLock::PermissionError, u"forbidden"_s));
    bench.tokens.sendAll();
    QCOMPARE(bench.sent.size(), 1u);
    QVERIFY(!bench.tokens.needConnection());
}

// Wanted again meanwhile, and abandoned again: the reply to the first cancel says nothing about what came between.
void tst_AbandonedTokens::abandonedAgain()
{
    Bench bench;
    bench.tokens.forget(Mine);
    bench.add(Mine);
    QCOMPARE(bench.sent.size(), 2u);
    EngineReply done;
    done.status = EngineReply::Done;
    bench.sent.at(0).completion(done);
    QVERIFY(bench.tokens.needConnection());
    bench.reply(EngineReply::Done);
    QVERIFY(!bench.tokens.needConnection());
}

void tst_AbandonedTokens::sameNumberOfAnotherClient()
{
    Bench bench;
    const QByteArray other = "1bbbbbbbbbbbbbbb:7:00000000000000000000000000000000";
    QVERIFY(!bench.tokens.contains(other));
    bench.add(other);
    QCOMPARE(bench.tokens.unconfirmed().size(), 2u);
    bench.tokens.forget(other);
    QVERIFY(bench.tokens.contains(Mine));
    bench.sent.front().completion({});
    QVERIFY(bench.tokens.needConnection());
}

// A login that is refused while somebody changes the password is no reply to the cancel.
void tst_AbandonedTokens::serverAway()
{
    Bench bench;
    bench.isReady = false;
    bench.fail(EngineError::permanent(DistributedLock::AuthenticationError, u"wrong password"_s));
    QVERIFY(bench.tokens.needConnection());
    bench.tokens.sendAll(); // another server is back
    bench.tokens.retryNow();
    QCOMPARE(bench.sent.size(), 1u);
    bench.isReady = true;
    bench.tokens.sendAll();
    QCOMPARE(bench.sent.size(), 2u);
    bench.reply(EngineReply::Done);
    QVERIFY(!bench.tokens.needConnection());
}

QTEST_GUILESS_MAIN(tst_AbandonedTokens)
#include "tst_abandonedtokens.moc"
