// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "support/redisserver.h"

#include <QDistLock/Annotations>
#include <QDistLock/DistributedLock>
#include <QDistLock/LockRegistry>

#include <QtCore/qpointer.h>
#include <QtCore/qregularexpression.h>
#include <QtCore/qthread.h>
#include <QtQml/qqmlcomponent.h>
#include <QtQml/qqmlcontext.h>
#include <QtQml/qqmlengine.h>
#include <QtTest/qtest.h>

#include <memory>
#include <stdexcept>

using namespace QDistLock;
using Support::RedisServer;

constexpr int Patience = 20000;

/// What an application gives to its QML.
class Backend : public QObject
{
    Q_OBJECT
    QDL_LOCKED_METHOD(ship, "order:{id}", "lease=5s")
    QDL_LOCKED_METHOD(note, "notes")
    QDL_LOCKED_METHOD(skipped, "order:{id}", "onBusy=skip")
    QDL_LOCKED_METHOD(failing, "order:{id}", "onBusy=fail")
    QDL_LOCKED_METHOD(throwing, "notes")
    QDL_LOCKED_METHOD(broken, "order:{nobody}")

public:
    QStringList calls;
    QVariantList given;

    Q_INVOKABLE QVariantMap ship(const QString &id)
    {
        calls += QStringLiteral("ship ") + id;
        return {{QStringLiteral("id"), id},
                {QStringLiteral("locked"), isLockedHere(QStringLiteral("order:") + id)}};
    }
    Q_INVOKABLE int skipped(const QString &id)
    {
        calls += QStringLiteral("skipped ") + id;
        return 1;
    }
    Q_INVOKABLE int failing(const QString &id)
    {
        calls += QStringLiteral("failing ") + id;
        return 2;
    }
    Q_INVOKABLE void throwing() { throw std::runtime_error("out of paper"); }
    Q_INVOKABLE void broken(const QString &id) { calls += id; }
    Q_INVOKABLE void plain() { calls += QStringLiteral("plain"); }

public Q_SLOTS:
    void note(int number, double fraction, bool flag, const QStringList &words, QObject *object)
    {
        given = {number, fraction, flag, words, QVariant::fromValue(object)};
    }
};

class TestInvokeLocked : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void initTestCase();
    void init();
    void cleanup();

    void resultUnderTheLock();
    void argumentsAndVoid();
    void busy_data();
    void busy();
    void waitsItsTurn();
    void mistakes_data();
    void mistakes();
    void exceptionRejects();
    void objectDestroyedWhileWaiting();
    void engineDestroyedWhileWaiting();
    void receiverInAnotherThread();
    void asWorkOfAnAction();

private:
    /// `heard` is how the promise of \a expression ended.
    void evaluate(const QByteArray &expression);
    QString heard() const { return m_root->property("heard").toString(); }
    QByteArray key() const { return "lock:order:" + m_id; }
    bool hold() { return m_server.cli({"SET", key(), "foreign", "NX", "PX", "60000"}) == "OK"; }

    RedisServer m_server;
    QByteArray m_id;
    int m_count = 0;
    QStringList m_warnings;
    std::unique_ptr<Backend> m_backend;
    std::unique_ptr<QQmlEngine> m_engine;
    std::unique_ptr<QObject> m_root;
};

void TestInvokeLocked::initTestCase()
{
    QVERIFY2(m_server.start(), qPrintable(m_server.errorString()));
    LockRegistry::setDefaultServer(m_server.url());
}

void TestInvokeLocked::init()
{
    m_id = "o" + QByteArray::number(++m_count);
    m_warnings.clear();
    m_backend = std::make_unique<Backend>();
}

void TestInvokeLocked::cleanup()
{
    m_root.reset();
    m_engine.reset();
    m_backend.reset();
    QCOMPARE(m_warnings, QStringList());
}

