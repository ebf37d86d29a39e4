// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QDistLock/lockclient.h>

#include <QtCore/qbytearray.h>
#include <QtCore/qstring.h>

namespace QDistLock {

/// Names a process to people: those who wait for the locks it holds. Its parts consist of [A-Za-z0-9._-], and may be
/// empty. Thread: a plain value.
struct Identity
{
    QString host;
    qint64 pid = 0;
    QString application;

    /// The client \a id in the process that has this identity.
    LockClient client(const QByteArray &id, bool isConnected) const
    {
        return {QString::fromLatin1(id), host, pid, application, isConnected};
    }

    bool isEmpty() const { return host.isEmpty() && pid == 0 && application.isEmpty(); }

    /// At most this many characters in host and application each.
    static constexpr qsizetype LongestPart = 64;
    static bool isAllowed(char16_t c)
    {
        return (c >= u'0' && c <= u'9') || (c >= u'a' && c <= u'z') || (c >= u'A' && c <= u'Z') || c == u'.'
                || c == u'_' || c == u'-';
    }

    /// The identity of this process at present; empty if it shows none. Thread-safe.
    static Identity ofThisProcess();
    /// As LockRegistry::setIdentity(). Thread-safe.
    static void setOfThisProcess(const QString &text);
};

} // namespace QDistLock
