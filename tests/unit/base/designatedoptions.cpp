// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include <QDistLock/LockOptions>

using namespace std::chrono_literals;

QDistLock::LockOptions designatedOptions();

QDistLock::LockOptions designatedOptions()
{
    return {.mode = QDistLock::LockOptions::Shared, .lease = 1min, .wait = 2s, .autoRenew = false};
}
