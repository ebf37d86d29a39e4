// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qbytearray.h>
#include <QtCore/qbytearrayview.h>
#include <QtCore/qstring.h>

#include <optional>

namespace QDistLock {

/// Identifies a lock on its server: the bytes of key prefix and name, see Detail::nameBytes(). Thread: a
/// plain value; copies share their text.
class LockId
{
public:
    /// nullopt, with \a error in words, for a prefix or name that no engine could use. EngineFactory::makeLockId()
    /// also refuses what one of them cannot use.
    static std::optional<LockId> make(const QString &prefix, const QString &name, QString *error);

    /// The key prefix if the application gives none.
    static QString defaultPrefix();

    LockId() = default;

    /// Prefix and name in one piece. Locks with the same key are the same lock.
    const QByteArray &key() const { return m_key; }
    QByteArrayView prefix() const { return QByteArrayView(m_key).first(m_prefixSize); }
    QByteArrayView name() const { return QByteArrayView(m_key).sliced(m_prefixSize); }

private:
    LockId(const QByteArray &key, qsizetype prefixSize)
        : m_key(key)
        , m_prefixSize(prefixSize)
    {
    }

    QByteArray m_key;
    qsizetype m_prefixSize = 0;
};

} // namespace QDistLock
