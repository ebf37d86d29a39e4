// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include <QDistLock/scopedlock.h>

#include "background/lockservice.h"
#include "background/threadlocks.h"
#include "base/holdkind.h"
#include "base/logging.h"
#include "engine/servername.h"
#include "lock/distributedlock_p.h"
#include "lock/lockregistry_p.h"
#include "lock/resolvedaddress.h"

#include <QtCore/qcoreapplication.h>
#include <QtCore/qthread.h>

#include <optional>
#include <utility>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace QDistLock {

namespace {

/// How long the GUI thread waits for a server: longer than a working network needs, and short enough for a user.
constexpr milliseconds GuiThreadTimeout = 1s;

std::atomic<bool> guiThreadWaitAllowed{false};

bool isGuiThread()
{
    const QCoreApplication *const application = QCoreApplication::instance();
    return application && application->thread() == QThread::currentThread() && application->inherits("QGuiApplication");
}

} // namespace

LockUnavailable::LockUnavailable(const LockResult &result)
    : m_result(result)
    , m_what(result.errorString.toUtf8())
{
}

LockUnavailable::~LockUnavailable() = default;

void LockUnavailable::raise() const
{
    throw *this;
}

LockUnavailable *LockUnavailable::clone() const
{
    return new LockUnavailable(*this);
}

LockLost::LockLost(const QString &lockName, const QString &message)
    : m_lockName(lockName)
    , m_what(message.toUtf8())
{
}

LockLost::~LockLost() = default;

void LockLost::raise() const
{
    throw *this;
}

LockLost *LockLost::clone() const
{
    return new LockLost(*this);
}

/// A scope that waits for a lock which its own thread holds never gets it. Names that holder, as an addition to the
/// error text; empty if the thread holds none of the locks.
static QString ownHolder(const QList<LockAddress> &addresses)
{
    for (const LockAddress &address : addresses) {
        const QString lock = addresses.size() == 1 ? u"it"_s : u"lock "_s + Detail::quoted(address.name());
        if (LockRegistryPrivate::isHeldInThisThread(address)) {
            return u"; a DistributedLock of this same thread holds %1 and cannot release it while the thread waits here: release it first, or do the work under that lock"_s
                    .arg(lock);
        }
        const QString work = ThreadLocks::unfinishedWork(address);
        if (work.isEmpty())
            continue;
        return u"; %1 of this same thread holds %2 until the QFuture of its work has finished, which the thread "
               "cannot notice while it waits here; code that runs after the work has returned that QFuture is not under the lock: leave out this scope, or keep a scope that the work began"_s
                       .arg(work, lock);
    }
    return QString();
}

ScopedLock::ScopedLock(const LockAddress &address, const LockOptions &options)
    : m_addresses{resolved(address)}
    , m_thread(QThread::currentThreadId())
{
    acquire(ThreadLocks::find(m_addresses.first()), options);
}

ScopedLock::ScopedLock(const QList<LockAddress> &addresses, std::shared_ptr<LockHold> outer, const LockOptions &options)
    : m_addresses(addresses)
    , m_thread(QThread::currentThreadId())
{
    acquire(std::move(outer), options);
}

/// \a text after the names of the locks.
QString ScopedLock::describe(const QString &text) const
{
    QStringList names;
    for (const LockAddress &address : m_addresses)
        names.append(address.name());
    return u"%1: %2"_s.arg(subjectOf(names), text);
}

/// For the log: \a text with the fields of the lock, if it is about one.
QString ScopedLock::logLine(const QString &text) const
{
    if (m_addresses.size() > 1)
        return text;
    const LockAddress &address = m_addresses.first();
    return m_hold ? m_hold->logLine(text, address) : withFields(text, address.name());
}

void ScopedLock::fail(DistributedLock::Error error, const QString &text)
{
    m_result = {error, describe(text), 0};
}

