// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qbytearray.h>
#include <QtCore/qmutex.h>
#include <QtCore/qstring.h>

namespace Chaos {

/// Nanoseconds of CLOCK_BOOTTIME: the same for all processes of a machine.
qint64 bootTime();

/*!
    One line of a history, a JSON object. The fields keep the order in which they were added. Values are numbers,
    booleans and plain words; nothing is escaped.
*/
class Event
{
public:
    /// \a type: invoke, ok, fail or info, as in the histories of Jepsen.
    Event(qint64 time, const QByteArray &process, const QByteArray &lock, const char *operation, const char *type);

    Event &with(const char *field, qint64 value);
    Event &with(const char *field, bool value);
    Event &with(const char *field, const QByteArray &value);
    const QByteArray &text() const { return m_text; }

private:
    Event &add(const char *field, const QByteArray &json);
    QByteArray m_text;
};

/*!
    Appends events to a file, each with one write(), so that a SIGKILL loses no event.
    Thread-safe.
*/
class History
{
public:
    explicit History(const QString &fileName);
    ~History();

    void append(const Event &event);

private:
    Q_DISABLE_COPY_MOVE(History)
    int m_fd = -1;
};

} // namespace Chaos
