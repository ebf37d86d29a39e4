// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// The input is a key prefix and the names of two locks, one in each line. All keys of a lock are in one cluster slot,
// identify prefix and name, and differ from the keys of any other lock.

#include "fuzz.h"

#include "engine/enginefactory.h"
#include "engine/redis/rediskeys.h"

#include "../support/clusterslot.h"

#include <QDistLock/impl/namebytes.h>

#include <array>

using namespace QDistLock;
using Support::clusterSlot;

namespace {

std::array<QByteArray, 3> allKeys(const LockId &lock)
{
    return {lock.key(), RedisKeys::queue(lock), RedisKeys::fence(lock)};
}

std::optional<LockId> check(const QString &prefix, const QString &name)
{
    QString error;
    const auto id = EngineFactory::makeLockId(prefix, name, &error);
    FUZZ_CHECK(id.has_value() == error.isEmpty());
    if (!id)
        return id;
    FUZZ_CHECK(id->key() == Detail::nameBytes(prefix) + Detail::nameBytes(name));
    FUZZ_CHECK(Detail::nameText(id->prefix()) == prefix && Detail::nameText(id->name()) == name);
    const auto [key, queue, fence] = allKeys(*id);
    const int slot = clusterSlot(key);
    FUZZ_CHECK(clusterSlot(queue) == slot && clusterSlot(fence) == slot);
    FUZZ_CHECK(key != queue && key != fence && queue != fence);
    return id;
}

} // namespace

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const QByteArrayView bytes = Fuzz::bytes(data, size);
    QString text = Detail::nameText(bytes);
    FUZZ_CHECK(Detail::nameBytes(text) == bytes);
    text.replace(QChar::ReplacementCharacter, QChar(0xd83d)); // half a surrogate pair that no bytes become
    const QStringList lines = text.split(u'\n');
    const auto first = check(lines.value(0), lines.value(1));
    const auto second = check(lines.value(0), lines.value(2));
    // A lock whose name is the side key of another lock: none of its keys may be one of the other's.
    const auto side = first ? check(QString(), Detail::nameText(RedisKeys::queue(*first))) : std::nullopt;
    for (const auto &other : {second, side}) {
        if (!first || !other || first->key() == other->key())
            continue;
        for (const QByteArray &key : allKeys(*first)) {
            for (const QByteArray &otherKey : allKeys(*other))
                FUZZ_CHECK2(key != otherKey, key);
        }
    }
    return 0;
}
