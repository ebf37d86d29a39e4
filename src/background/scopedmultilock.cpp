// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include <QDistLock/multilock.h>
#include <QDistLock/scopedmultilock.h>

#include "background/lockhold.h"
#include "background/threadlocks.h"
#include "base/leaseclock.h"
#include "engine/servername.h"
#include "lock/resolvedaddress.h"

#include <QtCore/qthread.h>

#include <algorithm>
#include <utility>

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
    const auto refused = [](const QString &name, const QString &text) {
        return acquireFailure(DistributedLock::OptionsError, name, text);
    };
    if (addresses.size() > MultiLock::MaximumNames)
        return refused(m_name, u"a ScopedMultiLock has at most %1 locks"_s.arg(MultiLock::MaximumNames));
    if (options.permits != 0)
        return refused(m_name, u"a ScopedMultiLock takes no permits; leave `permits` 0, or use a ScopedLock"_s);
    const LockAddress first = resolved(addresses.first());
    std::vector<std::pair<LockAddress, std::shared_ptr<LockHold>>> held;
    QList<LockAddress> others;
    for (const LockAddress &address : addresses) {
        const LockAddress lock = resolved(address);
        if (!isSameLockSpace(lock.server(), first.server()) || lock.keyPrefix() != first.keyPrefix()) {
            return refused(
                    lock.name(),
                    u"its server or key prefix is not that of lock %1; give all locks of a ScopedMultiLock the same, or nest scopes, in one order everywhere"_s
                            .arg(Detail::quoted(m_name)));
        }
        if (auto outer = ThreadLocks::find(lock))
            held.emplace_back(lock, std::move(outer));
        else
            others.append(lock);
    }
    const auto enter = [this, &options](const QList<LockAddress> &locks, std::shared_ptr<LockHold> outer) {
        m_scopes.emplace_back(new ScopedLock(locks, std::move(outer), options));
        return m_scopes.back()->result();
    };
    for (auto &[lock, outer] : held) {
        if (const LockResult result = enter({lock}, std::move(outer)); !result)
            return result;
    }
    if (!others.isEmpty()) {
        if (const LockResult result = enter(others, nullptr); !result)
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
            if (isSameLock(lock, wanted))
                return scope->m_hold->fencingToken(wanted);
        }
    }
    return 0;
}

LockResult ScopedMultiLock::result() const
{
    LockResult result = m_scopes.empty() ? m_result : m_scopes.front()->result(); // of a misuse, if there was one
    result.fencingToken = m_result.fencingToken;
    return result;
}

bool ScopedMultiLock::release()
{
    if (m_scopes.empty() || m_scopes.front()->m_thread != QThread::currentThreadId())
        return !m_scopes.empty() && m_scopes.front()->release(); // refused, and remembered
    const Deadline waitEnd = ScopedLock::endOfReleaseWait();
    bool areReleased = true;
    for (const auto &scope : m_scopes)
        areReleased &= scope->release(waitEnd);
    return areReleased;
}

} // namespace QDistLock
