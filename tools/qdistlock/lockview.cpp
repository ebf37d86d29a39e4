// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "lockview.h"

#include <QtCore/qjsonarray.h>
#include <QtCore/qjsonvalue.h>

#include <algorithm>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using QDistLock::LockClient;
using QDistLock::LockInfo;
using QDistLock::LockWaiter;
using std::chrono::milliseconds;

namespace Cli {

namespace {

/// How many LockInfo::holders has at most.
constexpr int MostHolders = 32;

QJsonObject jsonOf(const LockClient &client)
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

/// "2 of 5 permits"; "2 permits" if the server has forgotten how many there are.
QString permitsText(const LockInfo &info)
{
    return info.permits > 0 ? u"%1 of %2"_s.arg(info.permitsTaken).arg(counted(info.permits, u"permits"_s))
                            : counted(info.permitsTaken, u"permits"_s);
}

} // namespace

QString holderText(const LockInfo &info)
{
    if (!info.held)
        return u"nobody"_s;
    QString text = info.holder.toString() + (info.holder.connected ? QString() : u" (not connected)"_s);
    if (info.readerCount == 1)
        text.prepend(u"the reader "_s);
    else if (info.readerCount > 1)
        text.prepend(u"%1 readers, among them "_s.arg(info.readerCount));
    else if (areOfPermits(info) && info.holders.size() == 1 && !mayHaveMoreHolders(info))
        text.prepend(u"the holder of %1, "_s.arg(permitsText(info)));
    else if (areOfPermits(info))
        text.prepend(u"the holders of %1, among them "_s.arg(permitsText(info)));
    return text;
}

bool areOfPermits(const LockInfo &info)
{
    return info.readerCount == 0 && !info.holders.isEmpty();
}

bool mayHaveMoreHolders(const LockInfo &info)
{
    // The library names the holders of the first permits, and one may have several.
    return std::max(info.readerCount, info.permitsTaken) > MostHolders && info.holders.size() != info.readerCount;
}

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

bool isHolderConnected(const LockInfo &info)
{
    return info.foreign || info.holder.connected
            || std::any_of(info.holders.cbegin(), info.holders.cend(),
                           [](const LockClient &holder) { return holder.connected; });
}

bool isStale(const LockInfo &info)
{
    return info.held && (info.remaining < 0ms || !isHolderConnected(info));
}

QJsonObject toJson(const LockInfo &info)
{
    const bool isOurs = info.held && !info.foreign;
    QJsonArray holders;
    if (isOurs && info.holders.isEmpty())
        holders.append(jsonOf(info.holder));
    for (const LockClient &holder : info.holders)
        holders.append(jsonOf(holder));
    return {
            {u"name"_s, info.name},
            {u"held"_s, info.held},
            {u"foreign"_s, info.foreign},
            {u"holder"_s, isOurs ? QJsonValue(jsonOf(info.holder)) : QJsonValue()},
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
    QJsonObject object = jsonOf(waiter.client);
    object.insert(u"position"_s, waiter.position + 1);
    object.insert(u"waitedMs"_s, qint64(waiter.waited.count()));
    return object;
}

} // namespace Cli
