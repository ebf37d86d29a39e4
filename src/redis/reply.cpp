// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "redis/reply.h"

#include <algorithm>

namespace QtRedis {

QByteArray Reply::errorCode() const
{
    if (type != Error)
        return {};
    const QByteArray word = text.split(' ').first();
    const auto isCapital = [](char c) { return c >= 'A' && c <= 'Z'; };
    return std::all_of(word.cbegin(), word.cend(), isCapital) ? word : QByteArray();
}

QByteArray infoField(const QByteArray &info, const QByteArray &name)
{
    const QList<QByteArray> lines = info.split('\n');
    for (const QByteArray &line : lines) {
        if (line.startsWith(name + ':'))
            return line.mid(name.size() + 1).trimmed();
    }
    return {};
}

} // namespace QtRedis
