// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qlist.h>
#include <QtCore/qstringlist.h>
#include <QtCore/qtemporarydir.h>

#include <chrono>

namespace Support {

/// A wall clock that can be set while the programs that read it run.
class ShiftedClock
{
public:
    ShiftedClock() { shift(std::chrono::milliseconds(0)); }

    /// NAME=VALUE, of the programs that must have this clock.
    QStringList environment() const;
    /// Sets the clock to the real time and \a by, at once.
    void shift(std::chrono::milliseconds by);
    /// From now on it advances this many times more slowly than the real time. Then a pause of the machine ends no
    /// lease on a server with this clock. 1: back to the real time, at once.
    void slowDown(int times);

private:
    void write(qint64 offset, const QList<qint64> &numbers);
    QString fileName() const { return m_folder.filePath(QStringLiteral("shift")); }
    QTemporaryDir m_folder;
};

} // namespace Support
