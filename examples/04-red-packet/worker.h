// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "pot.h"

#include <QDistLock/DistributedLock>
#include <QDistLock/LockRegistry>

#include <QtCore/QObject>
#include <QtCore/QSocketNotifier>

/*
    One of the "servers": draws until the pot is empty.

    On standard input: `start`; `pause` = at the next draw say so, in the middle of it, and wait for
    `go`. On standard output: `ready`, `holding TOKEN`, `drew TOKEN CENTS`, `refused TOKEN HELD`; the
    token is 0 without a lock, HELD is what isHeld() says then.
*/
class Worker : public QObject
{
    Q_OBJECT
public:
    Worker(const QUrl &server, bool locked, int number);

private:
    void next();
    void draw();
    void drawLocked();
    void readCommands();
    void pauseIfAsked(qint64 token);

    QDistLock::LockRegistry m_registry;
    QDistLock::DistributedLock m_lock;
    Pot m_pot;
    QSocketNotifier m_input;
    QByteArray m_line;
    const bool m_locked;
    const int m_number;
    bool m_empty = false;
    bool m_pause = false;
};
