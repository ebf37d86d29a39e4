// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "reply.h"

namespace QtRedis {

QByteArray Reply::errorCode() const
{
    if (type != Error)
        return {};
    const qsizetype space = text.indexOf(' ');
    return space < 0 ? text : text.left(space);
}

} // namespace QtRedis
