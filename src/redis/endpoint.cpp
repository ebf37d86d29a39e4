// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "redis/endpoint.h"

#include <QtCore/qurl.h>
#include <QtNetwork/qhostaddress.h>

namespace QtRedis {

QString Endpoint::name() const
{
    const bool hasFinalDot = host.size() > 1 && host.endsWith(u'.');
    return hasFinalDot && QHostAddress(host.chopped(1)).isNull() ? host.chopped(1) : host;
}

QString Endpoint::toString() const
{
    QString shownHost = name();
    if (host.contains(u':')) {
        // RFC 6874: the '%' before an address's zone is encoded, or "%1eth0" would be a character and "th0".
        const qsizetype address = host.indexOf(u'%');
        shownHost = address < 0 ? host
                                : host.left(address) + QLatin1String("%25")
                        + QString::fromLatin1(QUrl::toPercentEncoding(host.mid(address + 1)));
        shownHost = u'[' + shownHost + u']';
    }
    return shownHost + u':' + QString::number(port);
}

} // namespace QtRedis
