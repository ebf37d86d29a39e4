// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

//! [first-program]
#include <QDistLock/Annotations>
#include <QDistLock/QuitOnSignals>

#include <QApplication>
#include <QDebug>
#include <QPushButton>

using QDistLock::connectLocked;
using QDistLock::withArguments;

class Orders : public QObject
{
    Q_OBJECT

public:
    QDL_LOCKED_METHOD(ship, "order:{id}", "wait=2s")
    Q_SLOT void ship(const QString &id) { qInfo() << "shipping" << id << "and nobody else is"; }
};

int main(int argc, char **argv)
{
    QApplication application(argc, argv);
    QDistLock::quitOnSignals(); // Ctrl+C releases the locks, too

    Orders orders;
    QPushButton button("Ship order 42");
    connectLocked(&button, &QPushButton::clicked, &orders, &Orders::ship, withArguments(QString("42")));
    button.show();
    return application.exec();
}

#include "main.moc"
//! [first-program]
