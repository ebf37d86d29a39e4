// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Stands for somebody's application: links nothing of ours, loads the QML file it is given, and
// says which of our libraries came with it. Exit status 0 once the file's `done` is true.

#include <QtCore/qfile.h>
#include <QtCore/qtextstream.h>
#include <QtCore/qtimer.h>
#include <QtGui/qguiapplication.h>
#include <QtQml/qqmlapplicationengine.h>

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
        QFile maps(QStringLiteral("/proc/self/maps"));
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
