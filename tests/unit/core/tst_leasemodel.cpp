// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// LeaseMachine against a small model of a server, with random events: what the machine believes is compared with what
// the server holds.

#include "leasebench.h"

#include <QtCore/qhash.h>
#include <QtCore/qset.h>

#include <array>
#include <deque>
#include <optional>
#include <random>

namespace {

/*!
    A machine, a server that keeps one key, a network between them that delays, loses and cuts, and an
    application that does anything at any time.
*/
class Model : private LeaseMachine::EngineStatus
{
public:
    explicit Model(quint32 seed)
        : m_random(seed)
    {
    }
    bool isEngineReady() const override { return m_ready; }
    bool canBeWoken() const override { return m_wakeable; }

    /// Empty if all held.
    QString run(int events);

    qint64 holds = 0;
    qint64 losses = 0;
    qint64 abandons = 0;
    qint64 lateGrants = 0;
    qint64 handOvers = 0;
    qint64 unconfirmed = 0;

private:
    struct SentCommand
    {
        Command::Kind kind;
        int epoch;
        LeaseTime sentAt;
        nanoseconds duration;
        LockOptions options;
        bool enqueue = false;
        bool unsent = false;              ///< there was no connection
        std::optional<EngineReply> reply; ///< set when the server has executed it
    };
    struct Key
    {
        int epoch = 0; ///< 0 = nobody, -1 = somebody else
        LeaseTime expiry;
        bool given = false; ///< released, kept for minHold
    };
    struct Request
    {
        LeaseTime deadline;
        bool ended = false;
    };

    int below(int bound) { return int(m_random() % quint32(bound)); }
    void fail(const QString &text)
    {
        if (m_failure.isEmpty())
            m_failure = text;
    }
    void log(const QString &text)
    {
        if (m_log.size() >= 40)
            m_log.removeFirst();
        m_log.append(u"%1 ms: %2"_s.arg(double(m_now.time_since_epoch().count()) / 1e6, 0, 'f', 3).arg(text));
    }
    void execute(SentCommand &command);
    void loseReplicas(const SentCommand &command, EngineReply *reply);
    void handIn(const SentCommand &command, const EngineReply &reply);
    void deliver();
    void connectionLost();
    void connected();
    void interfere();
    void event();
    void notice();
    void handOver();
    void settle();
    void carryOut();
    void check();
    int holderNow() const { return m_now < m_key.expiry ? m_key.epoch : 0; }
    LockOptions randomOptions();

