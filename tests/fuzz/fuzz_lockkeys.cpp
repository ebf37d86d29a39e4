// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// The input is a key prefix and the names of two locks, one in each line. All keys of a lock lie in one cluster
// slot, tell prefix and name exactly, and are no other lock's.

#include "fuzz.h"

#include "engine/lockengine.h"

#include "../support/clusterslot.h"

#include <array>

using namespace QDistLock;
using Support::clusterSlot;

namespace {

std::array<QByteArray, 3> all(const LockKeys &keys)
{
    return {keys.lock, keys.queue, keys.fence};
}

std::optional<LockKeys> check(const QString &prefix, const QString &name)
{
    QString error;
    const auto keys = LockKeys::make(prefix, name, &error);
    FUZZ_CHECK(keys.has_value() == error.isEmpty());
    if (!keys)
        return keys;
    FUZZ_CHECK(QString::fromUtf8(keys->lock) == prefix + name);
    FUZZ_CHECK(QString::fromUtf8(keys->prefix) == prefix && keys->lock.startsWith(keys->prefix));
    FUZZ_CHECK(QString::fromUtf8(keys->lock.sliced(keys->prefix.size())) == name);
    const int slot = clusterSlot(keys->lock);
    FUZZ_CHECK(clusterSlot(keys->queue) == slot && clusterSlot(keys->fence) == slot);
    FUZZ_CHECK(keys->lock != keys->queue && keys->lock != keys->fence && keys->queue != keys->fence);
    return keys;
}

} // namespace

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    QString text = QString::fromUtf8(Fuzz::bytes(data, size));
    text.replace(QChar::ReplacementCharacter, QChar(0xd83d)); // half a surrogate pair for each bad byte
    const QStringList lines = text.split(u'\n');
    const auto first = check(lines.value(0), lines.value(1));
    const auto second = check(lines.value(0), lines.value(2));
    // Side keys as a name: they must not be those of a lock that is in use.
    const auto side = first ? check(QString(), QString::fromUtf8(first->queue)) : std::nullopt;
    for (const auto &other : {second, side}) {
        if (!first || !other || first->lock == other->lock)
            continue;
        for (const QByteArray &key : all(*first)) {
            for (const QByteArray &otherKey : all(*other))
                FUZZ_CHECK2(key != otherKey, key);
        }
    }
    return 0;
}
