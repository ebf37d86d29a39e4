// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "lock/releasefutures.h"

#include <utility>

namespace QDistLock {

QFuture<bool> ReleaseFutures::add(quint64 id)
{
    QPromise<bool> &promise = m_pending[id];
    promise.start();
    return promise.future();
}

void ReleaseFutures::end(quint64 id, bool released)
{
    auto pending = m_pending.extract(id); // a continuation may add others
    if (!pending)
        return;
    pending.mapped().addResult(released);
    pending.mapped().finish();
}

void ReleaseFutures::endAll()
{
    auto all = std::exchange(m_pending, {});
    for (auto &[id, promise] : all) {
        promise.addResult(false);
        promise.finish();
    }
}

} // namespace QDistLock
