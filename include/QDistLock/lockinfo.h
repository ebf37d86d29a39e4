// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#ifndef QDISTLOCK_LOCKINFO_H
#define QDISTLOCK_LOCKINFO_H

#include <QDistLock/distributedlock.h>

#include <QtCore/qmetatype.h>
#include <QtCore/qstring.h>

#include <chrono>

namespace QDistLock {

/*!
    What the server says of one lock at one moment. A plain value, usable from any thread;
    already old when it is read.
*/
struct LockInfo
{
    /// The name without its key prefix.
    QString name;
    /// Somebody holds it: the key exists.
    bool held = false;
    /// Written by another library, or by hand.
    bool foreign = false;
    /// The holder's client id; empty for a foreign holder. Never a token: whoever knows it can release the lock.
    QString holder;
    /// Time to live of the key, or time until the deadline that an old client wrote as its value; negative = none.
    std::chrono::milliseconds remaining{0};
    /// The last fencing token given out for the name; 0 if none is known.
    qint64 fencingToken = 0;
    /// How many wait in its queue, the dead among them included.
    int queueLength = 0;
    /// Anything but NoError: the server could not be asked, and only \c name means something.
    DistributedLock::Error error = DistributedLock::NoError;
    QString errorString;
};

} // namespace QDistLock

Q_DECLARE_METATYPE(QDistLock::LockInfo)

#endif