void TestInvokeLocked::evaluate(const QByteArray &expression)
{
    m_root.reset();
    m_engine = std::make_unique<QQmlEngine>();
    m_engine->addImportPath(QStringLiteral(QML_MODULE_DIR));
    connect(m_engine.get(), &QQmlEngine::warnings, this, [this](const QList<QQmlError> &errors) {
        for (const QQmlError &error : errors)
            m_warnings += error.toString();
    });
    m_engine->rootContext()->setContextProperty(QStringLiteral("backend"), m_backend.get());
    QQmlComponent component(m_engine.get());
    component.setData("import QtQml\nimport QDistLock\n"
                      "QtObject {\n"
                      "    id: root\n"
                      "    property string heard\n"
                      "    property QtObject action: LockedAction { name: 'outer' }\n"
                      "    function show(promise) {\n"
                      "        promise.then(value => heard = 'resolved ' + JSON.stringify(value),\n"
                      "                     reason => heard = 'rejected ' + reason.error + ' ' + reason);\n"
                      "    }\n"
                      "    Component.onCompleted: show("
                              + expression + ")\n}\n",
                      QUrl());
    m_root.reset(component.create());
    if (!m_root)
        qFatal("%s", qPrintable(component.errorString()));
    QCOMPARE(heard(), QString()); // never from inside the call
}

void TestInvokeLocked::resultUnderTheLock()
{
    evaluate("DistributedLocks.invokeLocked(backend, 'ship', ['" + m_id + "'])");
    QTRY_VERIFY_WITH_TIMEOUT(!heard().isEmpty(), Patience);
    QCOMPARE(heard(), QStringLiteral("resolved {\"id\":\"%1\",\"locked\":true}").arg(QLatin1String(m_id)));
    QTRY_VERIFY_WITH_TIMEOUT(!m_server.exists(key()), Patience);
}

void TestInvokeLocked::argumentsAndVoid()
{
    evaluate("DistributedLocks.invokeLocked(backend, 'note', [7, 2.5, true, ['a', 'b'], backend])");
    QTRY_VERIFY_WITH_TIMEOUT(!heard().isEmpty(), Patience);
    QCOMPARE(heard(), QStringLiteral("resolved undefined"));
    const QVariantList expected{7, 2.5, true, QStringList{QStringLiteral("a"), QStringLiteral("b")},
                                QVariant::fromValue<QObject *>(m_backend.get())};
    QCOMPARE(m_backend->given, expected);
}

void TestInvokeLocked::busy_data()
{
    QTest::addColumn<QByteArray>("method");
    QTest::addColumn<QString>("expected");
    QTest::newRow("skip") << QByteArray("skipped") << "resolved undefined";
    QTest::newRow("fail") << QByteArray("failing")
                          << QStringLiteral("rejected %1 Error: ").arg(DistributedLock::BusyError);
}

void TestInvokeLocked::busy()
{
    QFETCH(QByteArray, method);
    QFETCH(QString, expected);
    QVERIFY(hold());
    if (method == "failing") {
        QTest::ignoreMessage(QtInfoMsg, QRegularExpression(QStringLiteral("Backend::failing: Lock \"order:%1\"")
                                                                   .arg(QLatin1String(m_id))));
    }
    evaluate("DistributedLocks.invokeLocked(backend, '" + method + "', ['" + m_id + "'])");
    QTRY_VERIFY_WITH_TIMEOUT(!heard().isEmpty(), Patience);
    QVERIFY2(heard().startsWith(expected), qPrintable(heard()));
    if (method == "failing")
        QVERIFY2(heard().contains(QLatin1String("order:" + m_id)), qPrintable(heard()));
    QCOMPARE(m_backend->calls, QStringList());
    QCOMPARE(m_server.get(key()), QByteArrayLiteral("foreign"));
}

void TestInvokeLocked::waitsItsTurn()
{
    QVERIFY(hold());
    evaluate("DistributedLocks.invokeLocked(backend, 'ship', ['" + m_id + "'])");
    QTRY_VERIFY_WITH_TIMEOUT(m_server.exists("{" + key() + "}:queue"), Patience);
    QCOMPARE(heard(), QString());
    m_server.cli({"DEL", key()});
    QTRY_VERIFY_WITH_TIMEOUT(heard().startsWith(QLatin1String("resolved")), Patience);
    QCOMPARE(m_backend->calls.size(), 1);
}

void TestInvokeLocked::mistakes_data()
{
    QTest::addColumn<QByteArray>("call");
    QTest::addColumn<QString>("named");
    QTest::newRow("no annotation") << QByteArray("backend, 'plain'") << "plain";
    QTest::newRow("no such method") << QByteArray("backend, 'nobody', []") << "nobody";
    QTest::newRow("too few arguments") << QByteArray("backend, 'ship', []") << "ship";
    QTest::newRow("broken annotation") << QByteArray("backend, 'broken', ['x']") << "nobody";
    QTest::newRow("no object") << QByteArray("null, 'ship', ['x']") << "null";
}

