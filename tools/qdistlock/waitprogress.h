// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qelapsedtimer.h>
#include <QtCore/qobject.h>
#include <QtCore/qtimer.h>

namespace Cli {

class LockSet;
class Session;

/*!
    Shows on the terminal that a LockSet waits: for which lock, at which place in the queue, and who holds it. Nothing
    is shown, and the server not asked, if standard error is no terminal, or while the wait is short.
*/
class WaitProgress : public QObject
{
    Q_OBJECT

public:
    /// Both must outlive it.
    WaitProgress(Session *session, LockSet *locks);
    ~WaitProgress() override;

private:
    void show();
    void askForHolder();

    Session *const m_session;
    LockSet *const m_locks;
    QElapsedTimer m_waited;
    QTimer m_timer;
    int m_ticks = 0;
    QString m_askedFor; ///< the name of the lock
    QString m_holder;
};

} // namespace Cli
