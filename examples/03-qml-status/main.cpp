// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// A window with three clients of one lock. Without a server, the lock exists only inside this process. Start the
// program twice with --server redis://127.0.0.1, or with QDISTLOCK_URL set to that, and six clients compete for the
// lock.

#include <QDistLock/QuitOnSignals>

#include <QtCore/qcommandlineparser.h>
#include <QtGui/qguiapplication.h>
#include <QtQml/qqmlapplicationengine.h>

using namespace Qt::StringLiterals;

int main(int argc, char *argv[])
{
    QGuiApplication application(argc, argv);
    QDistLock::quitOnSignals();

    QCommandLineParser parser;
    parser.setApplicationDescription(u"Shows three clients of one lock."_s);
    parser.addHelpOption();
    const QCommandLineOption server(u"server"_s, u"The server of the lock. Default: QDISTLOCK_URL, or memory:."_s,
                                    u"URL"_s, qEnvironmentVariable("QDISTLOCK_URL", u"memory:"_s));
    parser.addOption(server);
    parser.process(application);

    QQmlApplicationEngine engine;
    // Qt before 6.5 does not search linked QML modules there by default.
    engine.addImportPath(u"qrc:/qt/qml"_s);
    engine.setInitialProperties({{u"server"_s, parser.value(server)}});
    QObject::connect(
            &engine, &QQmlApplicationEngine::objectCreated, &application,
            [](QObject *object) {
                if (!object)
                    QCoreApplication::exit(1);
            },
            Qt::QueuedConnection);
    engine.load(QUrl(u"qrc:/qt/qml/QmlStatus/Main.qml"_s));
    return application.exec();
}