void TestInvokeLocked::mistakes()
{
    QFETCH(QByteArray, call);
    QFETCH(QString, named);
    QTest::ignoreMessage(QtWarningMsg, QRegularExpression(named));
    evaluate("DistributedLocks.invokeLocked(" + call + ")");
    QTRY_VERIFY_WITH_TIMEOUT(!heard().isEmpty(), Patience);
    QVERIFY2(heard().startsWith(QStringLiteral("rejected %1 Error: ").arg(DistributedLock::OptionsError)),
             qPrintable(heard()));
    QVERIFY2(heard().contains(named), qPrintable(heard()));
    QCOMPARE(m_backend->calls, QStringList());
}

void TestInvokeLocked::exceptionRejects()
{
    // Whether or not anybody handles the rejection, the log has it.
    QTest::ignoreMessage(QtInfoMsg, QRegularExpression(QStringLiteral("Backend::throwing: Lock \"notes\".*out of paper")));
    evaluate("DistributedLocks.invokeLocked(backend, 'throwing')");
    QTRY_VERIFY_WITH_TIMEOUT(!heard().isEmpty(), Patience);
    QCOMPARE(heard(), QStringLiteral("rejected undefined Error: out of paper"));
    QTRY_VERIFY_WITH_TIMEOUT(!m_server.exists("lock:notes"), Patience);
}

void TestInvokeLocked::objectDestroyedWhileWaiting()
{
    QVERIFY(hold());
    evaluate("DistributedLocks.invokeLocked(backend, 'ship', ['" + m_id + "'])");
    QTRY_VERIFY_WITH_TIMEOUT(m_server.exists("{" + key() + "}:queue"), Patience);
    m_backend.reset();
    QTRY_VERIFY_WITH_TIMEOUT(!heard().isEmpty(), Patience);
    QVERIFY2(heard().startsWith(QStringLiteral("rejected %1 Error: ").arg(DistributedLock::CancelledError)),
             qPrintable(heard()));
    QTRY_VERIFY_WITH_TIMEOUT(!m_server.exists("{" + key() + "}:queue"), Patience);
}

void TestInvokeLocked::engineDestroyedWhileWaiting()
{
    QVERIFY(hold());
    evaluate("DistributedLocks.invokeLocked(backend, 'ship', ['" + m_id + "'])");
    QTRY_VERIFY_WITH_TIMEOUT(m_server.exists("{" + key() + "}:queue"), Patience);
    m_root.reset();
    m_engine.reset();
    m_server.cli({"DEL", key()});
    QTRY_COMPARE_WITH_TIMEOUT(m_backend->calls.size(), 1, Patience); // it was asked for
    QTRY_VERIFY_WITH_TIMEOUT(!m_server.exists(key()), Patience);
}

/// Each of its futures is finished by the one thread while the other one hears of it.
void TestInvokeLocked::receiverInAnotherThread()
{
    QThread thread;
    thread.start();
    m_backend->moveToThread(&thread);
    for (int round = 0; round < 5; ++round) {
        evaluate("Promise.all(Array.from({ length: 1000 }, (unused, i) =>\n"
                 "        DistributedLocks.invokeLocked(backend, 'ship', ['" + m_id + "-' + i])))\n"
                 "    .then(all => all.filter(each => each.locked).length)");
        QTRY_VERIFY_WITH_TIMEOUT(!heard().isEmpty(), Patience);
        QCOMPARE(heard(), QStringLiteral("resolved 1000"));
    }
    QTRY_COMPARE_WITH_TIMEOUT(m_server.keys("lock:order:" + m_id + "*"), QList<QByteArray>(), Patience);
    thread.quit();
    QVERIFY(thread.wait());
    QCOMPARE(m_backend->calls.size(), 5000);
}

void TestInvokeLocked::asWorkOfAnAction()
{
    evaluate("(action.work = () => DistributedLocks.invokeLocked(backend, 'ship', ['" + m_id
             + "']), action.run())");
    QTRY_VERIFY_WITH_TIMEOUT(!heard().isEmpty(), Patience);
    QVERIFY2(heard().startsWith(QLatin1String("resolved {")), qPrintable(heard()));
    QTRY_VERIFY_WITH_TIMEOUT(!m_server.exists("lock:outer") && !m_server.exists(key()), Patience);
}

QTEST_MAIN(TestInvokeLocked)

#include "tst_invokelocked.moc"