    std::mt19937 m_random;
    LeaseMachine m_machine{this};
    LeaseTime m_now{1h};
    Key m_key;
    std::deque<SentCommand> m_wire;
    QHash<quint64, Request> m_requests;
    QHash<quint64, bool> m_releases;
    QSet<int> m_abandoned;
    QSet<int> m_queued; ///< epochs with a place in the queue
    bool m_wakeable = false;
    QStringList m_log;
    QString m_failure;
    quint64 m_lastId = 0;
    qint64 m_fence = 0;
    int m_epoch = 0;
    bool m_ready = false;      ///< of the engine
    bool m_down = true;        ///< there is no connection
    bool m_held = false;       ///< Acquired was reported, neither Released nor Lost
    int m_interferedEpoch = 0; ///< somebody else has touched the key in this epoch
    LeaseTime m_deadline;      ///< as the model calculates it
    bool m_mustExtend = false; ///< a hand-over gave less than the lease
    LockOptions m_epochOptions;
};

LockOptions Model::randomOptions()
{
    LockOptions options;
    constexpr std::array<milliseconds, 6> leases{3ms, 20ms, 100ms, 1s, 30s, 24h};
    constexpr std::array<milliseconds, 6> waits{1ms, 50ms, 1s, 10s, LockOptions::Forever, LockOptions::Forever - 1ms};
    constexpr std::array<milliseconds, 4> intervals{1ms, 10ms, 100ms, 5s};
    options.lease = leases[size_t(below(int(leases.size())))];
    options.wait = waits[size_t(below(int(waits.size())))];
    if (options.lease < 5ms)
        options.wait = std::min<milliseconds>(options.wait, 10s); // can never be held
    options.retryInterval = intervals[size_t(below(int(intervals.size())))];
    options.maxRetries = below(3) == 0 ? below(4) : -1;
    options.autoRenew = below(4) != 0;
    options.minHold = below(4) == 0 ? options.lease / 2 : 0ms;
    options.minReplicas = below(3) == 0 ? 1 : 0;
    return options;
}

/// The server executes a command.
void Model::execute(SentCommand &command)
{
    if (command.reply)
        return;
    EngineReply reply;
    const int holder = holderNow();
    const bool mine = holder == command.epoch && !m_key.given;
    if (command.kind == Command::Acquire) {
        if (holder == 0 || mine) {
            m_key = {command.epoch, m_now + command.options.lease, false};
            m_queued.remove(command.epoch);
            reply.status = EngineReply::Granted;
            reply.fencingToken = ++m_fence;
        } else {
            reply.status = EngineReply::Taken;
            reply.holderTtl = std::chrono::ceil<milliseconds>(m_key.expiry - m_now);
            reply.foreignHolder = below(4) == 0;
            if (command.enqueue) {
                reply.queuePosition = below(3);
                reply.arrival = "1";
                m_queued.insert(command.epoch);
            }
        }
    } else if (holder == 0) {
        reply.status = EngineReply::Gone;
    } else if (holder != command.epoch) {
        reply.status = EngineReply::Stolen;
    } else {
        reply.status = EngineReply::Done;
        if (command.kind == Command::Renew)
            m_key.expiry = m_now + command.duration;
        else
            m_key = command.duration > 0ns ? Key{command.epoch, m_now + command.duration, true} : Key{};
    }
    loseReplicas(command, &reply);
    command.reply = reply;
}

/// Too few replicas confirm what the server has done.
void Model::loseReplicas(const SentCommand &command, EngineReply *reply)
{
    const bool isExecuted = reply->status == EngineReply::Granted
            || (reply->status == EngineReply::Done && command.kind == Command::Renew);
    if (!isExecuted || command.options.minReplicas == 0 || below(3) != 0)
        return;
    ++unconfirmed;
    *reply = {};
    reply->status = command.kind == Command::Acquire ? EngineReply::Unconfirmed : EngineReply::Failed;
    reply->error = EngineError::passing(DistributedLock::ReplicationError, u"0 of 1 replicas have it"_s);
}

void Model::carryOut()
{
    const auto outcomes = m_machine.takeOutcomes();
    for (const Outcome &outcome : outcomes) {
        log(u"-> "_s + toText(outcome));
        switch (outcome.kind) {
        case Outcome::Acquired:
        case Outcome::AcquireFailed: {
            Request &request = m_requests[outcome.id];
            if (std::exchange(request.ended, true))
                fail(u"acquire %1 ended twice"_s.arg(outcome.id));
            if (outcome.kind == Outcome::AcquireFailed) {
                if (outcome.error.code == DistributedLock::NoError
                    || (outcome.error.text.isEmpty() && outcome.error.rule == EngineError::NoRule))
                    fail(u"an error without code or text"_s);
            } else if (!std::exchange(m_held, true)) {
                ++holds;
            }
            break;
        }
        case Outcome::ReleaseDone:
            if (std::exchange(m_releases[outcome.id], true))
                fail(u"release %1 ended twice"_s.arg(outcome.id));
            break;
        case Outcome::Released:
            if (!std::exchange(m_held, false))
                fail(u"a hold ended that was none"_s);
            break;
        case Outcome::Lost:
            ++losses;
            if (!std::exchange(m_held, false))
                fail(u"a hold was lost that was none"_s);
            if ((outcome.reason == DistributedLock::Deleted || outcome.reason == DistributedLock::Stolen)
                && m_interferedEpoch != m_epoch)
                fail(u"lost to somebody who was not there"_s);
            break;
        case Outcome::Renewed:
        case Outcome::AtRisk:
            if (!m_held)
                fail(u"renewed or at risk while not held"_s);
            break;
        case Outcome::ErrorOccurred:
        case Outcome::ErrorCleared:
            break;
        }
    }
    const auto commands = m_machine.takeCommands();
    for (const Command &command : commands) {
        log(u"-> "_s + toText(command));
        switch (command.kind) {
        case Command::Acquire:
            if (command.freshToken) {
                ++m_epoch;
                m_epochOptions = m_machine.options();
            } else if (m_abandoned.contains(m_epoch)) {
                fail(u"an abandoned token is used again"_s);
            }
            if (command.enqueue && !m_wakeable)
                fail(u"joins a queue although it cannot be woken"_s);
            Q_FALLTHROUGH();
        case Command::Renew:
        case Command::Release:
            if (!m_ready)
                fail(u"sent without an engine"_s);
            for (const SentCommand &other : m_wire) {
                const bool overtakes = command.kind == Command::Release && other.kind == Command::Renew;
                if (other.epoch == m_epoch && other.kind != Command::Abandon && !overtakes)
                    fail(u"two commands in flight"_s);
            }
            m_wire.push_back(
                    {command.kind, m_epoch, m_now, command.duration, m_machine.options(), command.enqueue, m_down, {}});
            break;
        case Command::Abandon:
            ++abandons;
            if (m_abandoned.contains(m_epoch))
                fail(u"abandoned twice"_s);
            m_abandoned.insert(m_epoch);
            // The engine executes it after all commands in flight.
            m_wire.push_back({Command::Abandon,
                              m_epoch,
                              m_now,
                              command.duration,
                              m_machine.options(),
                              command.enqueue,
                              m_down,
                              {}});
            break;
        }
    }
}

void Model::handIn(const SentCommand &command, const EngineReply &reply)
{
    if (command.kind == Command::Abandon || command.epoch != m_epoch || m_abandoned.contains(command.epoch))
        return;
    log(u"reply %1 to %2"_s.arg(int(reply.status)).arg(int(command.kind)));
    const LeaseTime deadline = command.sentAt + m_epochOptions.lease - LeaseMachine::safetyMargin(m_epochOptions.lease);
    switch (command.kind) {
    case Command::Acquire:
        m_machine.acquireReplied(reply, m_now);
        if (reply.status != EngineReply::Granted)
            break;
        m_mustExtend = false;
        if (m_machine.phase() == LeaseMachine::Held)
            m_deadline = deadline;
        else
            ++lateGrants;
        break;
    case Command::Renew:
        m_machine.renewReplied(reply, m_now);
        if (m_machine.phase() == LeaseMachine::Held && reply.status == EngineReply::Done
            && (command.duration == nanoseconds(m_epochOptions.lease) || std::exchange(m_mustExtend, false)))
            m_deadline = command.sentAt + command.duration - LeaseMachine::safetyMargin(command.duration);
        break;
    default:
        m_machine.releaseReplied(reply, m_now);
        break;
    }
    carryOut();
}

/// The reply to the command sent first arrives.
void Model::deliver()
{
    if (m_wire.empty() || (m_down && !m_wire.front().unsent))
        return;
    SentCommand command = m_wire.front();
    m_wire.pop_front();
    if (command.unsent && command.kind != Command::Abandon)
        return handIn(command, failed(passing(false)));
    execute(command);
    handIn(command, *command.reply);
}

/// Commands in flight end without a reply; the server has executed some of them.
void Model::connectionLost()
{
    log(u"connection lost"_s);
    m_down = true;
    m_ready = false;
    int executed = below(int(m_wire.size()) + 1);
    std::deque<SentCommand> again;
    for (SentCommand &command : std::exchange(m_wire, {})) {
        if (command.unsent && command.kind != Command::Abandon) {
            again.push_back(command);
            continue;
        }
        if (executed-- > 0)
            execute(command);
        if (command.kind == Command::Abandon) {
            if (!command.reply)
                again.push_back(command); // the engine repeats it
            continue;
        }
        const bool unknown = command.reply || below(2) == 0;
        handIn(command, failed(passing(unknown)));
    }
    m_wire.insert(m_wire.begin(), again.begin(), again.end());
    m_machine.engineFailed(below(10) == 0 ? permanent() : passing(), m_now);
}

void Model::connected()
{
    if (!m_down || std::any_of(m_wire.begin(), m_wire.end(), [](const SentCommand &c) {
            return c.unsent && c.kind != Command::Abandon;
        }))
        return;
    log(u"connected"_s);
    m_down = false;
    m_ready = true;
    for (SentCommand &command : m_wire)
        command.unsent = false;
    m_machine.engineReady(m_now);
}

/// Somebody else takes a free key, or deletes or overwrites a key that is not theirs.
void Model::interfere()
{
    const int holder = holderNow();
    const bool free = holder == 0;
    if (!free && below(4) != 0)
        return;
    if (holder > 0)
        m_interferedEpoch = holder;
    log(u"interference"_s);
    if (free || below(2) == 0)
        m_key = {-1, m_now + milliseconds(1 + below(2000)), false};
    else
        m_key = {};
    if (!free && below(2) == 0)
        m_machine.forcedReleaseNoticed(m_now);
}

void Model::event()
{
    switch (below(20)) {
    case 0:
    case 1:
    case 2: {
        const bool once = below(4) == 0;
        const LockOptions options = randomOptions();
        const nanoseconds wait = options.wait < 24h ? nanoseconds(options.wait) : NeverTime - m_now;
        m_requests.insert(++m_lastId, {m_now + (once ? nanoseconds(5s) : wait), false});
        log(u"acquire %1 once %2 wait %3 lease %4"_s.arg(m_lastId)
                    .arg(once)
                    .arg(options.wait.count())
                    .arg(options.lease.count()));
        m_machine.acquire(m_lastId, once, options, m_now);
        break;
    }
    case 3:
        if (m_machine.phase() == LeaseMachine::Acquiring && below(4) != 0)
            break;
        m_releases.insert(++m_lastId, false);
        log(u"release %1"_s.arg(m_lastId));
        m_machine.release(m_lastId, m_now);
        break;
    case 4:
        if (below(8) == 0)
            m_machine.cancel(m_now);
        break;
    case 6:
        m_machine.setAutoRenew(below(2) == 0);
        break;
    case 7:
        if (!m_down && below(3) == 0)
            connectionLost();
        break;
    case 8:
        connected();
        break;
    case 9:
        interfere();
        break;
    case 10:
        if (below(4) == 0)
            m_machine.forcedReleaseNoticed(m_now); // forged
        else
            m_machine.serverReplaced(m_now);
        break;
    case 11:
        if (!m_wire.empty() && !m_down)
            execute(m_wire.front());
        break;
    case 12:
        m_now += nanoseconds(below(2'000'000));
        break;
    case 13:
        m_now += milliseconds(below(300));
        break;
    case 5: // suspended, or a blocked loop
        if (below(3) == 0)
            m_now += milliseconds(below(60'000));
        break;
    case 15:
    case 16:
        if (const LeaseTime next = m_machine.nextWakeUp(); next != NeverTime)
            m_now = std::max(m_now, next);
        break;
    case 14:
        notice();
        break;
    default:
        deliver();
        break;
    }
}

/// Something is announced, truthfully or forged.
void Model::notice()
{
    switch (below(5)) {
    case 0:
        m_wakeable = below(4) != 0;
        m_machine.wakeableChanged(m_now);
        break;
    case 1:
        m_machine.grantNoticed(m_now);
        break;
    case 2:
        m_machine.nextNoticed(milliseconds(below(3000)), m_now);
        break;
    default:
        handOver();
        break;
    }
}

/// Another lock of this client releases, and its reply, which may have been under way, brings the lock to us.
void Model::handOver()
{
    if (holderNow() > 0 || m_down || !m_queued.contains(m_epoch) || m_abandoned.contains(m_epoch)
        || m_machine.phase() != LeaseMachine::Acquiring)
        return;
    const milliseconds lease = below(4) == 0 ? milliseconds(700) : m_epochOptions.lease;
    const LeaseTime sentAt = m_now;
    m_queued.remove(m_epoch);
    m_key = {m_epoch, m_now + lease, false};
    m_now += milliseconds(below(30));
    log(u"handed over"_s);
    m_machine.handedOver({{}, {}, ++m_fence, sentAt, lease}, m_now);
    if (m_machine.phase() == LeaseMachine::Held) {
        if (m_epochOptions.minReplicas > 0)
            fail(u"believes a hand-over that no replica has confirmed"_s);
        ++handOvers;
        m_mustExtend = lease != m_epochOptions.lease;
        const milliseconds shorter = std::min(lease, m_epochOptions.lease);
        m_deadline = sentAt + shorter - LeaseMachine::safetyMargin(shorter);
    }
}

/// As the lock and its watchdog do after each event.
void Model::settle()
{
    carryOut();
    m_machine.tick(m_now);
    carryOut();
    check();
}

void Model::check()
{
    const LeaseMachine::Phase phase = m_machine.phase();
    const bool inHold = phase == LeaseMachine::Held || phase == LeaseMachine::Releasing;
    const bool epochEnded = phase == LeaseMachine::Unlocked;

    if (m_held != inHold)
        fail(u"the application believes something else than the machine"_s);
    if (m_machine.isHeld(m_now)) {
        if (m_now >= m_deadline)
            fail(u"held past the deadline"_s);
        if ((holderNow() != m_epoch || m_key.given) && m_interferedEpoch != m_epoch)
            fail(u"held, but not on the server"_s);
    }
    if (inHold && m_now >= m_deadline)
        fail(u"a hold outlives its deadline"_s);
    if ((m_machine.holdCount() > 0) != (phase == LeaseMachine::Held))
        fail(u"hold count %1"_s.arg(m_machine.holdCount()));

    const auto unwanted = [&](int epoch) { return epoch > 0 && (epoch != m_epoch || epochEnded); };
    const int holder = holderNow();
    if (unwanted(holder) && !m_key.given && !m_abandoned.contains(holder))
        fail(u"an orphan on the server"_s);
    for (const int epoch : std::as_const(m_queued)) {
        if (unwanted(epoch) && !m_abandoned.contains(epoch))
            fail(u"an orphan in the queue"_s);
    }
    for (const SentCommand &command : m_wire) {
        if (command.kind == Command::Acquire && unwanted(command.epoch) && !m_abandoned.contains(command.epoch))
            fail(u"an orphan on the wire"_s);
    }

    const LeaseTime next = m_machine.nextWakeUp();
    if (next <= m_now)
        fail(u"wakes up in the past"_s);
    if (inHold && next > m_deadline)
        fail(u"would miss the deadline"_s);
    const bool inFlight = std::any_of(m_wire.begin(), m_wire.end(), [this](const SentCommand &command) {
        return command.epoch == m_epoch && command.kind != Command::Abandon;
    });
    // A waiter polls after one claim time for each place in the queue, plus a quarter at most.
    const nanoseconds patience = std::max<nanoseconds>(10s, (m_machine.queuePosition() + 1) * 3750ms);
    if (phase == LeaseMachine::Acquiring && m_ready && !inFlight && next > m_now + patience)
        fail(u"forgot to poll"_s);
    for (auto it = m_requests.begin(); it != m_requests.end();) {
        if (it->ended) {
            it = m_requests.erase(it);
            continue;
        }
        if (m_now >= it->deadline)
            fail(u"acquire %1 waits too long"_s.arg(it.key()));
        else if (next > it->deadline)
            fail(u"would miss the end of the wait of acquire %1"_s.arg(it.key()));
        if (epochEnded)
            fail(u"acquire %1 was forgotten"_s.arg(it.key()));
        ++it;
    }
    for (auto it = m_releases.begin(); it != m_releases.end();) {
        if (it.value())
            it = m_releases.erase(it);
        else if (phase != LeaseMachine::Releasing)
            fail(u"release %1 was forgotten"_s.arg((it++).key()));
        else
            ++it;
    }
}

QString Model::run(int events)
{
    for (int i = 0; i < events && m_failure.isEmpty(); ++i) {
        event();
        settle();
    }
    if (m_failure.isEmpty() && below(2) == 0) {
        m_machine.detach(m_now, QStringLiteral("its registry was destroyed"));
        settle();
        if (m_machine.phase() != LeaseMachine::Unlocked || m_machine.nextWakeUp() != NeverTime)
            fail(u"not at rest once detached"_s);
    }
    // The faults are over: every request must end.
    while (m_failure.isEmpty() && !m_wire.empty() && m_wire.front().unsent) {
        deliver();
        settle();
    }
    connected();
    settle();
    for (int i = 0; i < 10'000 && m_failure.isEmpty(); ++i) {
        if (m_key.epoch == -1 || m_key.given) // minHold may be 12 h
            m_key = {};
        if (m_machine.options().lease < 5ms)
            m_machine.cancel(m_now); // it would try for ever
        settle();
        const bool idle = m_wire.empty() && m_requests.isEmpty() && m_releases.isEmpty();
        if (idle && m_machine.phase() == LeaseMachine::Unlocked)
            break;
        if (idle && m_machine.phase() == LeaseMachine::Held) {
            m_releases.insert(++m_lastId, false);
            m_machine.release(m_lastId, m_now);
        } else if (m_wire.empty()) {
            if (const LeaseTime next = m_machine.nextWakeUp(); next != NeverTime)
                m_now = std::max(m_now, next);
        } else {
            deliver();
        }
        settle();
    }
    if (m_machine.phase() != LeaseMachine::Unlocked || m_held)
        fail(u"never came to rest"_s);
    if (holderNow() > 0 && !m_key.given)
        fail(u"left a key behind"_s);
    return m_failure.isEmpty() ? QString() : m_failure + u'\n' + m_log.join(u'\n');
}

} // namespace

class tst_LeaseModel : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void model_data();
    void model();
};

void tst_LeaseModel::model_data()
{
    QTest::addColumn<quint32>("seed");
    for (quint32 seed = 1; seed <= 10; ++seed)
        QTest::addRow("seed %u", seed) << seed;
}

void tst_LeaseModel::model()
{
    QFETCH(quint32, seed);
    qint64 holds = 0, losses = 0, abandons = 0, lateGrants = 0, handOvers = 0, unconfirmed = 0;
    for (quint32 round = 0; round < 50; ++round) {
        Model model(seed * 1000 + round);
        const QString failure = model.run(2000);
        if (!failure.isEmpty())
            qWarning("%ls", qUtf16Printable(failure));
        QVERIFY2(failure.isEmpty(), qPrintable(u"seed %1"_s.arg(seed * 1000 + round)));
        holds += model.holds;
        losses += model.losses;
        abandons += model.abandons;
        lateGrants += model.lateGrants;
        handOvers += model.handOvers;
        unconfirmed += model.unconfirmed;
    }
    // Every kind of event did happen.
    QVERIFY2(holds > 500, qPrintable(QString::number(holds)));
    QVERIFY2(losses > 100, qPrintable(QString::number(losses)));
    QVERIFY2(abandons > 100, qPrintable(QString::number(abandons)));
    QVERIFY2(lateGrants > 10, qPrintable(QString::number(lateGrants)));
    QVERIFY2(handOvers > 10, qPrintable(QString::number(handOvers)));
    QVERIFY2(unconfirmed > 100, qPrintable(QString::number(unconfirmed)));
}

QTEST_APPLESS_MAIN(tst_LeaseModel)
#include "tst_leasemodel.moc"
