// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "lockset.h"

#include "lockview.h"
#include "output.h"
#include "session.h"

#include <QDistLock/Semaphore>
#include <QDistLock/impl/acquiretogether.h>
#include <QDistLock/impl/namebytes.h>

#include <QtCore/qfuture.h>
#include <QtCore/qjsonarray.h>

#include <algorithm>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using QDistLock::DistributedLock;
using QDistLock::LockInfo;
using QDistLock::LockOptions;
using QDistLock::LockRegistry;
using QDistLock::LockResult;
using QDistLock::Semaphore;
using QDistLock::Detail::quoted;
using std::chrono::milliseconds;

namespace Cli {

namespace {

/// How long the end of the program waits for the server to confirm a release, and a failure to learn who the holder is.
constexpr milliseconds ReplyTimeout = 2s;
/// Who holds the lock is asked this much before the end of the wait. A server that has not answered by then is not in
/// use by somebody else: it is frozen, or cannot be reached.
constexpr milliseconds AnswerTime = 500ms;

/// With the end of its lease, unless the holder is there and renews it: that time says nothing then.
QString holderWithEnd(const LockInfo &info)
{
    const bool isRenewed = info.isHolderConnected() && !info.foreign;
    const QString end = info.remaining < 0ms ? u", and never expires"_s
            : info.holders.size() > 1        ? u", %1 left of the longest lease"_s.arg(remainingText(info))
                                             : u", %1 left of its lease"_s.arg(remainingText(info));
    return isRenewed && info.remaining >= 0ms ? info.holderText() : info.holderText() + end;
}

} // namespace

LockSet::LockSet(Session *session, const QStringList &names)
    : m_session(session)
    , m_names(names)
{
    const int permits = session->lockOptions().permits;
    for (const QString &name : names) {
        m_locks.push_back(permits == 0 ? std::make_unique<DistributedLock>(session->registry(), name)
                                       : std::make_unique<Semaphore>(session->registry(), name, permits));
    }
    for (const auto &lock : m_locks)
        m_inGivenOrder.push_back(lock.get());
    std::sort(m_locks.begin(), m_locks.end(),
              [](const auto &a, const auto &b) { return QDistLock::Detail::isAcquiredBefore(a->name(), b->name()); });
    for (const auto &owned : m_locks) {
        DistributedLock *const lock = owned.get();
        connect(lock, &DistributedLock::lost, this,
                [this, lock](DistributedLock::LossReason reason) { lockLost(lock, reason); });
        connect(lock, &DistributedLock::renewed, this, [this] {
            if (m_phase == Held)
                Q_EMIT deadlineChanged();
            else if (m_phase == Acquiring)
                endIfFresh();
        });
        connect(lock, &DistributedLock::atRisk, this, [this, lock](int remainingMs) {
            if (m_phase == Held) {
                Q_EMIT atRisk(u"lock %1 could not be renewed yet%2, and is lost in %3"_s.arg(
                        quoted(lock->name()), problemText(lock), roughText(milliseconds(remainingMs))));
            }
        });
        connect(lock, &DistributedLock::errorOccurred, this, [this, lock] {
            // An acquire that has ended reports its error itself; --connect-timeout reports that the server was never
            // reached. The problems of a lock that is held are worth a line when it is at risk.
            const bool isWaiting = m_phase == Acquiring && lock->state() == DistributedLock::Acquiring;
            if (isWaiting && m_session->isReadOnly(lock->errorString()))
                fail(lock->error(), lock->errorString());
            else if (isWaiting && m_session->wasReached())
                printNote(lock->errorString());
            else if (m_phase == Held)
                printDetail(lock->errorString());
        });
    }
    m_timer.setSingleShot(true);
    connect(&m_timer, &QTimer::timeout, this, &LockSet::timeReached);
    connect(session->registry(), &LockRegistry::stateChanged, this, [this] {
        if (m_phase == GivingBack && m_session->registry()->state() == LockRegistry::Ready)
            endFailure();
    });
    connect(session, &Session::failed, this, [this] {
        if (m_phase == Acquiring) {
            m_phase = Idle;
            Q_EMIT failed(m_session->exitCode());
        }
    });
}

LockSet::~LockSet()
{
    ++m_attempts;
    m_phase = Idle;
    m_locks.clear(); // ends their futures, while this object can still ignore that
}

void LockSet::acquire()
{
    const auto wait = m_session->lockOptions().wait;
    m_waitEnd = wait > 24h * 366 ? Never : presentMoment() + wait;
    const bool areReaders = m_session->invocation().has(Option::Shared) && qgetenv("QDISTLOCK_MODE") == "shared";
    const bool isOuterHere = qgetenv("QDISTLOCK_PLACE") == m_session->placeText() && !areReaders;
    const QStringList outer = QDistLock::Detail::nameText(qgetenv("QDISTLOCK_NAME")).split(u',', Qt::SkipEmptyParts);
    for (const QString &name : m_names) {
        if (isOuterHere && outer.contains(name)) {
            printNote(
                    u"lock %1 is held by the `qdistlock run` that has started this command, which waits for the end of this command"_s
                            .arg(quoted(name)));
        }
    }
    m_phase = Acquiring;
    m_session->startConnectTimeout();
    if (m_locks.size() > 1)
        attemptTogether();
    else
        attempt(0);
}

void LockSet::attemptTogether()
{
    const LockOptions options = beginAttempt();
    QList<DistributedLock *> locks;
    for (const auto &lock : m_locks) {
        lock->setOptions(options);
        locks += lock.get();
    }
    auto result = QDistLock::Detail::tryAcquireTogether(locks);
    if (!result) {
        attempt(0);
        return;
    }
    m_areTogether = true;
    result->then(this, [this, attempt = ++m_attempts](qsizetype refused) {
        if (attempt != m_attempts || m_phase != Acquiring)
            return;
        m_areTogether = false;
        m_next = refused < 0 ? m_locks.size() - 1 : size_t(refused);
        const DistributedLock *const lock = presentLock();
        if (refused < 0)
            attempted({});
        else if (!mayWait() || m_session->isReadOnly(lock->errorString()))
            attempted({lock->error(), lock->errorString(), 0});
        else
            beginAgain();
    });
}

/// Gives back what is held, as nothing has run yet, and acquires them in the order of their names.
void LockSet::beginAgain()
{
    for (const auto &lock : m_locks) {
        if (lock->state() == DistributedLock::Acquiring)
            lock->cancel();
        else if (lock->isHeld())
            lock->release();
    }
    attempt(0);
}

/// Returns the options for the locks of this attempt.
LockOptions LockSet::beginAttempt()
{
    LockOptions options = m_session->lockOptions();
    if (m_waitEnd != Never)
        options.wait = std::max(0ms, std::chrono::ceil<milliseconds>(m_waitEnd - presentMoment()));
    options.autoRenew = true; // until all are held
    m_isAsked = false;
    m_holder.reset();
    if (m_waitEnd != Never && mayWait())
        m_timer.start(options.wait - std::min(options.wait / 2, AnswerTime));
    return options;
}

void LockSet::attempt(size_t index)
{
    m_areTogether = false;
    m_next = index;
    DistributedLock *const lock = presentLock();
    lock->setOptions(beginAttempt());
    QFuture<LockResult> result = mayWait() ? lock->acquireAsync() : lock->tryAcquireAsync();
    result.then(this, [this, attempt = ++m_attempts](const LockResult &end) {
        if (attempt == m_attempts && m_phase == Acquiring)
            attempted(end);
    });
}

bool LockSet::mayWait() const
{
    return !m_session->invocation().has(Option::NonBlock) && m_session->lockOptions().wait > 0ms;
}

DistributedLock *LockSet::presentLock() const
{
    return m_locks.at(std::min(m_next, m_locks.size() - 1)).get();
}

void LockSet::attempted(const LockResult &result)
{
    switch (result.error) {
    case DistributedLock::NoError:
        m_timer.stop();
        if (m_next + 1 < m_locks.size())
            attempt(m_next + 1);
        else
            endIfFresh();
        break;
    case DistributedLock::CancelledError:
        beginAgain(); // it was held, and lost before that could be reported
        break;
    case DistributedLock::BusyError:
    case DistributedLock::TimeoutError:
        m_phase = Failing;
        m_conflict = result.error;
        if (!m_isAsked)
            askForHolder(result.error == DistributedLock::BusyError ? ReplyTimeout : AnswerTime);
        else if (m_holder || !m_timer.isActive())
            reportConflict();
        break;
    default:
        fail(result.error, result.errorString);
        break;
    }
}

/// Ends the acquire if the last one is held, and no renewal of the others is late.
void LockSet::endIfFresh()
{
    const LockOptions options = m_session->lockOptions();
    const bool isFresh = std::all_of(m_locks.begin(), m_locks.end() - 1, [&options](const auto &lock) {
        return lock->remainingTime() > options.lease / 2;
    });
    if (!m_locks.back()->isHeld() || !isFresh)
        return; // called again after the next renewal, or a lock is lost, and all begins again
    m_phase = Held;
    for (const auto &lock : m_locks)
        lock->setAutoRenew(options.autoRenew);
    Q_EMIT acquired();
}

void LockSet::askForHolder(milliseconds answerTime)
{
    m_isAsked = true;
    m_timer.start(answerTime);
    m_session->registry()
            ->inspect(presentLock()->name())
            .then(this, [this, attempt = m_attempts](const LockInfo &info) {
                if (attempt != m_attempts)
                    return;
                m_holder = info;
                if (m_phase == Failing)
                    reportConflict();
            });
}

void LockSet::timeReached()
{
    if (m_phase == Acquiring && m_areTogether)
        beginAgain(); // the server has not answered; it may answer while there is time
    else if (m_phase == Acquiring && !m_isAsked)
        askForHolder(AnswerTime);
    else if (m_phase == Failing)
        reportConflict(); // without an answer
    else if (m_phase == GivingBack)
        endFailure();
    else if (m_phase == Releasing)
        endRelease();
}

/// Prints who holds the lock. (The library's text advises programmers.)
void LockSet::reportConflict()
{
    const QString name = quoted(presentLock()->name());
    const milliseconds waited = m_session->lockOptions().wait;
    // "Busy" is an answer of the server. The end of the wait is none.
    const bool isWaitOver = m_conflict == DistributedLock::TimeoutError;
    if (isWaitOver && !m_holder) {
        fail(DistributedLock::ConnectionError,
             u"lock %1 on %2 was not acquired within %3 (-w): the server does not answer any more; check that it is reachable and alive"_s
                     .arg(name, m_session->serverText(), durationText(waited)));
        return;
    }
    const LockInfo info = m_holder.value_or(LockInfo());
    if (isWaitOver && m_session->exitCodeOf(info.error, info.errorString) == ServerUnavailable) {
        fail(info.error, info.errorString);
        return;
    }
    const bool isKnown = info.error == DistributedLock::NoError && info.held;
    QString holder = isKnown ? holderWithEnd(info) : u"somebody else"_s;
    const LockOptions options = m_session->lockOptions();
    if (info.readerCount > 0 && info.queueLength > 0 && options.mode == LockOptions::Shared)
        holder += u", while a writer waits"_s;
    const bool areEnough = info.permits - info.permitsTaken >= options.take;
    if (info.isHeldWithPermits() && options.permits != 0 && areEnough && info.queueLength > 0)
        holder += u", while another one waits"_s;
    const bool isNonBlocking = m_session->invocation().has(Option::NonBlock);
    if (mayWait()) {
        fail(m_conflict,
             u"lock %1 was not free within %2 (-w): it is held by %3"_s.arg(name, durationText(waited), holder));
    } else {
        fail(m_conflict,
             u"lock %1 is held by %2; to wait for it, %3"_s.arg(
                     name, holder,
                     isNonBlocking ? u"leave out -n, or give -w DUR instead"_s : u"give -w a longer time than 0"_s));
    }
}

void LockSet::fail(DistributedLock::Error error, const QString &text)
{
    const QString inOurWords = m_session->isReadOnly(text)
            ? u"lock %1: %2 is a read-only replica; give the URL of its master"_s.arg(quoted(presentLock()->name()),
                                                                                      m_session->serverText())
            : text;
    m_failure = m_session->fail(error, inOurWords);
    const bool isCut = error == DistributedLock::ConnectionError && m_phase == Acquiring && m_session->wasReached()
            && m_session->registry()->state() != LockRegistry::Ready;
    if (!isCut) {
        endFailure();
        return;
    }
    // The acquire may have run, and other locks may be held. Over the next connection, the library gives them back.
    m_phase = GivingBack;
    m_timer.start(ReplyTimeout);
}

void LockSet::endFailure()
{
    m_phase = Idle;
    m_timer.stop();
    Q_EMIT failed(m_failure);
}

void LockSet::lockLost(DistributedLock *lock, DistributedLock::LossReason reason)
{
    if (m_phase == Held) {
        Q_EMIT lost(lock, reason);
    } else if (m_phase == Acquiring) {
        // One of several, while another one was waited for.
        printDetail(lock->errorString());
        beginAgain();
    }
}

QString LockSet::fenceText() const
{
    QStringList fences;
    for (const DistributedLock *lock : m_inGivenOrder)
        fences += QString::number(lock->fencingToken());
    return fences.join(u',');
}

QList<int> heldSlots(const DistributedLock *lock)
{
    const auto *const semaphore = qobject_cast<const Semaphore *>(lock);
    return semaphore ? semaphore->heldSlots() : QList<int>();
}

void addSlots(QJsonObject *outcome, const QList<int> &permitSlots)
{
    QJsonArray numbers;
    for (const int slot : permitSlots)
        numbers.append(slot);
    if (!numbers.isEmpty())
        outcome->insert(u"slots"_s, numbers);
}

QString LockSet::slotText() const
{
    QStringList numbers;
    for (const DistributedLock *lock : m_inGivenOrder) {
        const QList<int> held = heldSlots(lock);
        for (const int slot : held)
            numbers += QString::number(slot);
    }
    return numbers.join(u',');
}

Moment LockSet::deadline() const
{
    const Moment now = presentMoment();
    Moment first = Never;
    for (const auto &lock : m_locks)
        first = std::min<Moment>(first, now + lock->remainingTime());
    return first;
}

QString LockSet::problemText(const DistributedLock *lock) const
{
    QString problem = m_session->registry()->errorString();
    if (problem.isEmpty())
        problem = lock->errorString();
    return problem.isEmpty() ? problem : u" (%1)"_s.arg(withoutStop(problem));
}

void LockSet::release()
{
    if (m_phase == Releasing)
        return;
    m_phase = Releasing;
    m_pendingReleases = 1;
    m_timer.start(ReplyTimeout);
    for (const auto &owned : m_locks) {
        DistributedLock *const lock = owned.get();
        if (lock->state() == DistributedLock::Acquiring) {
            lock->cancel();
        } else if (lock->isHeld()) {
            ++m_pendingReleases;
            lock->releaseAsync().then(this, [this, lock](bool confirmed) { lockReleased(lock, confirmed); });
        }
    }
    if (--m_pendingReleases == 0)
        endRelease();
}

void LockSet::lockReleased(DistributedLock *lock, bool confirmed)
{
    if (m_phase != Releasing)
        return;
    if (!confirmed)
        m_unconfirmed += lock->errorString();
    if (--m_pendingReleases == 0)
        endRelease();
}

void LockSet::endRelease()
{
    if (m_phase != Releasing)
        return;
    m_phase = Idle;
    m_timer.stop();
    for (const auto &lock : m_locks) {
        if (lock->state() == DistributedLock::Releasing) {
            m_unconfirmed +=
                    u"lock %1: the server has not confirmed the release; the lock is free after %2 at the latest"_s.arg(
                            quoted(lock->name()), roughText(lock->lease()));
        }
    }
    Q_EMIT released(m_unconfirmed);
}

} // namespace Cli
