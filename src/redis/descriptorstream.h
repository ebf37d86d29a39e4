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
    A connected socket of the operating system, without the buffers of Qt's sockets: for each small message these enable
    and disable a write notifier, and ask for the number of bytes before they read them. With one command at a time that
    costs more than the command.

    Thread: the one it lives in, with an event loop. Only wait() sleeps. Nothing is emitted from inside read() and
    write().
*/
class DescriptorStream : public QObject
{
    Q_OBJECT
public:
    /// Whether the operating system is supported.
    static bool isSupported();

    /// Duplicates \a descriptor, which remains the caller's.
    explicit DescriptorStream(qintptr descriptor, QObject *parent = nullptr);
    ~DescriptorStream() override;

    /// Reads at most \a size bytes that have arrived; returns 0 if there are none. One event loop turn reads a limited
    /// amount; the rest can be read in the next.
    qint64 read(char *data, qint64 size);
    /// Bytes that the kernel does not accept at once are written later.
    void write(const char *data, qint64 size);
    /// For a thread whose event loop has ended: blocks, for \a atMost, until bytes arrive or the kernel accepts more.
    /// Emits readyRead(). False once nothing more can be read.
    bool wait(std::chrono::milliseconds atMost);
    /// -1 after abort().
    int descriptor() const { return m_descriptor; }
    /// Closes the socket at once; bytes that the kernel has not accepted are lost. Nothing more is emitted.
    void abort();

Q_SIGNALS:
    void readyRead();
    /// The peer closed the connection. The bytes that it sent before can still be read.
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
    bool m_drained = false; ///< nothing to read until the notifier is activated
    bool m_ended = false;   ///< nothing more can be read
    bool m_reported = false;
};

} // namespace QtRedis
