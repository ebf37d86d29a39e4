// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include <QDistLock/scopedmultilock.h>

#include "background/lockhold.h"
#include "background/threadlocks.h"
#include "engine/servername.h"
#include "lock/resolvedaddress.h"

#include <algorithm>

using namespace Qt::StringLiterals;

namespace QDistLock {

ScopedMultiLock::ScopedMultiLock(const QList<LockAddress> &addresses, const LockOptions &options)
    : m_name(addresses.isEmpty() ? QString() : addresses.first().name())
{
    m_result = acquire(addresses, options);
    if (!m_result)
        m_scopes.clear();
}

ScopedMultiLock::~ScopedMultiLock() = default;

LockResult ScopedMultiLock::acquire(const QList<LockAddress> &addresses, const LockOptions &options)
{
    if (addresses.isEmpty())
        return {DistributedLock::NameError, u"A ScopedMultiLock without names has nothing to acquire; name some"_s, 0};
    if (options.permits != 0) {
        return acquireFailure(DistributedLock::OptionsError, m_name,
                              u"a ScopedMultiLock takes no permits; leave `permits` 0, or use a ScopedLock"_s);
    }
    const LockAddress first = resolved(addresses.first());
    QList<LockAddress> held;
    QList<LockAddress> others;
    for (const LockAddress &address : addresses) {
        const LockAddress lock = resolved(address);
        if (!isSameLockSpace(lock.server(), first.server()) || lock.keyPrefix() != first.keyPrefix()) {
            return acquireFailure(
                    DistributedLock::OptionsError, lock.name(),
                    u"its server or key prefix is not that of lock %1; give all locks of a ScopedMultiLock the same, or nest scopes, in one order everywhere"_s
                            .arg(Detail::quoted(m_name)));
        }
        (ThreadLocks::find(lock) ? held : others).append(lock);
    }
    const auto enter = [this, &options](const QList<LockAddress> &locks) {
        m_scopes.emplace_back(new ScopedLock(locks, options));
        return m_scopes.back()->result();
    };
    for (const LockAddress &lock : std::as_const(held)) {
        if (const LockResult result = enter({lock}); !result)
            return result;
    }
    if (!others.isEmpty()) {
        if (const LockResult result = enter(others); !result)
            return result;
    }
    for (const auto &scope : m_scopes) {
        if (!scope->isHeld()) {
            return acquireFailure(DistributedLock::CancelledError, scope->name(),
                                  u"it was lost while this thread waited for the others; acquire all again"_s);
        }
    }
    return {DistributedLock::NoError, QString(), fencingToken(first)};
}

bool ScopedMultiLock::isHeld() const
{
    return !m_scopes.empty()
            && std::all_of(m_scopes.cbegin(), m_scopes.cend(), [](const auto &scope) { return scope->isHeld(); });
}

void ScopedMultiLock::check() const
{
    if (m_scopes.empty())
        throw LockLost(m_name, m_result.errorString);
    for (const auto &scope : m_scopes)
        scope->check();
}

qint64 ScopedMultiLock::fencingToken(const LockAddress &address) const
{
    const LockAddress wanted = resolved(address);
    for (const auto &scope : m_scopes) {
        for (const LockAddress &lock : scope->m_addresses) {
            if (keyOf(lock) == keyOf(wanted) && isSameLockSpace(lock.server(), wanted.server()))
                return scope->m_hold->fencingToken(lock);
        }
    }
    return 0;
}

LockResult ScopedMultiLock::result() const
{
    for (const auto &scope : m_scopes) {
        if (const LockResult misused = scope->result(); !misused)
            return misused;
    }
    return m_result;
}

bool ScopedMultiLock::release()
{
    bool areReleased = !m_scopes.empty();
    for (const auto &scope : m_scopes)
        areReleased &= scope->release();
    return areReleased;
}

} // namespace QDistLock
