// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "annotations/valuepath.h"

#include <QDistLock/Annotations>

#include <QtCore/quuid.h>

#include <array>
#include <functional>

/// Gadgets, objects and an annotated class, and a call of one of its methods.

using namespace Qt::StringLiterals;

struct Address
{
    Q_GADGET
    Q_PROPERTY(QString city MEMBER city)
    Q_PROPERTY(QVariant anything MEMBER anything)
public:
    QString city;
    QVariant anything;

    friend bool operator!=(const Address &a, const Address &b) { return a.city != b.city || a.anything != b.anything; }
};

struct Order
{
    Q_GADGET
    Q_PROPERTY(int number MEMBER number)
    Q_PROPERTY(bool urgent MEMBER urgent)
    Q_PROPERTY(Kind kind MEMBER kind)
    Q_PROPERTY(Address address MEMBER address)
    Q_PROPERTY(Address *previous MEMBER previous)
public:
    enum class Kind { Small, Large = 7 };
    Q_ENUM(Kind)
    enum Mark : quint8 { Fragile = 1, Frozen = 2 };
    Q_DECLARE_FLAGS(Marks, Mark)
    Q_FLAG(Marks)
    enum class Long : qint64 { None = -1, Most = 0xFFFFFFFFLL }; // moc keeps the lower 32 bits
    Q_ENUM(Long)

    int number = 42;
    bool urgent = false;
    Kind kind = Kind::Large;
    Address address{u"Köln"_s, QVariant()};
    Address *previous = nullptr;

    friend bool operator!=(const Order &a, const Order &b) { return a.number != b.number; }
};

enum Unregistered { First, Third = 3 };

Q_DECLARE_METATYPE(Address *)
Q_DECLARE_METATYPE(Order *)
Q_DECLARE_METATYPE(Unregistered)

class Customer : public QObject
{
    Q_OBJECT
    Q_PROPERTY(QString id MEMBER id)
    Q_PROPERTY(Customer *partner MEMBER partner)
    Q_PROPERTY(Order order MEMBER order)
public:
    QString id = u"C1"_s;
    Customer *partner = nullptr;
    Order order;
};

class Shop : public QObject
{
    Q_OBJECT
    Q_PROPERTY(QString tenant MEMBER tenant)
    Q_PROPERTY(bool enabled MEMBER enabled)
    Q_PROPERTY(Customer *owner MEMBER owner)
    QDL_LOCKED_METHOD(ship, "order:{id}", "wait=2s; lease=30s; onBusy=skip")
    QDL_LOCKED_METHOD(pay, "pay:{this.tenant}:{order.number}")
    QDL_LOCKED_METHOD(pay, "till", "server=memory:till")
    QDL_LOCKED_METHOD(quiet, "quiet")
    QDL_LOCKED_METHOD(unnamed, "{1}:{2.number}")
    QDL_LOCKED_METHOD(defaulted, "d:{id}")
    QDL_LOCKED_METHOD(move, "shelf:{from}", "mode=read; wait=1s")
    QDL_LOCKED_METHOD(move, "shelf:{to}", "mode=write; wait=2s")
    QDL_LOCKED_METHOD(load, "dock:{one}", "permits=server")
    QDL_LOCKED_METHOD(load, "dock:{two}", "permits=5; take=2")
    QDL_LOCKED_METHOD(load, "dock:{all}")
public:
    Q_INVOKABLE int quiet() const noexcept { return 1; }
    int notASlot(int) { return 0; }

    QString tenant = u"acme"_s;
    bool enabled = true;
    Customer *owner = nullptr;

public Q_SLOTS:
    void ship(const QString &id) { Q_UNUSED(id) }
    void ship(int id) { Q_UNUSED(id) }
    void pay(const Order &order) { Q_UNUSED(order) }
    void unnamed(int, const Order &) {}
    void defaulted(int id, bool really = true)
    {
        Q_UNUSED(id)
        Q_UNUSED(really)
    }
    void move(int from, int to)
    {
        Q_UNUSED(from)
        Q_UNUSED(to)
    }
    void load(int one, int two, int all)
    {
        Q_UNUSED(one)
        Q_UNUSED(two)
        Q_UNUSED(all)
    }
    void free(const QString &id) { Q_UNUSED(id) }
    virtual void audit(int year) { Q_UNUSED(year) }
    void inherited(int count) { Q_UNUSED(count) }

private Q_SLOTS:
    void hidden() {}
};

/// A call of a method (id, order, orderPointer, customer, variant, uuid) of a Shop.
struct Call
{
    Call()
    {
        shop.owner = &customer;
        customer.partner = nullptr;
        types = {QMetaType::fromType<QString>(),    QMetaType::fromType<Order>(),    QMetaType::fromType<Order *>(),
                 QMetaType::fromType<Customer *>(), QMetaType::fromType<QVariant>(), QMetaType::fromType<QUuid>()};
        values = {&id, &order, &orderPointer, &customerPointer, &variant, &uuid};
        names = {"id", "order", "pointer", "customer", "variant", "uuid"};
    }
    QDistLock::CallArguments arguments() const { return {&shop, types.size(), types.constData(), values.data()}; }
    QDistLock::MethodSignature signature() const { return {&Shop::staticMetaObject, names, types}; }

    Shop shop;
    Customer customer;
    QString id = u"4711"_s;
    Order order;
    Order *orderPointer = &order;
    Customer *customerPointer = &customer;
    QVariant variant = 1.5;
    QUuid uuid{u"{67c8770b-44f1-410a-ab9a-f9b5446f13ee}"_s};
    QList<QMetaType> types;
    std::array<const void *, 6> values;
    QList<QByteArray> names;
};

/// The error of \a parse; empty if it succeeds.
inline QString error(const std::function<bool(QString *)> &parse)
{
    QString text;
    return parse(&text) ? QString() : text;
}
