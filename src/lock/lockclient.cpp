// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include <QDistLock/lockclient.h>

using namespace Qt::StringLiterals;

namespace QDistLock {

QString LockClient::toString() const
{
    constexpr qsizetype LongestId = 32; // a forged one may have any length
    if (id.isEmpty())
        return u"another library"_s;
    if (host.isEmpty() && pid == 0 && application.isEmpty())
        return u"client "_s + id.left(LongestId);
    QString text = application.isEmpty() ? u"a program"_s : application;
    if (!host.isEmpty())
        text += u" on "_s + host;
    if (pid > 0)
        text += u", pid %1"_s.arg(pid);
    return text;
}

} // namespace QDistLock
