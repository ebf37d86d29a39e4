// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "lock/lockreport.h"

#include "base/identity.h"
#include "engine/token.h"

#include <QDistLock/impl/namebytes.h>

#include <QtCore/qjsonarray.h>
#include <QtCore/qjsondocument.h>
#include <QtCore/qjsonobject.h>

#include <algorithm>

using namespace Qt::StringLiterals;

using std::chrono::milliseconds;
using std::chrono::seconds;

namespace QDistLock {

namespace {

constexpr QByteArrayView WatchWord("watch");
constexpr QByteArrayView ReportWord("report ");
constexpr qsizetype LongestRequest = 64;
constexpr qsizetype LongestReport = 256 * 1024;
constexpr qsizetype LongestLabel = 100;
/// Longer durations, and greater counts, are cut: they cannot be true.
constexpr qint64 LongestMs = 1'000'000'000'000;

/// The number that \a text is in its one canonical spelling; -1 if it is none.
qint64 numberOf(const QByteArray &text)
{
    const qint64 number = text.toLongLong();
    return QByteArray::number(number) == text ? number : -1;
}

milliseconds msOf(const QJsonValue &value)
{
    return milliseconds(std::clamp<qint64>(value.toInteger(), 0, LongestMs));
}

/// Empty if \a text could not be part of an Identity.
QString identityPart(const QString &text)
{
    const bool isAllowed = std::all_of(text.begin(), text.end(),
                                       [](QChar c) { return Identity::isAllowed(c.unicode()); });
    return isAllowed && text.size() <= Identity::LongestPart ? text : QString();
}

/// \a histogram without the zeros at its end; the sum, in ms, comes first.
QJsonArray toJson(const LockHistogram &histogram)
{
    QJsonArray array{qint64(std::chrono::round<milliseconds>(histogram.sum).count())};
    const auto last = std::find_if(histogram.counts.rbegin(), histogram.counts.rend(),
                                   [](auto count) { return count > 0; });
    for (auto count = histogram.counts.begin(); count != last.base(); ++count)
        array.append(qint64(*count));
    return array;
}

LockHistogram histogramOf(const QJsonArray &array)
{
    LockHistogram histogram;
    histogram.sum = msOf(array.at(0));
    for (size_t i = 0; i < histogram.counts.size(); ++i)
        histogram.counts[i] = quint64(std::clamp<qint64>(array.at(qsizetype(i) + 1).toInteger(), 0, LongestMs));
    return histogram;
}

QJsonObject toJson(const LockReport &report)
{
    QJsonObject object{{u"lock"_s, Detail::nameText(report.key)}};
    QJsonArray present;
    for (const LockReport::Present &one : report.present) {
        QJsonObject state{{one.isHeld ? u"held"_s : u"waiting"_s, qint64(one.since.count())}};
        if (one.isHeld)
            state.insert(u"fence"_s, one.fencingToken);
        if (!one.label.isEmpty())
            state.insert(u"label"_s, one.label.left(LongestLabel));
        present.append(state);
    }
    object.insert(u"now"_s, present);
    if (report.wait.count() > 0)
        object.insert(u"wait"_s, toJson(report.wait));
    if (report.hold.count() > 0)
        object.insert(u"hold"_s, toJson(report.hold));
    if (report.failed > 0)
        object.insert(u"failed"_s, report.failed);
    if (report.lost > 0)
        object.insert(u"lost"_s, report.lost);
    QJsonArray ended;
    for (const LockReport::EndedHold &hold : report.ended) {
        ended.append(QJsonArray{hold.fencingToken, qint64(hold.waited.count()), qint64(hold.held.count()),
                                qint64(hold.ago.count())});
    }
    if (!ended.isEmpty())
        object.insert(u"ended"_s, ended);
    return object;
}

LockReport reportOf(const QJsonObject &object)
{
    LockReport report;
    report.key = Detail::nameBytes(object.value(u"lock"_s).toString());
    const QJsonArray present = object.value(u"now"_s).toArray();
    for (const QJsonValue &value : present) {
        if (report.present.size() == ClientReport::MostPresent)
            break;
        const QJsonObject state = value.toObject();
        const bool isHeld = state.contains(u"held"_s);
        report.present.append({isHeld, state.value(u"fence"_s).toInteger(),
                               msOf(state.value(isHeld ? u"held"_s : u"waiting"_s)),
                               state.value(u"label"_s).toString().left(LongestLabel)});
    }
    report.wait = histogramOf(object.value(u"wait"_s).toArray());
    report.hold = histogramOf(object.value(u"hold"_s).toArray());
    report.failed = std::max(object.value(u"failed"_s).toInt(), 0);
    report.lost = std::max(object.value(u"lost"_s).toInt(), 0);
    const QJsonArray ended = object.value(u"ended"_s).toArray();
    for (const QJsonValue &value : ended) {
        if (report.ended.size() == ClientReport::MostEnded)
            break;
        const QJsonArray hold = value.toArray();
        if (hold.size() != 4)
            continue;
        report.ended.append({hold.at(0).toInteger(), msOf(hold.at(1)), msOf(hold.at(2)), msOf(hold.at(3))});
    }
    return report;
}

} // namespace

QByteArray WatchRequest::toMessage() const
{
    return WatchWord.toByteArray() + ' ' + monitor + ' ' + QByteArray::number(qint64(interval.count())) + ' '
            + QByteArray::number(qint64(duration.count()));
}

std::optional<WatchRequest> WatchRequest::parse(const QByteArray &message)
{
    if (message.size() > LongestRequest)
        return std::nullopt;
    const QList<QByteArray> parts = message.split(' ');
    if (parts.size() != 4 || parts.at(0) != WatchWord || !Token::isClientId(parts.at(1)))
        return std::nullopt;
    const WatchRequest request{parts.at(1), milliseconds(numberOf(parts.at(2))), seconds(numberOf(parts.at(3)))};
    const bool isValid = request.interval >= ShortestInterval && request.interval <= LongestDuration
            && request.duration >= seconds(0) && request.duration <= LongestDuration;
    return isValid ? std::optional(request) : std::nullopt;
}

QByteArray ClientReport::toMessage() const
{
    QJsonObject object{{u"client"_s, client.id}, {u"number"_s, number}};
    if (!client.host.isEmpty() || client.pid > 0 || !client.application.isEmpty()) {
        object.insert(u"host"_s, client.host);
        object.insert(u"pid"_s, client.pid);
        object.insert(u"app"_s, client.application);
    }
    QJsonArray array;
    for (const LockReport &lock : locks)
        array.append(toJson(lock));
    object.insert(u"locks"_s, array);
    return ReportWord.toByteArray() + QJsonDocument(object).toJson(QJsonDocument::Compact);
}

std::optional<ClientReport> ClientReport::parse(const QByteArray &message)
{
    if (!message.startsWith(ReportWord) || message.size() > LongestReport)
        return std::nullopt;
    const QJsonObject object = QJsonDocument::fromJson(message.sliced(ReportWord.size())).object();
    ClientReport report;
    report.client = {object.value(u"client"_s).toString(), identityPart(object.value(u"host"_s).toString()),
                     std::max<qint64>(object.value(u"pid"_s).toInteger(), 0),
                     identityPart(object.value(u"app"_s).toString()), true};
    if (!Token::isClientId(report.client.id.toUtf8()))
        return std::nullopt;
    report.number = object.value(u"number"_s).toInteger();
    const QJsonArray locks = object.value(u"locks"_s).toArray();
    for (const QJsonValue &lock : locks) {
        if (lock.isObject() && report.locks.size() < MostLocks)
            report.locks.append(reportOf(lock.toObject()));
    }
    return report;
}

} // namespace QDistLock
