// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QDistLock/Annotations>

#include <QtCore/qlist.h>
#include <QtCore/qobject.h>

/// The sender and the receiver of the tests of calls that wait.

class Sender : public QObject
{
    Q_OBJECT
Q_SIGNALS:
    void numbered(int number);
    void keyed(const QString &name, int number);
    void named(const QString &name);

public:
    using QObject::receivers;
};

class Receiver : public QObject
{
    Q_OBJECT
    QDL_LOCKED_METHOD(few, "counter", "wait=5min; retryInterval=20ms; maxQueued=3")
    QDL_LOCKED_METHOD(newest, "counter", "wait=5min; retryInterval=20ms; onBusy=latest")
    QDL_LOCKED_METHOD(newestOfAll, "counter:{name}", "wait=5min; retryInterval=20ms; onBusy=latest")
    QDL_LOCKED_METHOD(newestSoon, "counter", "wait=500ms; retryInterval=20ms; onBusy=latest")
    QDL_LOCKED_METHOD(once, "once:{name}", "wait=5min; onBusy=skip")
    QDL_LOCKED_METHOD(moved, "counter", "wait=forever") // bursts in the log are counted by method
    QDL_LOCKED_METHOD(many, "counter", "wait=forever; maxQueued=unlimited")
    QDL_LOCKED_METHOD(soon, "counter", "wait=300ms; retryInterval=20ms; maxQueued=unlimited")
    QDL_LOCKED_METHOD(twoLocks, "first", "lease=300ms; wait=forever")
    QDL_LOCKED_METHOD(twoLocks, "second", "lease=300ms; wait=forever")

public:
    using QObject::receivers;
    QList<int> seen;

public Q_SLOTS:
    int few(int number) { return note(number); }
    int newest(int number) { return note(number); }
    int newestOfAll(const QString &name, int number)
    {
        Q_UNUSED(name)
        return note(number);
    }
    int once(const QString &name)
    {
        Q_UNUSED(name)
        return note(0);
    }
    int newestSoon(int number) { return note(number); }
    int many(int number) { return note(number); }
    int moved(int number) { return note(number); }
    int soon(int number) { return note(number); }
    int twoLocks(int number) { return note(number); }

private:
    int note(int number)
    {
        seen.append(number);
        return number;
    }
};
