// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qbytearray.h>
#include <QtCore/qobject.h>

#include <chrono>

QT_BEGIN_NAMESPACE
class QSocketNotifier;
QT_END_NAMESPACE

namespace QtRedis {

/*!
    A connected socket of the operating system, read and written as it is.

    Qt's sockets buffer both ways: for each small message they set a write notifier and take it away
    again, and ask how much there is to read before they read it. With a command at a time that is
    more work than the command.

    Thread: its own, with an event loop. Only wait() sleeps. Nothing is emitted from inside read() and
    write().
*/
class DescriptorStream : public QObject
{
    Q_OBJECT
public:
    /// Whether this system has what this class needs.
    static bool isSupported();

    /// Takes a duplicate: \a descriptor remains the caller's.
    explicit DescriptorStream(qintptr descriptor, QObject *parent = nullptr);
    ~DescriptorStream() override;

    /// What has arrived, at most \a size bytes; 0 if nothing. What lies ready beyond a bound waits
    /// for the next turn of the event loop.
    qint64 read(char *data, qint64 size);
    /// Bytes that the kernel does not accept at once are written later, when it does.
    void write(const char *data, qint64 size);
    /// Where no event loop runs any more: blocks until something arrives or the kernel takes more of what was written,
    /// for \a atMost. Emits readyRead(). False once nothing can be read any more.
    bool wait(std::chrono::milliseconds atMost);
    /// Closes it now; what the kernel has not taken is lost. Nothing is emitted any more.
    void abort();

Q_SIGNALS:
    void readyRead();
    /// The other side closed the connection. What it sent before can still be read.
    void closed();
    void failed(const QString &systemError);

private:
    void readable();
    void writable();
    void end(int error);

    int m_descriptor;
    QSocketNotifier *m_readNotifier = nullptr;
    QSocketNotifier *m_writeNotifier = nullptr;
    QByteArray m_unwritten;
    qint64 m_readThisTurn = 0;
    bool m_drained = false; ///< as far as known; the notifier tells otherwise
    bool m_ended = false; ///< nothing more can be read
    bool m_reported = false;
};

} // namespace QtRedis
