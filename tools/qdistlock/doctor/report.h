// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qjsonarray.h>
#include <QtCore/qjsonobject.h>
#include <QtCore/qstring.h>

#include <chrono>

namespace Cli {

/// What `doctor` has found: one line for each check, printed at once, or one JSON object at the end.
class DoctorReport
{
public:
    enum Level {
        Ok,
        Info, ///< worth knowing; does not change the exit code
        Warning,
        Failure
    };

    /// \a check: one word. \a remedy: what to do, unless the level is Ok; may be empty. \a details: for programs.
    void add(Level level, const QString &check, const QString &text, const QString &remedy = {},
             const QJsonObject &details = {});
    /// Whether a lock with \a lease is still held when a master that is \a silent for that time was replaced: by
    /// \a whom, after the time of \a setting, which is \a detail in JSON.
    void addFailOver(const QString &whom, const QString &setting, const QString &detail,
                     std::chrono::milliseconds silent, std::chrono::milliseconds lease, const QString &remedy);
    /// Prints the rest, and returns the exit code.
    int finish(const QString &server);

private:
    Level m_worst = Ok;
    QJsonArray m_checks;
    bool m_isPrinted = true;
};

} // namespace Cli
