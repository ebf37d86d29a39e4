// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "qmllockmonitormodel.h"

#include "serverurl.h"

#include <QDistLock/lockregistry.h>

#include <QtCore/qfuture.h>
#include <QtCore/qpointer.h>
#include <QtCore/qurl.h>
#include <QtCore/qvariant.h>

#include <cmath>
#include <utility>

using namespace Qt::StringLiterals;

namespace QDistLock {

/// JavaScript has all whole numbers up to this one.
constexpr double LargestExact = 9'007'199'254'740'992;

constexpr auto TooEarly = "the component is not complete yet"_L1;

template<typename T>
static QFuture<LockReply<T>> refused(const QString &why)
{
    return QtFuture::makeReadyFuture(LockReply<T>{{}, DistributedLock::OptionsError, u"LockMonitorModel: "_s + why});
}

static QVariantMap toMap(const LockClient &client)
{
    return {{u"id"_s, client.id},
            {u"host"_s, client.host},
            {u"pid"_s, client.pid},
            {u"application"_s, client.application},
            {u"connected"_s, client.connected},
            {u"text"_s, client.toString()}};
}

QmlLockMonitorModel::QmlLockMonitorModel(QObject *parent)
    : LockMonitorModel(parent)
{
}

void QmlLockMonitorModel::setServer(const QString &server)
{
    if (m_server == server)
        return;
    m_server = server;
    const QPointer<QmlLockMonitorModel> alive(this);
    useServer();
    if (alive)
        Q_EMIT serverChanged();
}

void QmlLockMonitorModel::setKeyPrefix(const QString &prefix)
{
    const bool isUsed = m_registry && m_registry->keyPrefix() == prefix;
    m_keyPrefix = prefix;
    if (!isUsed)
        useServer();
}

void QmlLockMonitorModel::resetKeyPrefix()
{
    if (std::exchange(m_keyPrefix, std::nullopt))
        useServer();
}

void QmlLockMonitorModel::setIntervalMs(int interval)
{
    const int former = intervalMs();
    setInterval(std::chrono::milliseconds(interval));
    if (intervalMs() != former)
        Q_EMIT intervalChanged();
}

void QmlLockMonitorModel::componentComplete()
{
    m_isComplete = true;
    useServer();
}

/// Slots of the application run in here, and may destroy the model.
void QmlLockMonitorModel::useServer()
{
    const QPointer<QmlLockMonitorModel> alive(this);
    if (m_isComplete) {
        if (m_registry)
            m_registry.release()->deleteLater(); // one of its signals may have led here
        const QUrl url = serverUrl(m_server);
        m_registry = std::make_unique<LockRegistry>(url);
        m_registry->setKeyPrefix(m_keyPrefix ? *m_keyPrefix : LockRegistry::instance(url)->keyPrefix());
        setRegistry(m_registry.get());
    }
    if (alive && std::exchange(m_notifiedKeyPrefix, keyPrefix()) != keyPrefix())
        Q_EMIT keyPrefixChanged();
}

QJSValue QmlLockMonitorModel::waiters(const QString &name)
{
    const auto convert = [](QJSEngine *engine, const QList<LockWaiter> &waiters) {
        QVariantList list;
        for (const LockWaiter &waiter : waiters) {
            list.append(QVariantMap{{u"position"_s, waiter.position},
                                    {u"client"_s, toMap(waiter.client)},
                                    {u"waited"_s, qint64(waiter.waited.count())}});
        }
        return engine->toScriptValue(list);
    };
    return m_promises.promiseOf(this, m_registry ? m_registry->waiters(name) : refused<QList<LockWaiter>>(TooEarly),
                                convert);
}

QJSValue QmlLockMonitorModel::forceRelease(const QString &name, double fencingToken)
{
    using Outcome = LockRegistry::Outcome;
    QFuture<LockReply<Outcome>> requested;
    if (!m_registry)
        requested = refused<Outcome>(TooEarly);
    else if (fencingToken >= 1 && fencingToken <= LargestExact && fencingToken == std::floor(fencingToken))
        requested = m_registry->forceRelease(name, qint64(fencingToken));
    else
        requested = refused<Outcome>(
                u"forceRelease(): %1 is no fencing token. Pass that of the row; if the row has 0, another library holds the lock, and forceRelease() of a DistributedLock takes it away from whoever holds it"_s
                        .arg(fencingToken));
    return m_promises.promiseOf(this, requested,
                                [](QJSEngine *, Outcome outcome) { return outcome == LockRegistry::Done; });
}

QVariantMap QmlLockMonitorModel::activityOf(const QString &name) const
{
    const LockActivity reported = activity(name);
    const auto countsOf = [](const LockHistogram &histogram) {
        QVariantList counts;
        for (const quint64 count : histogram.counts)
            counts.append(double(count));
        return counts;
    };
    QVariantList holds;
    for (const LockHold &hold : reported.holds) {
        holds.append(QVariantMap{{u"fencingToken"_s, hold.fencingToken},
                                 {u"client"_s, toMap(hold.client)},
                                 {u"acquired"_s, hold.acquired},
                                 {u"waited"_s, hold.waited},
                                 {u"held"_s, hold.held}});
    }
    return {{u"wait"_s, countsOf(reported.wait)},
            {u"hold"_s, countsOf(reported.hold)},
            {u"failed"_s, double(reported.failed)},
            {u"lost"_s, double(reported.lost)},
            {u"holds"_s, holds}};
}

QVariant QmlLockMonitorModel::data(const QModelIndex &index, int role) const
{
    const QVariant value = LockMonitorModel::data(index, role);
    if (role != Holders || !value.isValid())
        return value;
    QVariantList list;
    for (const LockClient &client : value.value<QList<LockClient>>())
        list.append(toMap(client));
    return list;
}

QHash<int, QByteArray> QmlLockMonitorModel::roleNames() const
{
    QHash<int, QByteArray> names = LockMonitorModel::roleNames();
    names.remove(Info);
    return names;
}

} // namespace QDistLock
