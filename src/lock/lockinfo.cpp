// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include <QDistLock/lockinfo.h>

#include "engine/protocolconstants.h"

#include <algorithm>

using namespace Qt::StringLiterals;

namespace QDistLock {

namespace {

/// "2 of 5 permits"; "2 permits" if the server has forgotten how many there are.
QString permitsText(const LockInfo &info)
{
    const auto counted = [](int number) { return number == 1 ? u"1 permit"_s : u"%1 permits"_s.arg(number); };
    return info.permits > 0 ? u"%1 of %2"_s.arg(info.permitsTaken).arg(counted(info.permits))
                            : counted(info.permitsTaken);
}

} // namespace

bool LockInfo::isHeldWithPermits() const
{
    return readerCount == 0 && !holders.isEmpty();
}

bool LockInfo::hasMoreHolders() const
{
    // Those who have the first permits are named, and one may have several.
    return std::max(readerCount, permitsTaken) > Protocol::ShownAtMost && holders.size() != readerCount;
}

bool LockInfo::isHolderConnected() const
{
    return foreign || holder.connected
            || std::any_of(holders.cbegin(), holders.cend(), [](const LockClient &client) { return client.connected; });
}

QString LockInfo::holderText() const
{
    if (!held)
        return u"nobody"_s;
    QString text = holder.toString() + (holder.connected ? QString() : u" (not connected)"_s);
    if (readerCount == 1)
        text.prepend(u"the reader "_s);
    else if (readerCount > 1)
        text.prepend(u"%1 readers, among them "_s.arg(readerCount));
    else if (isHeldWithPermits() && holders.size() == 1 && !hasMoreHolders())
        text.prepend(u"the holder of %1, "_s.arg(permitsText(*this)));
    else if (isHeldWithPermits())
        text.prepend(u"the holders of %1, among them "_s.arg(permitsText(*this)));
    return text;
}

} // namespace QDistLock
