// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qbytearray.h>
#include <QtCore/qlist.h>

namespace QDistLock {

/// The names of nodes. Those of waiters are Curator's, so that its clients, and kazoo's with `extra_lock_patterns`,
/// wait in the same queue.
namespace NodePath {

/// The name of the node of a lock: \a key, with %XX for what a name may not have.
QByteArray escaped(const QByteArray &key);
QByteArray unescaped(const QByteArray &name);

/// The first part of the name of the node with which \a token waits; it says whether that is a reader. The server
/// appends a number, which is its order.
QByteArray waiterPrefix(const QByteArray &token);

/// One of those that hold or wait for a lock.
struct Member
{
    QByteArray name;
    qint64 number;
    bool isReader; ///< of this library: can hold the lock together with others
};
/// Those of \a children that are in the queue, the holders first.
QList<Member> queueOf(const QList<QByteArray> &children);
/// How many at the head of the \a queue hold the lock: one, or the readers there.
qsizetype holdersIn(const QList<Member> &queue);

} // namespace NodePath
} // namespace QDistLock
