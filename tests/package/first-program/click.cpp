// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Presses the button of the program it is linked into, once the event loop runs.

#include <QApplication>
#include <QPushButton>
#include <QTimer>

static void clickLater()
{
    QTimer::singleShot(0, qApp, [] {
        for (QWidget *widget : QApplication::topLevelWidgets()) {
            if (auto *button = qobject_cast<QPushButton *>(widget))
                button->click();
        }
    });
}
Q_COREAPP_STARTUP_FUNCTION(clickLater)
