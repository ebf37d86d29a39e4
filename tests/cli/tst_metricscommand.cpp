// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// `qdistlock metrics`; a foreign program reads its output.

#include "clitest.h"

#include "support/locktesting.h"
#include "support/openmetrics.h"

#include <QDistLock/LockMetrics>

#include <QtCore/qfile.h>
#include <QtCore/qregularexpression.h>
#include <QtCore/qtemporarydir.h>

using namespace Qt::StringLiterals;

using namespace CliTesting;
using LockTesting::acquireNow;
using QDistLock::DistributedLock;
using QDistLock::LockRegistry;
using QDistLock::LockMetrics::MaximumGroups;

namespace {

constexpr const char *Gauges[] = {"qdistlock_server_held", "qdistlock_server_waiting", "qdistlock_server_disconnected",
                                  "qdistlock_server_without_ttl", "qdistlock_server_foreign"};

} // namespace

class tst_MetricsCommand : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase() { QVERIFY2(m_server.start(), qPrintable(m_server.errorString())); }
    void init() { m_server.command({"FLUSHALL"}); }

    void counts();
    void nothing();
    void manyGroups();
    void noServer();
    void noRight();
    void documents();

private:
    Result run(const QStringList &arguments) { return CliTesting::run({m_server.url().toEncoded()}, arguments); }
    /// The samples, whose labels also name \a prefix and the server.
    QString sample(const char *name, const QString &group, const QString &prefix = u"lock:"_s) const
    {
        return u"%1{group=%2,prefix=%3,server=%4}"_s.arg(QLatin1String(name), group, prefix, m_server.url().toString());
    }

    Support::RedisServer m_server;
};

void tst_MetricsCommand::counts()
{
    LockRegistry registry(m_server.url());
    LockRegistry another(m_server.url());
    DistributedLock first(&registry, u"order:17"_s);
    DistributedLock second(&registry, u"order:18"_s);
    DistributedLock waiter(&another, u"order:18"_s);
    for (DistributedLock *const lock : {&first, &second, &waiter})
        lock->setOptions(LockTesting::options());
    QVERIFY(acquireNow(&first));
    QVERIFY(acquireNow(&second));
    QVERIFY(LockTesting::joinQueue(&waiter));
    const QTemporaryDir folder;
    QCOMPARE(run({u"acquire"_s, u"step"_s, u"--lease"_s, u"10m"_s, u"--token-file"_s, folder.filePath(u"token"_s)})
                     .status,
             0);
    m_server.command({"SET", "lock:foreign", "x"});
    m_server.command({"SET", "other:foreign", "x", "PX", "600000"});

    const Result result = run({u"metrics"_s});
    QCOMPARE(result.status, 0);
    QCOMPARE(result.errors, QByteArray());
    const QJsonObject samples = Support::readOpenMetrics(result.output, {u"--plain"_s});
    const QList<QPair<QString, QList<int>>> expected{
            {u"order:*"_s, {2, 1, 0, 0, 0}}, {u"step"_s, {1, 0, 1, 0, 0}}, {u"foreign"_s, {1, 0, 0, 1, 1}}};
    for (const auto &[group, values] : expected) {
        for (int i = 0; i < 5; ++i)
            QCOMPARE(samples.value(sample(Gauges[i], group)).toDouble(-1), double(values.at(i)));
    }
    QCOMPARE(samples.size(), 3 * 5 + 1);
    QCOMPARE(samples.value(u"qdistlock_server_up{prefix=lock:,server=%1}"_s.arg(m_server.url().toString())).toInt(), 1);

    const QJsonObject some = Support::readOpenMetrics(run({u"metrics"_s, u"order:1[0-7]"_s}).output);
    QCOMPARE(some.value(sample(Gauges[0], u"order:*"_s)).toInt(), 1);
    QCOMPARE(some.size(), 5 + 1);
    const QJsonObject others = Support::readOpenMetrics(run({u"metrics"_s, u"--prefix"_s, u"other:"_s}).output);
    QCOMPARE(others.value(sample(Gauges[0], u"foreign"_s, u"other:"_s)).toInt(), 1);
    QCOMPARE(others.value(sample("qdistlock_server_without_ttl", u"foreign"_s, u"other:"_s)).toInt(-1), 0);
}

void tst_MetricsCommand::nothing()
{
    const Result result = run({u"metrics"_s});
    QCOMPARE(result.status, 0);
    QVERIFY2(result.output.contains("\"} 1\n"), result.output.constData());
    QVERIFY2(!result.output.contains("group="), result.output.constData());
}

