// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Three clients on one lock, in a window. Without --server they share a lock inside this process; start it
// twice with --server redis://127.0.0.1 and six of them share one.

#include <QDistLock/QuitOnSignals>

#include <QtCore/qcommandlineparser.h>
#include <QtGui/qguiapplication.h>
#include <QtQml/qqmlapplicationengine.h>

int main(int argc, char *argv[])
{
    QGuiApplication application(argc, argv);
    QDistLock::quitOnSignals();

    QCommandLineParser parser;
    parser.setApplicationDescription(QStringLiteral("Three clients on one lock."));
    parser.addHelpOption();
    const QCommandLineOption server(QStringLiteral("server"),
                                    QStringLiteral("Where the lock is kept."),
                                    QStringLiteral("URL"), QStringLiteral("memory:"));
    parser.addOption(server);
    parser.process(application);

    QQmlApplicationEngine engine;
    // Where linked QML modules are; the default from Qt 6.5 on.
    engine.addImportPath(QStringLiteral("qrc:/qt/qml"));
    engine.setInitialProperties({{QStringLiteral("server"), parser.value(server)}});
    QObject::connect(
            &engine, &QQmlApplicationEngine::objectCreated, &application,
            [](QObject *object) {
                if (!object)
                    QCoreApplication::exit(1);
            },
            Qt::QueuedConnection);
    engine.load(QUrl(QStringLiteral("qrc:/qt/qml/QmlStatus/Main.qml")));
    return application.exec();
}
