// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "base/readyfuture.h"

#include <QDistLock/Annotations>

#include <QtCore/qabstractitemmodel.h>
#include <QtCore/qpromise.h>
#include <QtCore/qset.h>

#include <exception>
#include <map>
#include <stdexcept>
#include <string_view>

/// The sender and the receiver of the tests of argument and return types.

using namespace Qt::StringLiterals;

/// QObject is not where the whole object begins.
class NotFirst : public std::exception, public QObject
{
};

using ObjectHash = QHash<QString, QObject *>;
using ObjectSets = QMap<int, QList<QSet<QObject *>>>;
using ObjectKeys = std::map<QObject *, int>;

class Sender : public QObject
{
    Q_OBJECT
Q_SIGNALS:
    void text(QStringView value);
    void anyText(QAnyStringView value);
    void latin1(QLatin1String value);
    void utf8(QUtf8StringView value);
    void bytes(QByteArrayView value);
    void standard(std::string_view value);
    void cString(const char *value);
    void utf16(const char16_t *value);
    void object(QObject *value);
    void variant(const QVariant &value);
    void number(int value);
    void unused(const int *value, int number);
    void hash(const ObjectHash &value);
    void sets(const ObjectSets &value);
    void keys(const ObjectKeys &value);
    void variants(const QVariantHash &value);
    void notFirst(NotFirst *value);
    void index(const QModelIndex &value);
};

class Receiver : public QObject
{
    Q_OBJECT
    QDL_LOCKED_METHOD(text, "views", "wait=5min")
    QDL_LOCKED_METHOD(anyText, "views", "wait=5min")
    QDL_LOCKED_METHOD(latin1, "views", "wait=5min")
    QDL_LOCKED_METHOD(utf8, "views", "wait=5min")
    QDL_LOCKED_METHOD(bytes, "views", "wait=5min")
    QDL_LOCKED_METHOD(standard, "views", "wait=5min")
    QDL_LOCKED_METHOD(cString, "views", "wait=5min")
    QDL_LOCKED_METHOD(utf16, "views", "wait=5min")
    QDL_LOCKED_METHOD(object, "object:{value.objectName}", "wait=5min")
    QDL_LOCKED_METHOD(slow, "slow", "wait=5min")
    QDL_LOCKED_METHOD(slowVoid, "slow", "wait=5min")
    QDL_LOCKED_METHOD(slowOther, "slow", "wait=5min")
    QDL_LOCKED_METHOD(slowVariant, "slow", "wait=5min")
    QDL_LOCKED_METHOD(slowList, "slow", "wait=5min")
    QDL_LOCKED_METHOD(slowMap, "slow", "wait=5min")
    QDL_LOCKED_METHOD(throwing, "slow", "wait=5min")
    QDL_LOCKED_METHOD(hash, "objects", "wait=5min")
    QDL_LOCKED_METHOD(sets, "objects", "wait=5min")
    QDL_LOCKED_METHOD(keys, "objects", "wait=5min")
    QDL_LOCKED_METHOD(variantHash, "objects", "wait=5min")
    QDL_LOCKED_METHOD(notFirst, "object:{value.objectName}", "wait=5min")
    QDL_LOCKED_METHOD(index, "index", "wait=5min")
    QDL_LOCKED_METHOD(byteArray, "views", "wait=5min")
public:
    QStringList seen;
    QList<int> begun;
    QPromise<int> promise;
    QPromise<void> promiseVoid;

    void note(const QString &value) { seen.append(value); }

    struct Unregistered
    {
    };

public Q_SLOTS:
    void text(QStringView value) { note(value.toString()); }
    void anyText(QAnyStringView value) { note(value.toString()); }
    void latin1(QLatin1String value) { note(value); }
    void utf8(QUtf8StringView value) { note(value.toString()); }
    void bytes(QByteArrayView value) { note(QString::fromUtf8(value)); }
    void standard(std::string_view value) { note(QString::fromUtf8(value.data(), qsizetype(value.size()))); }
    void cString(const char *value) { note(value ? QString::fromUtf8(value) : u"(null)"_s); }
    void utf16(const char16_t *value) { note(value ? QString::fromUtf16(value) : u"(null)"_s); }
    void object(QObject *value) { note(value ? value->objectName() : u"(null)"_s); }

    void hash(const ObjectHash &value) { note(value.begin().value()->objectName()); }
    void sets(const ObjectSets &value) { note((*value.first().first().begin())->objectName()); }
    void keys(const ObjectKeys &value) { note(value.begin()->first->objectName()); }
    void variantHash(const QVariantHash &value) { note(value.begin().value().value<QObject *>()->objectName()); }
    void notFirst(NotFirst *value) { note(value->objectName()); }
    void index(const QModelIndex &value) { note(value.data().toString()); }
    QByteArray byteArray(const QByteArray &value) { return value; }

    QFuture<int> slow(int value)
    {
        begun.append(value);
        promise = QPromise<int>();
        promise.start();
        return promise.future();
    }
    QFuture<void> slowVoid(int value)
    {
        begun.append(value);
        promiseVoid = QPromise<void>();
        promiseVoid.start();
        return promiseVoid.future();
    }
    QFuture<Receiver::Unregistered> slowOther()
    {
        begun.append(0);
        return QDistLock::readyFuture(Unregistered());
    }
    QFuture<QVariant> slowVariant(const QVariant &value) { return QDistLock::readyFuture(value); }
    QFuture<QStringList> slowList() { return QDistLock::readyFuture(QStringList{u"a"_s}); }
    QFuture<QVariantMap> slowMap() { return QDistLock::readyFuture(QVariantMap{{u"a"_s, 1}}); }
    QFuture<int> throwing(int value)
    {
        begun.append(value);
        throw std::runtime_error("thrown");
    }
};
