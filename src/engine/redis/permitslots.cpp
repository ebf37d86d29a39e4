// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/redis/permitslots.h"

#include "engine/protocolconstants.h"

namespace QDistLock {

std::optional<QList<int>> PermitSlots::parse(QByteArrayView text)
{
    QList<int> numbers;
    const QList<QByteArray> parts = text.toByteArray().split(',');
    for (const QByteArray &part : parts) {
        const int number = part.toInt();
        const bool isAscending = numbers.isEmpty() || number > numbers.last();
        if (number < 0 || number >= Protocol::SlotsAtMost || !isAscending || part != QByteArray::number(number))
            return std::nullopt;
        numbers.append(number);
    }
    return numbers;
}

QByteArray PermitSlots::print(const QList<int> &numbers)
{
    QByteArray text;
    for (const int number : numbers)
        text += (text.isEmpty() ? "" : ",") + QByteArray::number(number);
    return text;
}

} // namespace QDistLock
