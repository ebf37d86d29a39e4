// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "support/locktesting.h"

#include <QDistLock/DistributedLock>
#include <QDistLock/LockRegistry>

#include <QtCore/qsemaphore.h>
#include <QtCore/qthread.h>

#include <memory>

namespace Support {

/// Runs a thread that holds a lock. stop() blocks the event loop of that thread.
class StoppableHolder
{
public:
    StoppableHolder(const QUrl &url, const QString &name)
    {
        m_context.moveToThread(&m_thread);
        m_thread.start();
        QSemaphore held;
        QMetaObject::invokeMethod(&m_context, [&] {
            m_registry = std::make_unique<QDistLock::LockRegistry>(url);
            m_lock = std::make_unique<QDistLock::DistributedLock>(m_registry.get(), name);
            m_lock->setOptions(LockTesting::options(LockTesting::Outlasting));
            QObject::connect(m_lock.get(), &QDistLock::DistributedLock::acquired, &m_context,
                             [&held] { held.release(); });
            m_lock->acquire();
        });
        held.acquire();
    }
    ~StoppableHolder()
    {
        goOn();
        QMetaObject::invokeMethod(
                &m_context,
                [this] {
                    m_lock.reset();
                    m_registry.reset();
                },
                Qt::BlockingQueuedConnection);
        m_thread.quit();
        m_thread.wait();
    }

    /// Returns when the event loop is blocked.
    void stop()
    {
        QSemaphore stopped;
        QMetaObject::invokeMethod(&m_context, [&] {
            stopped.release();
            m_goOn.acquire();
        });
        stopped.acquire();
    }
    void goOn() { m_goOn.release(); }

private:
    Q_DISABLE_COPY_MOVE(StoppableHolder)
    QThread m_thread;
    QObject m_context; ///< lives in the thread
    QSemaphore m_goOn;
    std::unique_ptr<QDistLock::LockRegistry> m_registry;
    std::unique_ptr<QDistLock::DistributedLock> m_lock;
};

} // namespace Support
