// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qjsonarray.h>
#include <QtCore/qjsonobject.h>
#include <QtCore/qstring.h>

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

    /// \a check: one word. \a remedy: what to do; may be empty.
    void add(Level level, const QString &check, const QString &text, const QString &remedy = {});
    /// Also with \a details for programs.
    void add(Level level, const QString &check, const QString &text, const QString &remedy, const QJsonObject &details);
    /// Prints the rest, and returns the exit code.
    int finish(const QString &server);

private:
    Level m_worst = Ok;
    QJsonArray m_checks;
    bool m_isPrinted = true;
};

} // namespace Cli
