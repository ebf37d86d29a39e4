// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/redis/clientname.h"

#include <QtCore/qlist.h>

#include <algorithm>

namespace QDistLock {

namespace {

constexpr QByteArrayView Prefix = "qdistlock-";

std::optional<QString> parsePart(const QByteArray &part)
{
    const bool isClean = std::all_of(part.begin(), part.end(), [](char c) { return Identity::isAllowed(uchar(c)); });
    return isClean && part.size() <= Identity::LongestPart ? std::optional(QString::fromLatin1(part)) : std::nullopt;
}

Identity parseIdentity(const QByteArray &text)
{
    const QList<QByteArray> parts = text.split(':');
    const auto host = parsePart(parts.at(0));
    const auto pid = parsePart(parts.value(1));
    const auto application = parsePart(parts.value(2));
    const qint64 number = pid ? pid->toLongLong() : 0;
    if (parts.size() < 3 || !host || !application || number <= 0)
        return {};
    return {*host, number, *application};
}

} // namespace

QByteArray ClientName::toByteArray() const
{
    const QByteArray name = Prefix.toByteArray() + client;
    const QByteArray last = node < 0 ? QByteArray() : ':' + QByteArray::number(node);
    if (identity.isEmpty())
        return last.isEmpty() ? name : name + '@' + last;
    QByteArray host = identity.host.toLatin1();
    const QByteArray pid = ':' + QByteArray::number(identity.pid) + ':';
    QByteArray application = identity.application.toLatin1();
    // If one of the two is short, the other gets the rest of the room.
    const qsizetype room = std::max<qsizetype>(0, LongestName - name.size() - 1 - pid.size() - last.size());
    application.truncate(std::max(room / 2, room - host.size()));
    host.truncate(room - application.size());
    return name + '@' + host + pid + application + last;
}

std::optional<ClientName> ClientName::parse(QByteArrayView name)
{
    if (!name.startsWith(Prefix))
        return std::nullopt;
    const QByteArray rest = name.sliced(Prefix.size()).toByteArray();
    const qsizetype at = rest.indexOf('@');
    const QByteArray client = at < 0 ? rest : rest.first(at);
    const auto isHexDigit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
    if (client.isEmpty() || !std::all_of(client.begin(), client.end(), isHexDigit))
        return std::nullopt;
    return ClientName{client, at < 0 ? Identity() : parseIdentity(rest.sliced(at + 1))};
}

} // namespace QDistLock
