// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include <QDistLock/lockoptions.h>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace QDistLock {

QString LockOptions::validationError() const
{
    const auto bad = [](const char *field, milliseconds value, const char *rule) {
        return u"%1 is %2 ms; it must be %3"_s.arg(QLatin1String(field)).arg(value.count()).arg(QLatin1String(rule));
    };
    if (mode != Exclusive && mode != Shared)
        return u"mode is %1; it must be LockOptions::Exclusive or LockOptions::Shared"_s.arg(int(mode));
    if (permits < ServerPermits || permits > MaximumPermits)
        return u"permits is %1; it must be from 1 to %2, LockOptions::ServerPermits, or 0 for no semaphore"_s
                .arg(permits)
                .arg(MaximumPermits);
    if (permits != 0 && mode != Exclusive)
        return u"permits is %1, but mode is LockOptions::Shared; it must be LockOptions::Exclusive, because a name has either permits or readers"_s
                .arg(permits);
    if (take < 1 || take > MaximumPermits)
        return u"take is %1; it must be from 1 to permits"_s.arg(take);
    if (permits == 0 && take != 1)
        return u"take is %1, but permits is 0; it must be 1 without a semaphore"_s.arg(take);
    if (permits > 0 && take > permits)
        return u"take is %1, but permits is %2; it must be that number at most"_s.arg(take).arg(permits);
    if (lease < MinimumLease)
        return bad("lease", lease, "from 10 ms to 24 h; a shorter one would be over before its holder hears of it");
    if (lease > MaximumLease)
        return bad("lease", lease, "from 10 ms to 24 h");
    if (wait < 0ms)
        return bad("wait", wait, "0 (try once), more, or LockOptions::Forever");
    if (retryInterval < 1ms || retryInterval > MaximumLease)
        return bad("retryInterval", retryInterval, "from 1 ms to 24 h");
    if (maxRetries < UnlimitedRetries)
        return u"maxRetries is %1; it must be 0, more, or LockOptions::UnlimitedRetries"_s.arg(maxRetries);
    if (minHold < 0ms || minHold > lease)
        return bad("minHold", minHold, "from 0 ms to the lease");
    if (minReplicas < 0)
        return u"minReplicas is %1; it must be 0 or more"_s.arg(minReplicas);
    if (replicaTimeout < 1ms || replicaTimeout > MaximumLease)
        return bad("replicaTimeout", replicaTimeout, "from 1 ms to 24 h");
    return QString();
}

} // namespace QDistLock
