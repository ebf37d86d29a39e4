// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "form.h"

#include <QDistLock/Annotations>

#include <QtCore/qtimer.h>

namespace Chaos {

class AnnotatedClient;

/// On the default server (that of the first lock): annotated methods, called by invokeLocked() and connectLocked(). On
/// any other server: connectLocked() with a key, and withLock(). All in one thread.
class AnnotatedForm : public Form
{
    Q_OBJECT
public:
    AnnotatedForm(const Settings &settings, History *history, InjectedFaults *faults);
    ~AnnotatedForm() override;

    void start() override;
    void stop() override;
    void abandon() override;
    bool hasThreads() const override { return true; }

    void clientFinished();

private:
    std::vector<std::unique_ptr<AnnotatedClient>> m_clients;
};

/// The calls under one lock. How they are made depends on the lock.
class AnnotatedClient : public QObject
{
    Q_OBJECT
    Q_PROPERTY(QString lockName READ lockName CONSTANT)
    QDL_LOCKED_METHOD(takeFairTurn, "{lock}", "lease=300ms; wait=forever; retryInterval=20ms")
    QDL_LOCKED_METHOD(takeUnfairTurn, "{this.lockName}", "lease=300ms; wait=3s; retryInterval=20ms; fair=false")
    QDL_LOCKED_METHOD(tryTurn, "{lock}", "lease=300ms; fair=false; onBusy=fail")

public:
    AnnotatedClient(Participant *participant, AnnotatedForm *form);
    ~AnnotatedClient() override;

    QString lockName() const { return QString::fromLatin1(m_participant->lock().name); }
    QDistLock::LockAddress address() const
    {
        return QDistLock::LockAddress(lockName()).withServer(m_participant->lock().server);
    }
    void start();
    void stop();
    bool isFinished() const { return m_doing == Nothing; }

public Q_SLOTS:
    void takeFairTurn(const QString &lock);
    void takeUnfairTurn();
    void tryTurn(const QString &lock);

Q_SIGNALS:
    void wanted();

private:
    void ask();
    void takeTurn();
    QFuture<void> takeLongTurn();
    void longTurnEnded();
    /// \a then is called if the future has a result.
    template<typename T>
    void watch(const QFuture<T> &future, void (AnnotatedClient::*then)() = nullptr);
    void lost();
    void failed(QDistLock::DistributedLock::Error error);
    void ended();
    bool isDefaultServer() const;

    Participant *const m_participant;
    AnnotatedForm *const m_form;
    const Participant::IsHeld m_isHeld;
    QTimer m_pause;
    enum { Nothing, Pausing, Asking, Running } m_doing = Pausing;
    bool m_stopping = false;
    bool m_longTurn = false; ///< a future keeps the lock
    bool m_lost = false;     ///< during a long turn
    qint64 m_longTurnEnd = 0;
};

} // namespace Chaos
