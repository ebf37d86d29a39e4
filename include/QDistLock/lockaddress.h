// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#ifndef QDISTLOCK_LOCKADDRESS_H
#define QDISTLOCK_LOCKADDRESS_H

#include <QDistLock/impl/lockname.h>

#include <QtCore/qstring.h>
#include <QtCore/qurl.h>

#include <type_traits>
#include <utility>

namespace QDistLock {

/*!
    Which lock: its name, and, where they are not the usual ones, its key prefix and its server. LockOptions say how it
    is acquired.

    A name alone is an address: `ScopedLock lock(u"job"_s)`. Another server or prefix is added to it:
    `ScopedLock lock(LockAddress(u"job"_s).withServer(url))`. The key on the server is the key prefix followed by the
    name. The same name with another prefix or on another server is another lock.

    A plain value that any thread may use. Nothing is checked: an acquire of a name, prefix or server that cannot be
    used ends with DistributedLock::NameError or OptionsError.
*/
class LockAddress
{
public:
    /// No lock: an acquire ends with DistributedLock::NameError.
    LockAddress() = default;
    /// The lock \a name: what converts to a QString, a QStringView, or a literal or constant array of characters (in
    /// UTF-8 or UTF-16), without the NULs that pad it.
    template<typename Name, std::enable_if_t<Detail::LockName<Name &&>::isValid, bool> = true>
    LockAddress(Name &&name)
        : m_name(Detail::lockName(std::forward<Name>(name)))
    {
    }

    /// The name, without the key prefix.
    QString name() const { return m_name; }
    /// Null, as at first: that of the registry (see LockRegistry::setKeyPrefix()), and `lock:` where the application
    /// gives none, as for a ScopedLock. Empty, but not null: the name alone is the key.
    QString keyPrefix() const { return m_keyPrefix; }
    /// Empty, as at first: LockRegistry::defaultServer().
    QUrl server() const { return m_server; }

    /// This address with another key prefix.
    [[nodiscard]] LockAddress withKeyPrefix(const QString &prefix) const
    {
        LockAddress address = *this;
        address.m_keyPrefix = prefix;
        return address;
    }
    /// This address on another server; docs/servers.md lists the schemes of the URL.
    [[nodiscard]] LockAddress withServer(const QUrl &server) const
    {
        LockAddress address = *this;
        address.m_server = server;
        return address;
    }

private:
    QString m_name;
    QString m_keyPrefix;
    QUrl m_server;
};

} // namespace QDistLock

#endif
