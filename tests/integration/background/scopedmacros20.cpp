// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// The C++20 spellings.

#include <QDistLock/ScopedLock>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using QDistLock::LockOptions;

bool macrosInCpp20();

namespace {

int orMinusOne(const QString &name)
{
    QDL_LOCK_OR_RETURN(-1, name, .wait = 0ms);
    return 1;
}

void countUnlessTaken(int *count)
{
    QDL_LOCK_OR_RETURN_VOID(u8"job", .lease = 1min, .wait = 0ms);
    ++*count;
}

} // namespace

bool macrosInCpp20()
{
    int count = 0;
    {
        QDL_SCOPED_LOCK(u"order:%1"_s.arg(17), .wait = 1min);
        QDL_ASSERT_LOCKED("order:17");
        QDL_SCOPED_LOCK(u"all", .lease = 20s, .wait = 1min, .retryInterval = 50ms, .maxRetries = 3, .autoRenew = true,
                        .fair = false, .minHold = 0ms, .keyPrefix = u"app:"_s, .minReplicas = 0, .replicaTimeout = 1s,
                        .repairMissingTtl = false);
        QDL_ASSERT_LOCKED("all", .keyPrefix = u"app:"_s);
        QDL_SCOPED_LOCK("plain");
        QDL_SCOPED_LOCK("expression", LockOptions().withWait(1min));
        QDL_WITH_LOCK("with", .wait = 0ms)
        {
            ++count;
        }
        else
        {
            return false;
        }
    }
    countUnlessTaken(&count);
    return orMinusOne(u"job"_s) == 1 && count == 2;
}
