// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "pot.h"

#include <QDistLock/DistributedLock>
#include <QDistLock/LockRegistry>

#include <QtCore/QObject>
#include <QtCore/QSocketNotifier>

/*
    One of the processes: draws from the pot until it is empty.

    It reads commands from standard input: `start`; `pause` (in the middle of the next draw, report `holding` and wait
    for
    `go`); `go`. It ends when standard input is closed. It reports on standard output: `ready`, `holding TOKEN`, `drew
    TOKEN CENTS`, `refused TOKEN HELD`. TOKEN is 0 in a round without the lock; HELD is the value of isHeld() at that
    moment.
*/
class Worker : public QObject
{
    Q_OBJECT
public:
    Worker(const QUrl &server, const QUrl &locks, bool locked, int number);

private:
    void next();
    void draw();
    void drawLocked();
    void readCommands();
    void pauseIfRequested(qint64 token);

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
