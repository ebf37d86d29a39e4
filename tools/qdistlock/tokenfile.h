// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qfile.h>
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
    /// Removes the file at \a path if it still is this one: its token proves nothing any more.
    void remove(const QString &path) const;
};

/*!
    Writes a token file. A token file proves one hold, so an existing file is never replaced: who had the former content
    would renew and release the hold of the latter.
*/
class TokenFileWriter
{
public:
    explicit TokenFileWriter(const QString &path);
    /// Removes the file if it has no content.
    ~TokenFileWriter();

    /// Makes an empty file, before anything is acquired.
    bool create();
    bool commit(const TokenFile &content);
    /// Names the file, what happened and what to do.
    QString errorString() const { return m_error; }

private:
    Q_DISABLE_COPY_MOVE(TokenFileWriter)
    bool fail(const QString &reason);
    /// Whether the path still leads to it: somebody may have removed it, and another acquire may have made its own.
    bool isInPlace() const;

    QFile m_file;
    QString m_error;
};

} // namespace Cli
