// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qfuture.h>
#include <QtCore/qpromise.h>

#include <map>

namespace QDistLock {

/// The futures of the releases of one object that have not ended, by the ids of the releases. Thread: that of the
/// object.
class ReleaseFutures
{
public:
    QFuture<bool> add(quint64 id);
    bool contains(quint64 id) const { return m_pending.find(id) != m_pending.end(); }
    /// Does nothing if the release \a id has no future.
    void end(quint64 id, bool released);
    /// With false.
    void endAll();

private:
    std::map<quint64, QPromise<bool>> m_pending;
};

} // namespace QDistLock
