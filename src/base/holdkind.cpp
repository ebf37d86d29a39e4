// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "base/holdkind.h"

using namespace Qt::StringLiterals;

namespace QDistLock {

HoldKind kindOf(const LockOptions &options)
{
    if (options.permits != 0)
        return HoldKind::Permits;
    return options.mode == LockOptions::Shared ? HoldKind::Reader : HoldKind::Exclusive;
}

bool covers(const LockOptions &held, const LockOptions &wanted)
{
    return kindOf(held) == HoldKind::Exclusive || kindOf(held) == kindOf(wanted);
}

QString whyNotCovered(const LockOptions &held, const LockOptions &wanted)
{
    const QString has = kindOf(held) == HoldKind::Reader ? u"is a reader of it already"_s
                                                         : u"has permits of it already"_s;
    switch (kindOf(wanted)) {
    case HoldKind::Reader:
        return has + u", and would wait for itself to become a reader"_s;
    case HoldKind::Permits:
        return has + u", and would wait for itself to take permits"_s;
    case HoldKind::Exclusive:
        break;
    }
    return has + u", and would wait for itself to have it alone, in LockOptions::Exclusive without permits"_s;
}

} // namespace QDistLock
