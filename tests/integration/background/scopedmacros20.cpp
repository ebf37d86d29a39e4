// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// The C++20 spellings.

#include <QDistLock/ScopedMultiLock>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using QDistLock::LockAddress;
using QDistLock::LockOptions;

bool macrosInCpp20();

bool macrosInCpp20()
{
    bool entered = false;
    {
        QDL_SCOPED_LOCK(u"order:%1"_s.arg(17), .wait = 1min);
        QDL_ASSERT_LOCKED("order:17");
        QDL_SCOPED_LOCK(LockAddress(u"all").withKeyPrefix(u"app:"_s), .mode = LockOptions::Shared, .lease = 20s,
                        .wait = 1min, .retryInterval = 50ms, .maxRetries = 3, .autoRenew = true, .fair = false,
                        .minHold = 0ms, .minReplicas = 0, .replicaTimeout = 1s, .repairMissingTtl = false);
        QDL_ASSERT_LOCKED(LockAddress("all").withKeyPrefix(u"app:"_s), .mode = LockOptions::Shared);
        QDL_SCOPED_LOCK(u8"plain");
        QDL_SCOPED_LOCK("expression", LockOptions().withWait(1min));
        QDL_WITH_LOCK("with", .wait = 0ms)
        {
            entered = true;
        }
        else
        {
            return false;
        }
        QDL_WITH_LOCKS({u8"one", u"two"_s}, LockOptions{.wait = 0ms})
        {
            QDL_ASSERT_LOCKED("two");
        }
        else
        {
            return false;
        }
    }
    return entered;
}
