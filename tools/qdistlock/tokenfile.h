// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qsavefile.h>
#include <QtCore/qstring.h>

#include <chrono>
#include <optional>

namespace Cli {

/*!
    The file that `acquire` leaves behind for `renew` and `release`: one JSON object with the secret token of the hold.
    Only its owner can read it.
*/
struct TokenFile
{
    QString name;   ///< of the lock
    QString prefix; ///< of its key
    QByteArray token;
    qint64 fencingToken = 0;
    std::chrono::milliseconds lease{0};
    /// --min-hold: `release` keeps the lock until then, by the clock of this machine; in ms since 1970, 0 = not at all.
    qint64 minHoldUntil = 0;

    /// Null, with \a error, if the file cannot be read or is not such a file.
    static std::optional<TokenFile> read(const QString &path, QString *error);
};

/// Writes a token file. The file appears, or replaces an older token file, only with commit().
class TokenFileWriter
{
public:
    explicit TokenFileWriter(const QString &path);

    /// Checks, before anything is acquired, that the file can be written. Refuses to replace a file that is not a token
    /// file.
    bool open();
    bool commit(const TokenFile &content);
    /// Names the file, what happened and what to do.
    QString errorString() const { return m_error; }

private:
    bool fail(const QString &reason);

    const QString m_path;
    QSaveFile m_file;
    QString m_error;
};

} // namespace Cli
