// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "background/acquisition.h"

#include <QDistLock/distributedlock.h>
#include <QDistLock/lockregistry.h>

#include <QtCore/qbasictimer.h>
#include <QtCore/qhash.h>

#include <memory>
#include <unordered_map>
#include <vector>

namespace QDistLock {

class ServerLocks;

/// A DistributedLock that serves one acquisition after the other. Thread: the service's.
class ServedLock : public QObject
{
public:
    explicit ServedLock(ServerLocks *server);

    void begin(const AcquisitionPointer &acquisition);
    void release();
    /// Ends the acquisition without an answer from the server: an acquire is cancelled, a hold counts as lost.
    void abort();

protected:
    void timerEvent(QTimerEvent *event) override;

private:
    void acquired();
    void acquireFailed();
    void holdEnded(bool confirmed);
    void finish();
    void updateDeadline();

    ServerLocks *const m_server;
    AcquisitionPointer m_acquisition;
    QString m_key;
    DistributedLock m_lock;
    QBasicTimer m_useTimer;       ///< of UseLimit; runs from the grant
    bool m_behindRelease = false; ///< the server may not have executed an earlier release of the same key yet
    bool m_releasing = false;
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
    friend class ServedLock;
    Q_DISABLE_COPY_MOVE(ServerLocks)

    LockRegistry m_registry;
    std::unordered_map<const Acquisition *, ServedLock *> m_active;
    std::vector<std::unique_ptr<ServedLock>> m_idle; ///< kept for the next acquisitions
    QHash<QString, int> m_releasing;                 ///< keys with releases in progress
};

} // namespace QDistLock
