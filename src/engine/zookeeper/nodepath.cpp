// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/zookeeper/nodepath.h"

#include "engine/token.h"

#include <QtCore/qstring.h>
#include <QtCore/quuid.h>

#include <algorithm>

using namespace Qt::StringLiterals;

namespace QDistLock::NodePath {

namespace {

constexpr qsizetype NumberDigits = 10;
// Other clients take both for a node of their own kind, which excludes them.
constexpr char WriterSuffix[] = "-lock-";
constexpr char ReaderSuffix[] = "-read-lock-";

/// What a node's name may have: see the ZooKeeper Programmer's Guide.
bool isAllowed(char32_t c)
{
    return c != U'/' && c != U'%' && c > 0x1f && (c < 0x7f || c > 0x9f) && (c < 0xd800 || c > 0xf8ff) && c < 0xfff0;
}

} // namespace

QByteArray escaped(const QByteArray &key)
{
    if (key == "." || key == "..")
        return key.toPercentEncoding({}, ".");
    QByteArray result;
    const auto characters = QString::fromUtf8(key).toUcs4();
    for (const uint c : characters) {
        const char32_t character = c;
        const QByteArray bytes = QString::fromUcs4(&character, 1).toUtf8();
        result += isAllowed(character) ? bytes : bytes.toPercentEncoding({}, bytes);
    }
    return result;
}

QByteArray unescaped(const QByteArray &name)
{
    return QByteArray::fromPercentEncoding(name);
}

QByteArray waiterPrefix(const QByteArray &token)
{
    return "_c_" + QUuid::createUuidV5(QUuid(), token).toByteArray(QUuid::WithoutBraces)
            + (Token::isReader(token) ? ReaderSuffix : WriterSuffix);
}

QList<Member> queueOf(const QList<QByteArray> &children)
{
    QList<Member> queue;
    for (const QByteArray &name : children) {
        bool isNumber = false;
        const qint64 number = name.size() > NumberDigits ? name.last(NumberDigits).toLongLong(&isNumber) : 0;
        if (isNumber)
            queue.append({name, number, name.chopped(NumberDigits).endsWith(ReaderSuffix)});
    }
    std::sort(queue.begin(), queue.end(), [](const Member &a, const Member &b) { return a.number < b.number; });
    return queue;
}

qsizetype holdersIn(const QList<Member> &queue)
{
    if (queue.isEmpty() || !queue.first().isReader)
        return std::min<qsizetype>(queue.size(), 1);
    return std::find_if(queue.cbegin(), queue.cend(), [](const Member &member) { return !member.isReader; })
            - queue.cbegin();
}

} // namespace QDistLock::NodePath
