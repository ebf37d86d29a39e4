// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/quorum/lockorder.h"

#include <QtCore/qglobal.h>

#include <algorithm>

namespace QDistLock {

namespace {

quint64 mixed(quint64 hash)
{
    hash ^= hash >> 33;
    hash *= 0xff51afd7ed558ccdULL;
    hash ^= hash >> 33;
    hash *= 0xc4ceb9fe1a85ec53ULL;
    return hash ^ (hash >> 33);
}

/// FNV-1a. All clients must agree, so neither qHash() nor std::hash, which differ between processes and versions.
quint64 hashOf(const QByteArray &bytes, quint64 hash = 0xcbf29ce484222325ULL)
{
    for (const char byte : bytes)
        hash = (hash ^ quint8(byte)) * 0x100000001b3ULL;
    return hash;
}

} // namespace

LockOrder::Order LockOrder::of(const QByteArray &key, const QList<QByteArray> &nodes)
{
    // Rendezvous hashing: if a node is away, only the locks whose first node it was have another one.
    const quint64 ofKey = mixed(hashOf(key));
    QVarLengthArray<quint64, 8> weights;
    Order order;
    for (const QByteArray &node : nodes) {
        order.append(int(weights.size()));
        weights.append(mixed(hashOf(node, ofKey)));
    }
    std::sort(order.begin(), order.end(), [&](int a, int b) {
        return weights[a] != weights[b] ? weights[a] > weights[b] : nodes.at(a) < nodes.at(b);
    });
    return order;
}

} // namespace QDistLock
