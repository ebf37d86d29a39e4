// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "background/acquisition.h"

#include <QDistLock/lockregistry.h>

#include <QtCore/qhash.h>

#include <memory>
#include <unordered_map>
#include <vector>

namespace QDistLock {

/// A lock object that serves an acquisition. Thread: the service's.
class ServedLock : public QObject
{
public:
    virtual void begin(const AcquisitionPointer &acquisition) = 0;
    virtual void release() = 0;
    /// Ends the acquisition without an answer from the server: an acquire is cancelled, a hold counts as lost.
    virtual void abort() = 0;
};

/// The locks that the service acquires and holds on one server. Thread: the service's.
class ServerLocks
{
public:
    explicit ServerLocks(const QUrl &server);
    /// Aborts what is left.
    ~ServerLocks();

    void acquire(const AcquisitionPointer &acquisition);
    /// Does nothing if the acquisition has ended.
    void release(const AcquisitionPointer &acquisition);
    void abortAll();

private:
    template<typename Lock>
    friend class ServedLockOf;
    Q_DISABLE_COPY_MOVE(ServerLocks)

    LockRegistry m_registry;
    std::unordered_map<const Acquisition *, ServedLock *> m_active;
    std::vector<std::unique_ptr<ServedLock>> m_idle; ///< of one lock each, kept for the next acquisitions
    QHash<QString, int> m_releasing;                 ///< keys with releases in progress
};

} // namespace QDistLock
