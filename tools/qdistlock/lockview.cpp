// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "lockview.h"

#include <QtCore/qjsonarray.h>
#include <QtCore/qjsonvalue.h>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using QDistLock::LockClient;
using QDistLock::LockInfo;
using QDistLock::LockWaiter;
using std::chrono::milliseconds;

namespace Cli {

QString roughText(milliseconds time)
{
    const qint64 ms = time.count();
    const qint64 seconds = ms / 1000;
    if (ms < 1000)
        return u"%1s"_s.arg(double(ms) / 1000, 0, 'g', 2);
    if (seconds < 10)
        return u"%1s"_s.arg(double(ms / 100) / 10, 0, 'f', 1);
    if (seconds < 60)
        return u"%1s"_s.arg(seconds);
    if (seconds < 3600)
        return u"%1m %2s"_s.arg(seconds / 60).arg(seconds % 60);
    return u"%1h %2m"_s.arg(seconds / 3600).arg(seconds % 3600 / 60);
}

QString withoutStop(QString text)
{
    while (text.endsWith(u'.'))
        text.chop(1);
    return text;
}

QString counted(qint64 number, const QString &what)
{
    return u"%1 %2"_s.arg(QString::number(number), number == 1 ? what.chopped(1) : what);
}

QString remainingText(const LockInfo &info)
{
    return info.remaining < 0ms ? u"no end"_s : roughText(info.remaining);
}

bool isStale(const LockInfo &info)
{
    return info.held && (info.remaining < 0ms || !info.isHolderConnected());
}

QJsonObject toJson(const LockClient &client)
{
    const auto textOrNull = [](const QString &text) { return text.isEmpty() ? QJsonValue() : QJsonValue(text); };
    return {
            {u"client"_s, client.id},
            {u"host"_s, textOrNull(client.host)},
            {u"pid"_s, client.pid > 0 ? QJsonValue(client.pid) : QJsonValue()},
            {u"application"_s, textOrNull(client.application)},
            {u"connected"_s, client.connected},
    };
}

QJsonObject toJson(const LockInfo &info)
{
    const bool isOurs = info.held && !info.foreign;
    QJsonArray holders;
    if (isOurs && info.holders.isEmpty())
        holders.append(toJson(info.holder));
    for (const LockClient &holder : info.holders)
        holders.append(toJson(holder));
    return {
            {u"name"_s, info.name},
            {u"held"_s, info.held},
            {u"foreign"_s, info.foreign},
            {u"holder"_s, isOurs ? QJsonValue(toJson(info.holder)) : QJsonValue()},
            {u"readers"_s, info.readerCount},
            {u"permits"_s, info.permits},
            {u"permitsTaken"_s, info.permitsTaken},
            {u"holders"_s, holders},
            {u"ttlMs"_s,
             info.held && info.remaining >= 0ms ? QJsonValue(qint64(info.remaining.count())) : QJsonValue()},
            {u"fence"_s, info.fencingToken > 0 ? QJsonValue(info.fencingToken) : QJsonValue()},
            {u"waiting"_s, info.queueLength},
    };
}

QJsonObject toJson(const LockWaiter &waiter)
{
    QJsonObject object = toJson(waiter.client);
    object.insert(u"position"_s, waiter.position + 1);
    object.insert(u"waitedMs"_s, qint64(waiter.waited.count()));
    return object;
}

} // namespace Cli
