// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "service.h"

namespace Chaos {

Service::Service(History *history, const QList<QByteArray> &locks)
    : m_history(history)
    , m_locks(locks)
{
}

void Service::recordFailOver(quint16 port, qint64 from, qint64 to, const QHash<QByteArray, Kept> &keptByLock)
{
    ++m_failOvers;
    m_history->append(Event(to, "nemesis", {}, "failover", "info")
                              .with("from", from)
                              .with("to", to)
                              .with("server", qint64(port)));
    for (auto it = keptByLock.cbegin(), end = keptByLock.cend(); it != end; ++it) {
        m_history->append(Event(to, "nemesis", it.key(), "key", "info")
                                  .with("lostBy", QByteArrayLiteral("failover"))
                                  .with("from", from)
                                  .with("to", to)
                                  .with("fence", it->fence)
                                  .with("expires", it->expires));
    }
}

} // namespace Chaos
