// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// An application that links none of the QDistLock libraries. It loads the QML file given as its argument, waits until
// the property `done` is true, prints the QDistLock libraries that are loaded, and exits with status 0.

#include <QtCore/qfile.h>
#include <QtCore/qtextstream.h>
#include <QtCore/qtimer.h>
#include <QtGui/qguiapplication.h>
#include <QtQml/qqmlapplicationengine.h>

using namespace Qt::StringLiterals;

int main(int argc, char *argv[])
{
    QGuiApplication application(argc, argv);
    QQmlApplicationEngine engine(application.arguments().value(1));
    if (engine.rootObjects().isEmpty())
        return 1;

    QTimer poll;
    QObject::connect(&poll, &QTimer::timeout, &application, [&engine] {
        if (!engine.rootObjects().constFirst()->property("done").toBool())
            return;
        QTextStream output(stdout);
        QFile maps(u"/proc/self/maps"_s);
        if (maps.open(QIODevice::ReadOnly)) {
            const QList<QByteArray> lines = maps.readAll().split('\n');
            for (const QByteArray &line : lines) {
                const qsizetype slash = line.indexOf('/');
                if (slash >= 0 && line.contains("QDistLock"))
                    output << line.mid(slash) << '\n';
            }
        }
        QCoreApplication::exit(0);
    });
    poll.start(20);
    return application.exec();
}
