// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qobject.h>
#include <QtCore/qsocketnotifier.h>
#include <QtCore/qtimer.h>

#include <memory>

#include <sys/types.h>

namespace Cli {

/*!
    Notices the end of whatever `hold` holds a lock for: another process, the parent process, or a file descriptor.
*/
class EndWatch : public QObject
{
    Q_OBJECT

public:
    EndWatch();
    ~EndWatch() override;

    /// False, with \a error, if there is no such process.
    bool watchProcess(qint64 id, QString *error);
    /// The parent of this process; one that is outside of this container is not watched.
    void watchParent();
    /// Reads \a fd until its end, and discards what it reads. False, with \a error, if it is not open for reading, or
    /// has nothing to wait for: it is a file, or has reached its end.
    bool watchDescriptor(qint64 fd, QString *error);

Q_SIGNALS:
    /// \a what has ended, for people.
    void ended(const QString &what);

private:
    class ProcessWatch;

    bool isAtEnd() const;
    void readDescriptor();

    std::unique_ptr<ProcessWatch> m_process;
    std::unique_ptr<ProcessWatch> m_parent;
    QString m_what;
    int m_fd = -1;
    bool m_isOwnFd = false;
    bool m_isSocket = false;
    std::unique_ptr<QSocketNotifier> m_notifier;
    QTimer m_retryTimer;
};

} // namespace Cli
