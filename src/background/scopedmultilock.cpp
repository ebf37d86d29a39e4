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
    if (options.permits != 0)
        return refused(m_name, u"a ScopedMultiLock takes no permits; leave `permits` 0, or use a ScopedLock"_s);
    const auto keyAndServer = [](const LockAddress &lock) {
        return u"%1 on %2"_s.arg(Detail::quoted(keyOf(lock)), withoutSecrets(lock.server()).toString());
    };
    QList<LockAddress> locks; // each of them once
    for (const LockAddress &address : addresses) {
        const LockAddress lock = resolved(address);
        const LockAddress &first = locks.isEmpty() ? lock : locks.first();
        if (!isSameLockSpace(lock.server(), first.server()) || lock.keyPrefix() != first.keyPrefix()) {
            return refused(
                    lock.name(),
                    u"its key is %1, that of lock %2 is %3; give all locks of a ScopedMultiLock one server and one key prefix, or nest scopes, in one order everywhere"_s
                            .arg(keyAndServer(lock), Detail::quoted(m_name), keyAndServer(first)));
        }
        const bool isRepeated = std::any_of(locks.cbegin(), locks.cend(),
                                            [&lock](const LockAddress &other) { return isSameLock(lock, other); });
        if (!isRepeated)
            locks.append(lock);
    }
    if (locks.size() > MultiLock::MaximumNames)
        return refused(m_name, u"a ScopedMultiLock has at most %1 locks"_s.arg(MultiLock::MaximumNames));

    // What this thread holds is looked up once: it may change at any time.
    std::vector<std::pair<std::shared_ptr<LockHold>, QList<LockAddress>>> parts;
    QList<LockAddress> others;
    for (const LockAddress &lock : std::as_const(locks)) {
        auto outer = ThreadLocks::find(lock);
        if (!outer) {
            others.append(lock);
            continue;
        }
        const auto part = std::find_if(parts.begin(), parts.end(),
                                       [&outer](const auto &other) { return other.first.get() == outer.get(); });
        if (part != parts.end())
            part->second.append(lock);
        else
            parts.emplace_back(std::move(outer), QList<LockAddress>{lock});
    }
    if (!others.isEmpty())
        parts.emplace_back(nullptr, others); // the last one, because it may wait
    m_scopes.reserve(parts.size());
    for (auto &[outer, partLocks] : parts) {
        m_scopes.emplace_back(new ScopedLock(partLocks, std::move(outer), options));
        if (const LockResult result = m_scopes.back()->result(); !result)
            return result;
    }
    for (const auto &scope : m_scopes) {
        if (!scope->isHeld()) {
            return acquireFailure(DistributedLock::CancelledError, scope->name(),
                                  u"it was lost while this thread waited for the others; acquire all again"_s);
        }
    }
    return {DistributedLock::NoError, QString(), fencingToken(locks.first())};
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
