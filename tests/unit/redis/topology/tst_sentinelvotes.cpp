// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "redis/topology/sentinelvotes.h"
#include "support/rows.h"

#include <QtTest/qtest.h>

#include <algorithm>

using namespace Qt::StringLiterals;

using namespace QtRedis;

namespace {

SentinelMaster master(quint16 port, qint64 epoch)
{
    return {{u"127.0.0.1"_s, port}, epoch, {}};
}

/// "A1": names port 'A' with epoch 1. "?": may still answer, "-": is silent. Behind it, "/5": knows of five Sentinels.
/// "a1": names it by a host name, "a1!": which was looked up.
/// In brackets: not in the URL. In front, "x=": has the id x.
SentinelVote vote(QByteArray text, qsizetype index)
{
    SentinelVote result;
    result.id = QByteArray::number(index);
    if (text.startsWith('(')) {
        result.isConfigured = false;
        text = text.mid(1).chopped(1);
    }
    if (const qsizetype equals = text.indexOf('='); equals > 0) {
        result.id = text.first(equals);
        text = text.mid(equals + 1);
    }
    if (const qsizetype slash = text.indexOf('/'); slash > 0) {
        result.known = text.mid(slash + 1).toInt();
        text.truncate(slash);
    }
    result.isPending = text == "?";
    if (text != "?" && text != "-") {
        const bool isByName = text[0] >= 'a';
        const bool isLookedUp = text.endsWith('!');
        result.named = master(quint8(text.toUpper()[0]), text.mid(1).chopped(isLookedUp ? 1 : 0).toInt());
        if (isLookedUp)
            result.named->addresses = QStringList{result.named->endpoint.host};
        if (isByName)
            result.named->endpoint.host = u"redis.example"_s;
    }
    return result;
}

QByteArray shown(const std::optional<SentinelMaster> &found)
{
    return found ? char(found->endpoint.port) + QByteArray::number(found->epoch) : QByteArray("none");
}

} // namespace

class tst_SentinelVotes : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void decisions_data();
    void decisions();
    void spelling();
};

