// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QDistLock/Annotations>

#include <QtCore/qlist.h>
#include <QtCore/qobject.h>
#include <QtCore/qpointer.h>

#include <functional>
#include <utility>

/// The sender and the receiver of the tests of connectLocked().

using namespace Qt::StringLiterals;

struct Order
{
    Q_GADGET
    Q_PROPERTY(int number MEMBER number)
    Q_PROPERTY(bool urgent MEMBER urgent)
public:
    int number = 0;
    bool urgent = false;
};

class Sender : public QObject
{
    Q_OBJECT
Q_SIGNALS:
    void numbered(int number);
    void named(const QString &name, int number);
    void ordered(const Order &order);
    void fired();
    void sent(Sender *sender);
    void turned(Qt::Orientation orientation);
    void checked(bool on);
};

class Receiver : public QObject
{
    Q_OBJECT
    Q_PROPERTY(QString tenant MEMBER tenant)
    Q_PROPERTY(bool guarded MEMBER guarded)
    QDL_LOCKED_METHOD(add, "counter", "wait=5min; retryInterval=20ms")
    QDL_LOCKED_METHOD(tryAdd, "counter", "onBusy=skip")
    QDL_LOCKED_METHOD(mustAdd, "counter", "onBusy=fail")
    QDL_LOCKED_METHOD(soonAdd, "counter", "wait=300ms; retryInterval=20ms")
    QDL_LOCKED_METHOD(keyed, "{name}/{this.tenant}", "wait=5min; retryInterval=20ms")
    QDL_LOCKED_METHOD(ordered, "order:{order.number}", "condition=order.urgent; onBusy=fail")
    QDL_LOCKED_METHOD(guardedAdd, "guarded", "condition=this.guarded; onBusy=fail")
    QDL_LOCKED_METHOD(twoLocks, "first", "wait=5min; retryInterval=20ms")
    QDL_LOCKED_METHOD(twoLocks, "second", "wait=5min; retryInterval=20ms")
    QDL_LOCKED_METHOD(twoLocksReversed, "second", "wait=5min; retryInterval=20ms")
    QDL_LOCKED_METHOD(twoLocksReversed, "first", "wait=5min; retryInterval=20ms")
    QDL_LOCKED_METHOD(lost, "lost", "wait=5min; retryInterval=20ms")
    QDL_LOCKED_METHOD(renewed, "renewed", "lease=500ms; wait=1min")
    QDL_LOCKED_METHOD(elsewhere, "elsewhere", "server=memory:elsewhere")
    QDL_LOCKED_METHOD(broken, "counter:{nr}")
    QDL_LOCKED_METHOD(badServer, "x", "server=redis://user:topsecret@127.0.0.1:1; wait=100ms")
    QDL_LOCKED_METHOD(sent, "sent", "wait=5min; retryInterval=20ms")
    QDL_LOCKED_METHOD(numbered, "number:{number}")
    QDL_LOCKED_METHOD(viewed, "view:{name}")

public:
    QString tenant = u"acme"_s;
    bool guarded = true;
    QList<int> seen;
    QStringList keys;
    std::function<void()> body;
    bool running = false;
    int overlaps = 0;

    void note(int number, const QString &lock = {})
    {
        if (std::exchange(running, true))
            ++overlaps;
        const QPointer<Receiver> alive(this);
        seen.append(number);
        if (!lock.isEmpty() && !QDistLock::isLockedHere(lock))
            ++overlaps;
        if (const auto now = body)
            now();
        if (alive)
            running = false;
    }

    Q_INVOKABLE int sum(int a, int b) { return a + b; }

public Q_SLOTS:
    void add(int number) { note(number, u"counter"_s); }
    void tryAdd(int number) { note(number, u"counter"_s); }
    void mustAdd(int number) { note(number, u"counter"_s); }
    void soonAdd(int number) { note(number, u"counter"_s); }
    void keyed(const QString &name, int number)
    {
        keys.append(name);
        note(number, name + u'/' + tenant);
    }
    void ordered(const Order &order) { note(QDistLock::isLockedHere(u"order:%1"_s.arg(order.number)) ? 1 : 0); }
    void guardedAdd(int number)
    {
        Q_UNUSED(number)
        note(QDistLock::isLockedHere(u"guarded"_s) ? 1 : 0);
    }
    void twoLocks(int number)
    {
        note(number, u"first"_s);
        if (!QDistLock::isLockedHere(u"second"_s))
            ++overlaps;
    }
    void twoLocksReversed(int number)
    {
        note(number, u"first"_s);
        if (!QDistLock::isLockedHere(u"second"_s))
            ++overlaps;
    }
    void lost(int number) { note(number, u"lost"_s); }
    void renewed() { note(0, u"renewed"_s); }
    void elsewhere()
    {
        note(QDistLock::isLockedHere(QDistLock::LockAddress(u"elsewhere"_s).withServer(QUrl(u"memory:elsewhere"_s)))
                     ? 1
                     : 0);
    }
    void broken(int number) { note(number); }
    void badServer() { note(0); }
    void free(int number) { note(number); }
    void sent(Sender *sender) { note(sender ? 1 : 0); }
    void numbered(int number) { note(number, u"number:%1"_s.arg(number)); }
    void viewed(QStringView name) { note(int(name.size()), u"view:"_s + name.toString()); }
};
