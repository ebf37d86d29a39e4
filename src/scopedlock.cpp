// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include <QDistLock/scopedlock.h>

#include "lockregistry_p.h"
#include "lockservice.h"
#include "logging.h"
#include "servername.h"

#include <QtCore/qcoreapplication.h>
#include <QtCore/qthread.h>

#include <optional>

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace QDistLock {

namespace {

/// Longer than any answer on a network that works, and as long as a user puts up with.
constexpr milliseconds GuiThreadPatience = 1s;

std::atomic<bool> guiThreadWaitAllowed{false};

bool isGuiThread()
{
    const QCoreApplication *const application = QCoreApplication::instance();
    return application && application->thread() == QThread::currentThread() && application->inherits("QGuiApplication");
}

/// In the spelling of normalizedServer().
QUrl serverOf(const QUrl &server)
{
    return server.isEmpty() ? LockRegistry::defaultServer() : normalizedServer(server);
}

std::optional<milliseconds> patience()
{
    return isGuiThread() ? std::optional(GuiThreadPatience) : std::nullopt;
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

/// For the error of a scope that waited for its own thread, in vain; empty if it did not.
static QString ownHolder(const QUrl &server, const QString &key)
{
    if (LockRegistryPrivate::isHeldInThisThread(server, key)) {
        return QStringLiteral("; a DistributedLock of this same thread holds it and cannot release it while the thread waits "
                              "here: release it first, or work under that one");
    }
    const QString work = ThreadLocks::unfinishedWork(server, key);
    if (work.isEmpty())
        return QString();
    return QStringLiteral("; %1 of this same thread holds it until the QFuture of its work has finished, which the thread "
                          "cannot notice while it waits here; code that runs after the work has returned that QFuture is not "
                          "under the lock: leave out this scope, or keep a scope that the work began")
            .arg(work);
}

ScopedLock::ScopedLock(const QString &name, const LockOptions &options)
    : ScopedLock(QUrl(), name, options)
{
}

ScopedLock::ScopedLock(const QUrl &server, const QString &name, const LockOptions &options)
    : m_name(name)
    , m_thread(QThread::currentThreadId())
{
    acquire(serverOf(server), options);
}

void ScopedLock::fail(DistributedLock::Error error, const QString &text)
{
    m_result = {error, QStringLiteral("Lock %1: %2").arg(Detail::quoted(m_name), text), 0};
}

void ScopedLock::acquire(const QUrl &server, const LockOptions &options)
{
    if (auto outer = ThreadLocks::find(server, options.keyPrefix, m_name); outer && outer->reenter()) {
        // A pointer for this level alone, so that its entry ends with it.
        LockHold *const hold = outer.get();
        m_hold = {std::make_shared<std::shared_ptr<LockHold>>(std::move(outer)), hold};
        m_result.fencingToken = m_hold->fencingToken();
        ThreadLocks::push(server, options.keyPrefix + m_name, m_hold);
        return;
    }
    LockService *const service = LockService::instance();
    if (service->isCurrentThread()) {
        fail(DistributedLock::OptionsError, QStringLiteral("a scoped lock in the library's own thread would wait for "
                                                           "itself; use it in a thread of the application"));
        qCWarning(lcLock, "%ls", qUtf16Printable(m_result.errorString));
        return;
    }
    const bool inGuiThread = isGuiThread();
    if (inGuiThread && options.wait > 0ms && !isGuiThreadWaitAllowed()) {
        fail(DistributedLock::BusyError,
             QStringLiteral("waiting in the GUI thread would freeze the user interface, so it was not tried; use "
                            "wait = 0, a worker thread or DistributedLock, or allow it with "
                            "ScopedLock::setGuiThreadWaitAllowed()"));
        qCWarning(lcLock, "%ls", qUtf16Printable(m_result.errorString));
        return;
    }
    if (options.wait == LockOptions::Forever) {
        if (const QString holder = ownHolder(server, options.keyPrefix + m_name); !holder.isEmpty()) {
            qCWarning(lcLock, "Lock %ls: a scope waits without a limit%ls", qUtf16Printable(Detail::quoted(m_name)),
                      qUtf16Printable(holder));
        }
    }
    const bool impatient = inGuiThread && options.wait == 0ms;
    auto hold = service->acquire(server, m_name, options, nullptr, impatient);
    if (!hold->waitUntilEnded(impatient ? patience() : std::nullopt)) {
        hold->release();
        fail(DistributedLock::ConnectionError,
             QStringLiteral("the server did not answer within %1 ms, and the GUI thread waits no longer; look "
                            "whether it is reachable and alive")
                     .arg(GuiThreadPatience.count()));
        return;
    }
    m_result = hold->result();
    if (!m_result) {
        if (m_result.error == DistributedLock::BusyError || m_result.error == DistributedLock::TimeoutError)
            m_result.errorString += ownHolder(server, options.keyPrefix + m_name);
        return;
    }
    if (!hold->isHeld()) {
        fail(DistributedLock::CancelledError, QStringLiteral("the hold ended before the waiting thread could go on; use "
                                                             "a longer lease than %1 ms")
                                                      .arg(options.lease.count()));
        return;
    }
    m_hold = std::move(hold);
    ThreadLocks::push(server, options.keyPrefix + m_name, m_hold);
}

ScopedLock::~ScopedLock()
{
    if (!m_hold || m_released.exchange(true))
        return;
    if (m_thread == QThread::currentThreadId()) {
        ThreadLocks::remove(m_hold);
    } else {
        qCWarning(lcLock, "Lock %ls: its ScopedLock was destroyed in another thread than it was made in",
                  qUtf16Printable(Detail::quoted(m_name)));
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
        text = QStringLiteral("Lock %1: it is not held any more; stop what needs it, and acquire it again")
                       .arg(Detail::quoted(m_name));
    }
    throw LockLost(m_name, text);
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
            QStringLiteral("Lock %1: release() in another thread than the one that acquired it was refused; "
                           "release it there")
                    .arg(Detail::quoted(m_name)),
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
    return m_hold->leave() ? m_hold->releaseAndWait(patience()) : m_hold->isHeld();
}

void ScopedLock::setGuiThreadWaitAllowed(bool allowed)
{
    guiThreadWaitAllowed.store(allowed, std::memory_order_relaxed);
}

bool ScopedLock::isGuiThreadWaitAllowed()
{
    return guiThreadWaitAllowed.load(std::memory_order_relaxed);
}

bool isLockedHere(const QString &name, const LockOptions &options)
{
    return isLockedHere(QUrl(), name, options);
}

bool isLockedHere(const QUrl &server, const QString &name, const LockOptions &options)
{
    return ThreadLocks::find(serverOf(server), options.keyPrefix, name) != nullptr;
}

qint64 fencingTokenHere(const QString &name, const LockOptions &options)
{
    return fencingTokenHere(QUrl(), name, options);
}

qint64 fencingTokenHere(const QUrl &server, const QString &name, const LockOptions &options)
{
    const auto hold = ThreadLocks::find(serverOf(server), options.keyPrefix, name);
    return hold ? hold->fencingToken() : 0;
}

void Detail::throwUnlessAcquired(const ScopedLock &lock)
{
    if (const LockResult result = lock.result(); !result)
        throw LockUnavailable(result);
}

void Detail::assertLocked(const char *function, const char *file, int line, const QString &name,
                          const LockOptions &options)
{
    if (isLockedHere(name, options))
        return;
    QMessageLogger(file, line, function)
            .fatal("QDL_ASSERT_LOCKED: %s runs without the lock %ls, in file %s, line %d", function,
                   qUtf16Printable(Detail::quoted(name)), file, line);
}

} // namespace QDistLock