void tst_SentinelVotes::decisions_data()
{
    QTest::addColumn<QByteArray>("votes"); // holds in every order
    Support::addColumns<QByteArray, QByteArray>("agreed", "unopposed");
    QTest::addColumn<bool>("isConfirmed"); // the agreed one
    QTest::addColumn<int>("total");
    const auto row = [](const char *what, const char *votes, const char *agreed, const char *unopposed,
                        bool isConfirmed, int total) {
        QTest::newRow(what) << QByteArray(votes) << QByteArray(agreed) << QByteArray(unopposed) << isConfirmed << total;
    };
    row("all agree", "A1 A1 A1", "A1", "A1", true, 3);
    row("the third is not needed", "A1 A1 ?", "A1", "A1", true, 3);
    row("one is not enough", "A1 ? ?", "none", "A1", false, 3);
    row("two are silent", "A1 - -", "none", "A1", false, 3);
    row("all are silent", "- - -", "none", "none", false, 3);
    row("one has a greater epoch", "A1 A1 B100", "A1", "none", true, 3);
    row("two have a greater epoch", "A1 B2 B2", "B2", "none", true, 3);
    row("one has a smaller epoch", "B2 B2 A1", "B2", "none", true, 3);
    row("set up again", "A0 A0 B2", "A0", "none", true, 3);
    row("same address, another epoch", "A1 A1 A7", "A1", "none", true, 3);
    row("same epoch, another address", "A1 A1 B1", "A1", "none", true, 3);
    row("one lies, one is silent", "A1 B9 -", "none", "none", false, 3);
    row("three masters", "A1 B2 C3", "none", "none", false, 3);
    row("two of four", "A1 A1 B2 B2", "none", "none", false, 4);
    row("two of five", "A1 A1 B2 - -", "none", "none", false, 5);
    row("one Sentinel", "A1", "A1", "A1", true, 1);
    row("two Sentinels", "A1 A1", "A1", "A1", true, 2);
    row("one of two", "A1 B2", "none", "none", false, 2);

    row("one claims 1000", "A1/3 A1/3 A1/1000", "A1", "A1", true, 3);
    row("one claims 1000, one is silent", "A1/3 A1/1000 -/3", "A1", "A1", true, 3);
    row("two know five", "A1/5 A1/5 A1/3", "A1", "A1", true, 5);
    row("two know seven", "A1/7 A1/7 A1/3", "A1", "A1", false, 7);
    row("one knows fewer", "A1/5 A1/5 A1/1 (A1) (A1)", "A1", "A1", true, 5);

    row("one in the URL", "A1/3 (A1) (-)", "A1", "A1", true, 3);
    row("the others do not outvote it", "A1/3 (B2) (B2)", "A1", "none", false, 3);
    row("nor before it has answered", "?/3 (B2) (B2)", "none", "B2", false, 3);
    row("they stand in for it", "-/3 (B2) (B2)", "B2", "B2", true, 3);
    row("but one of them does not", "-/3 (B2) (-)", "none", "B2", false, 3);
    row("they disagree", "-/3 (A1) (B2)", "none", "none", false, 3);
    row("its claim is not enough", "A1/3 (-) (-)", "A1", "A1", false, 3);
    row("three of five in the URL", "A1/5 -/5 -/5 (A1) (A1)", "A1", "A1", true, 5);
    row("against one in the URL", "B2/5 -/5 -/5 (A1) (A1)", "none", "none", false, 5);
    row("without any in the URL", "-/5 -/5 -/5 (A1) (A1)", "none", "A1", false, 5);

    row("by name and by address", "A1 a1! -", "A1", "A1", true, 3);
    row("not looked up", "A1 a1 -", "none", "none", false, 3);
    row("two by name", "A1 a1! a1!", "A1", "A1", true, 3);
    row("another epoch", "A1 a2! -", "none", "none", false, 3);
    row("another port", "A1 b1! -", "none", "none", false, 3);

    row("one under two addresses", "x=A1/3 x=A1/3 (A1) (-)", "A1", "A1", true, 3);
    row("one under two addresses, alone", "x=A1/3 x=A1/3 (-) (-)", "A1", "A1", false, 3);
    row("with the id of another", "x=A1 x=B9 A1", "A1", "none", true, 3);
    row("with the id of the other", "x=A1 x=B9", "none", "none", false, 2);
}

void tst_SentinelVotes::decisions()
{
    QFETCH(const QByteArray, votes);
    QFETCH(const QByteArray, agreed);
    QFETCH(const QByteArray, unopposed);
    QFETCH(const bool, isConfirmed);
    QFETCH(const int, total);
    QList<QByteArray> order = votes.split(' ');
    std::sort(order.begin(), order.end());
    do {
        SentinelVotes said;
        for (const QByteArray &text : std::as_const(order))
            said.votes.push_back(vote(text, qsizetype(said.votes.size())));
        QCOMPARE(shown(said.agreed()), agreed);
        QCOMPARE(shown(said.unopposed()), unopposed);
        QCOMPARE(said.agreed() && said.isConfirmed(*said.agreed()), isConfirmed);
        QCOMPARE(said.total(), total);
    } while (std::next_permutation(order.begin(), order.end()));
}

/// Most of them know how the master is reached, and what is in its certificate.
void tst_SentinelVotes::spelling()
{
    const auto hostOf = [](const char *a, const char *b, const char *c) {
        const SentinelVotes said{{vote(a, 0), vote(b, 1), vote(c, 2)}};
        return said.agreed()->endpoint.host;
    };
    QCOMPARE(hostOf("a1!", "A1", "A1"), u"127.0.0.1"_s);
    QCOMPARE(hostOf("A1", "a1!", "a1!"), u"redis.example"_s);
}

QTEST_GUILESS_MAIN(tst_SentinelVotes)
#include "tst_sentinelvotes.moc"
