// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/redis/rediskeys.h"

#include <algorithm>

using namespace Qt::StringLiterals;

namespace QDistLock {

namespace {

/// A hash tag decides the cluster slot of its key: the text between the first '{' and the next '}', if not empty.
bool hasHashTag(const QByteArray &key)
{
    const qsizetype open = key.indexOf('{');
    if (open < 0)
        return false;
    return key.indexOf('}', open + 1) > open + 1;
}

QByteArray sideKey(const QByteArray &key, QByteArrayView suffix)
{
    const bool isTagged = hasHashTag(key);
    // For every command, so it is written in one piece.
    QByteArray side(key.size() + suffix.size() + (isTagged ? 0 : 2), Qt::Uninitialized);
    char *end = side.data();
    if (!isTagged)
        *end++ = '{';
    end = std::copy(key.begin(), key.end(), end);
    if (!isTagged)
        *end++ = '}';
    std::copy(suffix.begin(), suffix.end(), end);
    return side;
}

} // namespace

QByteArray RedisKeys::queue(const LockId &lock)
{
    return sideKey(lock.key(), ":queue");
}

QByteArray RedisKeys::fence(const LockId &lock)
{
    return sideKey(lock.key(), ":fence");
}

QByteArray RedisKeys::permits(const LockId &lock)
{
    return sideKey(lock.key(), ":permits");
}

QByteArray RedisKeys::absent(const LockId &lock)
{
    return sideKey(lock.key(), ":absent");
}

QString RedisKeys::problem(const LockId &lock)
{
    const QByteArray &key = lock.key();
    if (!hasHashTag(key)) {
        return key.contains('}')
                ? u"with this '}' the lock's side keys would lie in another cluster slot; use a {hash tag} with something in it, or no '}'"_s
                : QString();
    }
    if (key.startsWith('{') && key.indexOf('}') == key.size() - 1) {
        return u"a {hash tag} and nothing else has the same side keys as the lock that is named in it; add something to the name"_s;
    }
    if (key.endsWith(":queue") || key.endsWith(":fence") || key.endsWith(":permits")) {
        return u"a name with a {hash tag} must not end in \":queue\", \":fence\" or \":permits\"; these are the side keys of other locks"_s;
    }
    return QString();
}

} // namespace QDistLock