/// Re-enters \a outer, if that is not null.
void ScopedLock::acquire(std::shared_ptr<LockHold> outer, const LockOptions &options)
{
    if (outer && !covers(outer->options(), options)) {
        fail(DistributedLock::UpgradeError,
             u"this thread %1; end that scope first, or begin it in LockOptions::Exclusive without permits"_s.arg(
                     whyNotCovered(outer->options(), options)));
        qCWarning(lcLock, "%ls", qUtf16Printable(logLine(m_result.errorString)));
        return;
    }
    if (outer && outer->reenter()) {
        // This level gets a shared pointer with a separate reference count, because its entry in ThreadLocks ends
        // with that pointer.
        LockHold *const hold = outer.get();
        m_hold = {std::make_shared<std::shared_ptr<LockHold>>(std::move(outer)), hold};
        m_result.fencingToken = m_hold->fencingToken(m_addresses.first());
        // All locks that were acquired together stay held with this one.
        for (const LockAddress &address : hold->addresses())
            ThreadLocks::push(address, m_hold);
        return;
    }
    LockService *const service = LockService::instance();
    if (service->isCurrentThread()) {
        fail(DistributedLock::OptionsError,
             u"a scoped lock in the library's own thread would wait for itself; use it in a thread of the application"_s);
        qCWarning(lcLock, "%ls", qUtf16Printable(logLine(m_result.errorString)));
        return;
    }
    const bool inGuiThread = isGuiThread();
    if (inGuiThread && options.wait > 0ms && !isGuiThreadWaitAllowed()) {
        fail(DistributedLock::BusyError,
             u"not acquired, because waiting in the GUI thread would freeze the user interface; use wait = 0, a worker thread or DistributedLock, or allow the wait with ScopedLock::setGuiThreadWaitAllowed()"_s);
        qCWarning(lcLock, "%ls", qUtf16Printable(logLine(m_result.errorString)));
        return;
    }
    if (options.wait == LockOptions::Forever) {
        if (const QString holder = ownHolder(m_addresses); !holder.isEmpty()) {
            qCWarning(lcLock, "%ls", qUtf16Printable(logLine(describe(u"a scope waits without a limit"_s) + holder)));
        }
    }
    const bool failFast = inGuiThread && options.wait == 0ms;
    auto hold = service->acquire(m_addresses, options, nullptr, failFast);
    if (!hold->waitUntilEnded(failFast ? std::optional(GuiThreadTimeout) : std::nullopt)) {
        hold->release();
        fail(DistributedLock::ConnectionError,
             u"%1 did not answer within %2 ms, and the GUI thread waits no longer; check that the server is reachable and running"_s
                     .arg(withoutSecrets(m_addresses.first().server()).toString(),
                          QString::number(GuiThreadTimeout.count())));
        return;
    }
    m_result = hold->result();
    if (!m_result) {
        if (m_result.error == DistributedLock::BusyError || m_result.error == DistributedLock::TimeoutError)
            m_result.errorString += ownHolder(m_addresses);
        return;
    }
    if (!hold->isHeld()) {
        fail(DistributedLock::CancelledError,
             u"acquired, but lost before the waiting thread continued; use a longer lease than %1 ms"_s.arg(
                     options.lease.count()));
        return;
    }
    m_hold = std::move(hold);
    for (const LockAddress &address : m_addresses)
        ThreadLocks::push(address, m_hold);
}

ScopedLock::~ScopedLock()
{
    if (!m_hold || m_released.exchange(true))
        return;
    if (m_thread == QThread::currentThreadId()) {
        ThreadLocks::remove(m_hold);
    } else {
        qCWarning(lcLock, "%ls",
                  qUtf16Printable(logLine(
                          describe(u"the scope was destroyed in another thread than it was constructed in"_s))));
    }
    if (m_hold->leave())
        m_hold->release();
}

bool ScopedLock::isHeld() const
{
    return m_hold && !m_released.load(std::memory_order_relaxed) && m_hold->isHeld();
}

void ScopedLock::check() const
{
    if (isHeld())
        return;
    QString text = result().errorString;
    if (text.isEmpty()) {
        text = describe(
                m_addresses.size() == 1
                        ? u"it is not held any more; stop the work that needs it, and acquire it again"_s
                        : u"they are not held any more; stop the work that needs them, and acquire them again"_s);
    }
    throw LockLost(name(), text);
}

qint64 ScopedLock::fencingToken() const
{
    return m_result.fencingToken;
}

LockResult ScopedLock::result() const
{
    if (!m_misused.load(std::memory_order_relaxed))
        return m_result;
    return {DistributedLock::OptionsError,
            describe(
                    u"release() in another thread than the acquiring one was refused; call release() in that thread"_s),
            m_result.fencingToken};
}

bool ScopedLock::release()
{
    return release(endOfReleaseWait());
}

Deadline ScopedLock::endOfReleaseWait()
{
    return isGuiThread() ? Deadline(GuiThreadTimeout) : Deadline(NeverTime);
}

bool ScopedLock::release(const Deadline &waitEnd)
{
    if (m_thread != QThread::currentThreadId()) {
        m_misused.store(true, std::memory_order_relaxed);
        qCWarning(lcLock, "%ls", qUtf16Printable(logLine(result().errorString)));
        return false;
    }
    if (!m_hold || m_released.exchange(true))
        return false;
    ThreadLocks::remove(m_hold);
    if (!m_hold->leave())
        return m_hold->isHeld();
    return m_hold->releaseAndWait(waitEnd.isForever() ? std::nullopt : std::optional(waitEnd.remaining()));
}

void ScopedLock::setGuiThreadWaitAllowed(bool allowed)
{
    guiThreadWaitAllowed.store(allowed, std::memory_order_relaxed);
}

bool ScopedLock::isGuiThreadWaitAllowed()
{
    return guiThreadWaitAllowed.load(std::memory_order_relaxed);
}

/// Any hold is good enough for who may share the lock.
static bool isHeldHere(const LockAddress &address, const LockOptions &options)
{
    const auto hold = ThreadLocks::find(resolved(address));
    return hold && (options.mode == LockOptions::Shared || covers(hold->options(), options));
}

bool isLockedHere(const LockAddress &address, LockOptions::Mode mode)
{
    return isHeldHere(address, LockOptions().withMode(mode));
}

qint64 fencingTokenHere(const LockAddress &address)
{
    const LockAddress lock = resolved(address);
    const auto hold = ThreadLocks::find(lock);
    return hold ? hold->fencingToken(lock) : 0;
}

void Detail::throwUnlessAcquired(const ScopedLock &lock)
{
    if (const LockResult result = lock.result(); !result)
        throw LockUnavailable(result);
}

void Detail::assertLocked(const char *function, const char *file, int line, const LockAddress &address,
                          const LockOptions &options)
{
    if (isHeldHere(address, options))
        return;
    QMessageLogger(file, line, function)
            .fatal("QDL_ASSERT_LOCKED: %s runs without the lock %ls, in file %s, line %d", function,
                   qUtf16Printable(Detail::quoted(address.name())), file, line);
}

} // namespace QDistLock
