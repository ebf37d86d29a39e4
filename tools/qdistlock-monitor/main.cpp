// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// qdistlock-monitor: a window with all locks of a server.

#include <QDistLock/LockRegistry>
#include <QDistLock/QuitOnSignals>
#include <QDistLock/qdistlockversion.h>

#include <QtCore/qcommandlineparser.h>
#include <QtCore/qurl.h>
#include <QtGui/qguiapplication.h>
#include <QtQml/qqmlapplicationengine.h>

using namespace Qt::StringLiterals;

int main(int argc, char *argv[])
{
    QGuiApplication application(argc, argv);
    QCoreApplication::setApplicationName(u"qdistlock-monitor"_s);
    QCoreApplication::setApplicationVersion(QStringLiteral(QDISTLOCK_VERSION_STRING));
    QDistLock::quitOnSignals();

    QCommandLineParser parser;
    parser.setApplicationDescription(
            u"Shows all locks of a server: who holds them, for how long yet, and who waits."_s);
    parser.addHelpOption();
    parser.addVersionOption();
    const QCommandLineOption server(u"server"_s,
                                    u"Server of the locks. Default: QDISTLOCK_URL, or redis://127.0.0.1:6379."_s,
                                    u"URL"_s, QDistLock::LockRegistry::defaultServer().toString());
    const QCommandLineOption prefix(u"prefix"_s, u"What the keys of the locks begin with. Default: lock:"_s, u"text"_s);
    const QCommandLineOption pattern(u"pattern"_s, u"Only locks whose name matches this glob. Default: all."_s,
                                     u"glob"_s, u"*"_s);
    const QCommandLineOption readOnly(u"read-only"_s, u"Without the button that takes a lock away from its holder."_s);
    parser.addOptions({server, prefix, pattern, readOnly});
    parser.process(application);

    const QString url = parser.value(server);
    QVariantMap properties{{u"server"_s, url},
                           {u"serverText"_s, QDistLock::LockRegistry(QUrl(url, QUrl::StrictMode)).server().toString()},
                           {u"pattern"_s, parser.value(pattern)},
                           {u"readOnly"_s, parser.isSet(readOnly)}};
    if (parser.isSet(prefix))
        properties.insert(u"keyPrefix"_s, parser.value(prefix));

    QQmlApplicationEngine engine;
    // Qt before 6.5 does not search linked QML modules there by default.
    engine.addImportPath(u"qrc:/qt/qml"_s);
    engine.setInitialProperties(properties);
    QObject::connect(
            &engine, &QQmlApplicationEngine::objectCreated, &application,
            [](QObject *object) {
                if (!object)
                    QCoreApplication::exit(1);
            },
            Qt::QueuedConnection);
    engine.load(QUrl(u"qrc:/qt/qml/QDistLockMonitor/Main.qml"_s));
    return application.exec();
}
