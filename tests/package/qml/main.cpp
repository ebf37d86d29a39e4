// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Uses the QML module that is linked into the program. Exit status 0 if it was found.

#include <QGuiApplication>
#include <QQmlComponent>
#include <QQmlEngine>

#include <memory>

int main(int argc, char **argv)
{
    QGuiApplication application(argc, argv);
    QQmlEngine engine;
    engine.addImportPath("qrc:/qt/qml");
    QQmlComponent component(&engine);
    component.setData("import QDistLock\nLockStatus { lock: DistributedLock { name: \"app\" } }", QUrl());
    const std::unique_ptr<QObject> object(component.create());
    if (!object)
        qWarning() << component.errors();
    return object ? 0 : 1;
}
