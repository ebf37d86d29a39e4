// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "resp.h"

namespace Support {

namespace {

const bool converterRegistered = QMetaType::registerConverter<RedisError, QByteArray>(
        [](const RedisError &error) { return error.text; });

Resp::Status readLine(QByteArrayView data, qsizetype *position, QByteArrayView *line)
{
    const qsizetype end = data.indexOf('\n', *position);
    if (end < 0)
        return Resp::Status::Incomplete;
    if (end == *position || data[end - 1] != '\r')
        return Resp::Status::Invalid;
    *line = data.sliced(*position, end - 1 - *position);
    *position = end + 1;
    return Resp::Status::Complete;
}

Resp::Status readValue(QByteArrayView data, qsizetype *position, QVariant *value)
{
    QByteArrayView line;
    if (const auto status = readLine(data, position, &line); status != Resp::Status::Complete)
        return status;
    if (line.isEmpty())
        return Resp::Status::Invalid;
    const char type = line.front();
    const QByteArray rest = line.sliced(1).toByteArray();
    if (type == '+') {
        if (value)
            *value = rest;
        return Resp::Status::Complete;
    }
    if (type == '-') {
        if (value)
            *value = QVariant::fromValue(RedisError{line.toByteArray()});
        return Resp::Status::Complete;
    }
    bool ok = false;
    const qint64 number = rest.toLongLong(&ok);
    if (!ok)
        return Resp::Status::Invalid;
    if (type == ':') {
        if (value)
            *value = number;
        return Resp::Status::Complete;
    }
    if (type != '$' && type != '*')
        return Resp::Status::Invalid;
    if (number < 0) {
        if (value)
            *value = QVariant();
        return Resp::Status::Complete;
    }
    if (type == '$') {
        if (data.size() - *position < number + 2)
            return Resp::Status::Incomplete;
        if (value)
            *value = data.sliced(*position, number).toByteArray();
        *position += number + 2;
        return Resp::Status::Complete;
    }
    QVariantList list;
    for (qint64 i = 0; i < number; ++i) {
        QVariant element;
        const auto status = readValue(data, position, value ? &element : nullptr);
        if (status != Resp::Status::Complete)
            return status;
        if (value)
            list.append(element);
    }
    if (value)
        *value = list;
    return Resp::Status::Complete;
}

} // namespace

bool isError(const QVariant &reply)
{
    return reply.metaType() == QMetaType::fromType<RedisError>();
}

namespace Resp {

Status parseReply(QByteArrayView data, qsizetype *size, QVariant *value)
{
    *size = 0;
    return readValue(data, size, value);
}

Status parseCommand(QByteArrayView data, qsizetype *size, QList<QByteArray> *arguments)
{
    *size = 0;
    arguments->clear();
    if (!data.isEmpty() && data.front() != '*')
        return Status::Invalid;
    QVariant value;
    const Status status = readValue(data, size, &value);
    if (status != Status::Complete)
        return status;
    const QVariantList list = value.toList();
    for (const QVariant &argument : list) {
        if (argument.metaType() != QMetaType::fromType<QByteArray>())
            return Status::Invalid;
        arguments->append(argument.toByteArray());
    }
    return arguments->isEmpty() ? Status::Invalid : Status::Complete;
}

QByteArray encodeBulk(QByteArrayView text)
{
    return '$' + QByteArray::number(text.size()) + "\r\n" + text.toByteArray() + "\r\n";
}

QByteArray encodeCommand(const QList<QByteArray> &arguments)
{
    QByteArray bytes = '*' + QByteArray::number(arguments.size()) + "\r\n";
    for (const QByteArray &argument : arguments)
        bytes += encodeBulk(argument);
    return bytes;
}

} // namespace Resp
} // namespace Support
