// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include <QDistLock/scopedlock.h>

#include "background/lockservice.h"
#include "background/threadlocks.h"
#include "base/holdkind.h"
#include "base/logging.h"
#include "engine/servername.h"
#include "lock/lockregistry_p.h"
#include "lock/resolvedaddress.h"

#include <QtCore/qcoreapplication.h>
#include <QtCore/qthread.h>

#include <optional>

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

/// For a wait of the calling thread.
std::optional<milliseconds> serverTimeout()
{
    return isGuiThread() ? std::optional(GuiThreadTimeout) : std::nullopt;
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
/// error text; empty if the thread does not hold the lock.
static QString ownHolder(const LockAddress &address)
{
    if (LockRegistryPrivate::isHeldInThisThread(address)) {
        return u"; a DistributedLock of this same thread holds it and cannot release it while the thread waits here: release it first, or do the work under that lock"_s;
    }
    const QString work = ThreadLocks::unfinishedWork(address);
    if (work.isEmpty())
        return QString();
    return u"; %1 of this same thread holds it until the QFuture of its work has finished, which the thread "
           "cannot notice while it waits here; code that runs after the work has returned that QFuture is not under the lock: leave out this scope, or keep a scope that the work began"_s
                   .arg(work);
}

ScopedLock::ScopedLock(const LockAddress &address, const LockOptions &options)
    : m_address(resolved(address))
    , m_thread(QThread::currentThreadId())
{
    acquire(options);
}

void ScopedLock::fail(DistributedLock::Error error, const QString &text)
{
    m_result = {error, u"Lock %1: %2"_s.arg(Detail::quoted(name()), text), 0};
}

void ScopedLock::acquire(const LockOptions &options)
{
    auto outer = ThreadLocks::find(m_address);
    if (outer && !covers(outer->options(), options)) {
        fail(DistributedLock::UpgradeError,
             u"this thread %1; end that scope first, or begin it in LockOptions::Exclusive without permits"_s.arg(
                     whyNotCovered(outer->options(), options)));
        qCWarning(lcLock, "%ls", qUtf16Printable(m_result.errorString));
        return;
    }
    if (outer && outer->reenter()) {
        // This level gets a shared pointer with a separate reference count, because its entry in ThreadLocks ends
        // with that pointer.
        LockHold *const hold = outer.get();
        m_hold = {std::make_shared<std::shared_ptr<LockHold>>(std::move(outer)), hold};
        m_result.fencingToken = m_hold->fencingToken();
        ThreadLocks::push(m_address, m_hold);
        return;
    }
    LockService *const service = LockService::instance();
    if (service->isCurrentThread()) {
        fail(DistributedLock::OptionsError,
             u"a scoped lock in the library's own thread would wait for itself; use it in a thread of the application"_s);
        qCWarning(lcLock, "%ls", qUtf16Printable(m_result.errorString));
        return;
    }
    const bool inGuiThread = isGuiThread();
    if (inGuiThread && options.wait > 0ms && !isGuiThreadWaitAllowed()) {
        fail(DistributedLock::BusyError,
             u"not acquired, because waiting in the GUI thread would freeze the user interface; use wait = 0, a worker thread or DistributedLock, or allow the wait with ScopedLock::setGuiThreadWaitAllowed()"_s);
        qCWarning(lcLock, "%ls", qUtf16Printable(m_result.errorString));
        return;
    }
    if (options.wait == LockOptions::Forever) {
        if (const QString holder = ownHolder(m_address); !holder.isEmpty()) {
            qCWarning(lcLock, "Lock %ls: a scope waits without a limit%ls", qUtf16Printable(Detail::quoted(name())),
                      qUtf16Printable(holder));
        }
    }
    const bool failFast = inGuiThread && options.wait == 0ms;
    auto hold = service->acquire(m_address, options, nullptr, failFast);
    if (!hold->waitUntilEnded(failFast ? serverTimeout() : std::nullopt)) {
        hold->release();
        fail(DistributedLock::ConnectionError,
             u"%1 did not answer within %2 ms, and the GUI thread waits no longer; check that the server is reachable and running"_s
                     .arg(withoutSecrets(m_address.server()).toString(), QString::number(GuiThreadTimeout.count())));
        return;
    }
    m_result = hold->result();
    if (!m_result) {
        if (m_result.error == DistributedLock::BusyError || m_result.error == DistributedLock::TimeoutError)
            m_result.errorString += ownHolder(m_address);
        return;
    }
    if (!hold->isHeld()) {
        fail(DistributedLock::CancelledError,
             u"it was acquired, but lost before the waiting thread continued; use a longer lease than %1 ms"_s.arg(
                     options.lease.count()));
        return;
    }
    m_hold = std::move(hold);
    ThreadLocks::push(m_address, m_hold);
}

ScopedLock::~ScopedLock()
{
    if (!m_hold || m_released.exchange(true))
        return;
    if (m_thread == QThread::currentThreadId()) {
        ThreadLocks::remove(m_hold);
    } else {
        qCWarning(lcLock, "Lock %ls: its ScopedLock was destroyed in another thread than it was constructed in",
                  qUtf16Printable(Detail::quoted(name())));
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
        text = u"Lock %1: it is not held any more; stop the work that needs it, and acquire it again"_s.arg(
                Detail::quoted(name()));
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
            u"Lock %1: release() in another thread than the one that acquired it was refused; call release() in that thread"_s
                    .arg(Detail::quoted(name())),
            m_result.fencingToken};
}

bool ScopedLock::release()
{
    if (m_thread != QThread::currentThreadId()) {
        m_misused.store(true, std::memory_order_relaxed);
        qCWarning(lcLock, "%ls", qUtf16Printable(result().errorString));
        return false;
    }
    if (!m_hold || m_released.exchange(true))
        return false;
    ThreadLocks::remove(m_hold);
    return m_hold->leave() ? m_hold->releaseAndWait(serverTimeout()) : m_hold->isHeld();
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
    const auto hold = ThreadLocks::find(resolved(address));
    return hold ? hold->fencingToken() : 0;
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