void tst_MetricsCommand::manyGroups()
{
    constexpr int count = 400;
    const auto letters = [](int i) { return QByteArray(1, char('g' + i % 20)) + char('g' + i / 20); };
    for (int i = 0; i < count; ++i)
        m_server.command({"SET", "lock:" + letters(i), "x"});
    m_server.command({"SET", "lock:zz:1", "x"});
    m_server.command({"SET", "lock:zz:2", "x"});
    const QJsonObject samples = Support::readOpenMetrics(run({u"metrics"_s}).output);
    QCOMPARE(samples.size(), (MaximumGroups + 1) * 5 + 1);
    QCOMPARE(samples.value(sample(Gauges[0], u"zz:*"_s)).toInt(), 2);
    QCOMPARE(samples.value(sample(Gauges[0], u"other"_s)).toInt(), count + 1 - MaximumGroups);
    QCOMPARE(samples.value(sample("qdistlock_server_foreign", u"other"_s)).toInt(), count + 1 - MaximumGroups);
}

void tst_MetricsCommand::noServer()
{
    const Result result = CliTesting::run({"unix:///nonexistent/redis.sock"},
                                          {u"metrics"_s, u"--connect-timeout=500ms"_s});
    QCOMPARE(result.status, 69);
    QVERIFY2(result.errors.contains("unix:///nonexistent/redis.sock"), result.errors.constData());
    const QJsonObject samples = Support::readOpenMetrics(result.output, {u"--plain"_s});
    QCOMPARE(samples,
             QJsonObject({{u"qdistlock_server_up{prefix=lock:,server=unix:///nonexistent/redis.sock}"_s, 0.}}));
}

void tst_MetricsCommand::noRight()
{
    m_server.command({"ACL", "SETUSER", "blind", "on", ">secret", "~*", "&*", "+@all", "-scan"});
    QUrl url = m_server.url();
    url.setUserName(u"blind"_s);
    url.setPassword(u"secret"_s);
    const Result result = CliTesting::run({url.toEncoded()}, {u"metrics"_s});
    QCOMPARE(result.status, 77);
    QVERIFY2(result.output.contains("\"} 0\n"), result.output.constData());
    QVERIFY2(!result.output.contains("secret") && !result.errors.contains("secret"), result.errors.constData());
}

/// The page of the metrics has each of them, and neither it nor dashboard nor alarms have others.
void tst_MetricsCommand::documents()
{
    LockRegistry registry(m_server.url());
    DistributedLock lock(&registry, u"a"_s);
    QVERIFY(acquireNow(&lock));
    QStringList names;
    for (const QByteArray &text : {QDistLock::LockMetrics::openMetricsText(), run({u"metrics"_s}).output}) {
        const QJsonObject samples = Support::readOpenMetrics(text);
        for (auto sample = samples.begin(); sample != samples.end(); ++sample)
            names.append(sample.key().section(u'{', 0, 0));
    }
    names.removeDuplicates();
    QCOMPARE(names.size(), 2 * 3 + 7 + 2 + 6);

    static const QRegularExpression metric(u"\\bqdistlock_[a-z_]+"_s);
    for (const char *const page : {"metrics.md", "grafana.json", "prometheus-rules.yml"}) {
        QFile file(QStringLiteral(DOCUMENTS "/") + QLatin1String(page));
        QVERIFY(file.open(QIODevice::ReadOnly));
        QStringList found;
        auto matches = metric.globalMatch(QString::fromUtf8(file.readAll()));
        while (matches.hasNext())
            found.append(matches.next().captured());
        const bool isPage = QByteArray(page) == "metrics.md";
        for (const QString &name : std::as_const(found)) {
            const bool isHistogram = isPage && names.contains(name + u"_bucket"_s);
            QVERIFY2(isHistogram || names.contains(name), qPrintable(QLatin1String(page) + u": "_s + name));
        }
        for (const QString &name : std::as_const(names)) {
            const bool isOfHistogram = name.contains(u"_seconds_"_s);
            const QString documented = isOfHistogram ? name.left(name.lastIndexOf(u'_')) : name;
            QVERIFY2(!isPage || found.contains(documented), qPrintable(name));
        }
    }
}

QTEST_GUILESS_MAIN(tst_MetricsCommand)
#include "tst_metricscommand.moc"
