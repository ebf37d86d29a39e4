// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Two ways to run work under a lock from QML: LockedAction for the button that builds a report, and
// DistributedLocks.invokeLocked() for an annotated C++ slot. Set QDISTLOCK_URL to a Redis server and start the program
// twice: the windows wait for each other. With --demo it presses its buttons itself.

#include <QDistLock/Annotations>
#include <QDistLock/LockRegistry>
#include <QDistLock/QuitOnSignals>

#include <QtCore/QCommandLineParser>
#include <QtGui/QGuiApplication>
#include <QtQml/QQmlApplicationEngine>

using namespace Qt::StringLiterals;

class Orders : public QObject
{
    Q_OBJECT
public:
    QDL_LOCKED_METHOD(ship, "order:{id}", "wait=5s")
    Q_SLOT QString ship(const QString &id);
};

QString Orders::ship(const QString &id)
{
    QDL_ASSERT_LOCKED(u"order:"_s + id); // catches direct calls, which are not locked
    return tr("Order %1 is shipped").arg(id);
}

int main(int argc, char **argv)
{
    QGuiApplication application(argc, argv);
    QDistLock::quitOnSignals();
    if (!qEnvironmentVariableIsSet("QDISTLOCK_URL"))
        QDistLock::LockRegistry::setDefaultServer(QUrl(u"memory:"_s)); // locks inside this process; needs no server

    QCommandLineParser parser;
    parser.addHelpOption();
    const QCommandLineOption demo(u"demo"_s, u"Press the buttons and exit."_s);
    parser.addOption(demo);
    parser.process(application);

    Orders orders;
    QQmlApplicationEngine engine;
    engine.addImportPath(u"qrc:/qt/qml"_s); // Qt before 6.5 does not search linked QML modules there by default
    engine.setInitialProperties({{u"orders"_s, QVariant::fromValue(&orders)}, {u"demo"_s, parser.isSet(demo)}});
    QObject::connect(
            &engine, &QQmlApplicationEngine::objectCreated, &application,
            [](QObject *object) {
                if (!object)
                    QCoreApplication::exit(1);
            },
            Qt::QueuedConnection);
    engine.load(QUrl(u"qrc:/qt/qml/QmlActions/Main.qml"_s));
    return application.exec();
}

#include "main.moc"
