// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "base/leaseclock.h"
#include "engine/lockengine.h"
#include "lock/lockreport.h"

#include <QtCore/qhash.h>
#include <QtCore/qobject.h>
#include <QtCore/qpointer.h>
#include <QtCore/qtimer.h>

namespace QDistLock {

class LockRegistryPrivate;

/*!
    Asks all clients of a server to report what their locks do, again and again, and gets their reports.

    Signals are emitted from completions of the engine: their slots must not call the application. Thread: that of the
    registry.
*/
class ClientWatch : public QObject
{
    Q_OBJECT
public:
    explicit ClientWatch(LockRegistryPrivate *registry);

    /// Why nobody reports, in a sentence; empty if they do, as far as is known.
    QString problem() const;
    /// The client has reported before, and is still connected, but no reports arrive: its process is stopped, or its
    /// event loop is blocked.
    bool isSilent(const QString &client) const;

Q_SIGNALS:
    void reported(const QDistLock::ClientReport &report);
    /// The result of isSilent() has changed.
    void silenceChanged(const QString &client);
    /// The client is not connected any more.
    void clientGone(const QString &client);
    /// The result of problem() has changed, perhaps.
    void changed();

private:
    struct Client
    {
        LeaseTime askedAt;
        LeaseTime begunAt; ///< it was asked to report everything then
        int attempts = 0;  ///< how often it was asked before it has reported
        bool hasReported = false;
        qint64 lastReport = 0; ///< its number
        std::chrono::milliseconds interval{0};
        int missed = 0;           ///< ticks since its last report
        bool seemsSilent = false; ///< if it still exists when the clients are listed
        bool isSilent = false;
    };

    LockEngine *readyEngine() const;
    void tick();
    void askAll();
    void clientsListed(const EngineError &error, const QSet<QByteArray> &ids);
    void countMissed();
    /// \a isNew: the client must report everything, not only what changes.
    void ask(const QByteArray &id, bool isNew);
    void messageReceived(const QByteArray &message);

    const QPointer<LockRegistryPrivate> m_registry;
    QHash<QByteArray, Client> m_clients; ///< by id
    EngineError m_sendError;
    int m_deafTicks = 0; ///< since our own last report: this client asks itself, too
    QTimer m_ticks;
    int m_untilAsking = 0; ///< ticks
};

} // namespace QDistLock
