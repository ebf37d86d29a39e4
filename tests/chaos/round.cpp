// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "round.h"

#include "clusterservice.h"
#include "quorumservice.h"
#include "sentinelservice.h"
#include "zookeeperservice.h"

#include "support/respclient.h"
#include "support/shiftedclock.h"

#include <QtCore/qdir.h>
#include <QtCore/qfile.h>
#include <QtCore/qpointer.h>
#include <QtCore/qtimer.h>

#include <algorithm>
#include <utility>

#include <signal.h>
#include <unistd.h>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using Support::FaultProxy;
using Support::RedisServer;

namespace Chaos {

namespace {

const QByteArray Prefix = QByteArrayLiteral("lock:");

RedisServer::Options optionsOf(bool appendOnly, const Support::ShiftedClock &clock)
{
    RedisServer::Options options;
    options.appendOnly = appendOnly;
    options.environment = clock.environment();
    // The server must lose no key except by a recorded fault.
    options.config = {"maxmemory-policy noeviction", "auto-aof-rewrite-percentage 0"};
    return options;
}

/// The locks of the group \a number, first those that all forms contend for.
QList<QByteArray> groupOf(const RoundOptions &options, int number)
{
    QList<QByteArray> locks = {"fast", "slow"};
    if (options.hasCompanions)
        locks += {"also", "more", "with"};
    // What a MultiLock holds together must be in one slot.
    const QByteArray tag = QByteArray::number(number);
    const bool isTagged = options.hasCompanions && options.schedule.engine == EngineKind::Cluster;
    for (QByteArray &lock : locks)
        lock += isTagged ? "-{" + tag + '}' : '-' + tag;
    return locks;
}

bool isCompanion(const QByteArray &lock)
{
    return !lock.startsWith("fast") && !lock.startsWith("slow");
}

/// Workers are leaders of process groups: with the form "run", qdistlock is in the group, too.
void signalWorker(qint64 processId, int number)
{
    ::kill(-pid_t(processId), number);
}

/// The process has ended; it may not have been waited for yet.
bool hasEnded(qint64 processId)
{
    QFile file(u"/proc/%1/stat"_s.arg(processId));
    if (processId == 0 || !file.open(QIODevice::ReadOnly))
        return true;
    const QByteArray text = file.readAll();
    const qsizetype bracket = text.lastIndexOf(')');
    return bracket < 0 || text.mid(bracket + 2, 1) == "Z";
}

QByteArray hex(int number)
{
    return QByteArray::number(number, 16).rightJustified(16, '0');
}

} // namespace

struct Round::Server
{
    explicit Server(bool appendOnly, QList<QByteArray> locks)
        : redis(optionsOf(appendOnly, clock))
        , locks(std::move(locks))
        , keepsKeys(appendOnly)
    {
    }
    Support::ShiftedClock clock;
    milliseconds clockShift = 0ms;
    RedisServer redis;
    const QList<QByteArray> locks;
    const bool keepsKeys;
};

struct Round::Worker
{
    QByteArray name;
    QString form;
    bool isPlain = false; ///< uses no scripts
    int generation = 0;
    QByteArray process;                             ///< name.generation
    std::vector<std::unique_ptr<FaultProxy>> links; ///< one to each server
    std::unique_ptr<QProcess> program;
    bool mayDie = false;
    bool stoppedInSection = false;
    milliseconds sectionStop = 0ms;
    bool turned = false;
    bool stopped = false;
    bool done = false;
};

Round::Round(const RoundOptions &options)
    : m_options(options)
    , m_history(QDir(options.folder).filePath(u"nemesis.jsonl"_s))
{
}

Round::~Round()
{
    for (const auto &worker : m_workers) {
        if (!worker->program)
            continue;
        worker->program->disconnect(this);
        worker->program->kill();
        worker->program->waitForFinished();
    }
}

Event Round::event(const char *operation, const char *type, const QByteArray &lock) const
{
    return Event(bootTime(), "nemesis", lock, operation, type);
}

bool Round::startServers()
{
    const QList<QByteArray> first = groupOf(m_options, 1);
    const QList<QByteArray> second = groupOf(m_options, 2);
    if (m_options.schedule.engine == EngineKind::Sentinel)
        m_service = std::make_unique<SentinelService>(&m_history, first + second);
    else if (m_options.schedule.engine == EngineKind::Cluster)
        m_service = std::make_unique<ClusterService>(&m_history, first + second, m_options.schedule.seed);
    else if (m_options.schedule.engine == EngineKind::Quorum)
        m_service = std::make_unique<QuorumService>(&m_history, first + second, m_options.schedule.lease);
    else if (m_options.schedule.engine == EngineKind::ZooKeeper)
        m_service = std::make_unique<ZooKeeperService>(&m_history, first + second, m_options.schedule.lease);
    if (m_service)
        return m_service->start();
    m_servers.push_back(std::make_unique<Server>(false, first));
    m_servers.push_back(std::make_unique<Server>(true, second));
    return std::all_of(m_servers.begin(), m_servers.end(), [](const auto &server) { return server->redis.start(); });
}

QList<QByteArray> Round::locks() const
{
    if (m_service)
        return m_service->locks();
    QList<QByteArray> locks;
    for (const auto &server : m_servers)
        locks += server->locks;
    return locks;
}

bool Round::addLinks(Worker *worker)
{
    for (const auto &server : m_servers)
        worker->links.push_back(std::make_unique<FaultProxy>(server->redis));
    const QList<quint16> ports = m_service ? m_service->linkedPorts() : QList<quint16>();
    for (const quint16 port : ports)
        worker->links.push_back(std::make_unique<FaultProxy>(port));
    return std::all_of(worker->links.begin(), worker->links.end(),
                       [](const auto &link) { return link->isListening(); });
}

QString Round::urlOf(const Worker &worker, const QByteArray &lock) const
{
    if (!m_service) {
        const auto isAt = [&lock](const auto &server) { return server->locks.contains(lock); };
        const auto server = std::find_if(m_servers.begin(), m_servers.end(), isAt);
        const QString url = worker.links.at(size_t(server - m_servers.begin()))->url().toString();
        return worker.isPlain ? url + u"?scripts=off"_s : url;
    }
    QList<quint16> ports;
    for (const auto &link : worker.links)
        ports.append(link->port());
    return m_service->url(ports).toString();
}

bool Round::start()
{
    if (!m_resource.start() || !startServers())
        return false;
    const auto &schedule = m_options.schedule;
    m_history.append(event("round", "invoke")
                             .with("seed", qint64(schedule.seed))
                             .with("lease", qint64(schedule.lease.count()))
                             .with("workers", qint64(schedule.workers))
                             .with("replicas", qint64(m_options.replicas))
                             .with("bound", qint64(m_options.bound.count() * 1000)));
    for (int i = 0; i < schedule.workers; ++i) {
        auto worker = std::make_unique<Worker>();
        worker->name = 'w' + QByteArray::number(i + 1);
        worker->form = m_options.forms.at(i % m_options.forms.size());
        // Every other worker, of one form as of several.
        worker->isPlain = m_options.isPlain && (i / m_options.forms.size() + i % m_options.forms.size()) % 2 == 1;
        if (!addLinks(worker.get()))
            return false;
        m_workers.push_back(std::move(worker));
    }
    for (const auto &worker : m_workers)
        startWorker(worker.get());

    const QList<Fault> faults = drawSchedule(schedule);
    m_faultsToCome = int(faults.size());
    for (const Fault &fault : faults) {
        QTimer::singleShot(fault.at, Qt::PreciseTimer, this, [this, fault] { begin(fault); });
    }
    ++m_faultsToCome; // the end of the time counts as one
    QTimer::singleShot(schedule.duration, this, [this] {
        --m_faultsToCome;
        healIfOver();
    });
    return true;
}

void Round::startWorker(Worker *worker)
{
    ++worker->generation;
    worker->process = worker->name + '.' + QByteArray::number(worker->generation);
    worker->mayDie = false;
    worker->done = false;
    QStringList arguments = {
            u"--form"_s,     worker->form,
            u"--process"_s,  QString::fromLatin1(worker->process),
            u"--history"_s,  QDir(m_options.folder).filePath(QString::fromLatin1(worker->name + ".jsonl")),
            u"--resource"_s, m_resource.socketPath(),
            u"--lease"_s,    QString::number(m_options.schedule.lease.count()),
            u"--seed"_s,     QString::number(m_options.schedule.seed),
            u"--replicas"_s, QString::number(m_options.replicas),
    };
    const QList<QByteArray> names = locks();
    for (const QByteArray &lock : names) {
        const bool fair = lock.startsWith("fast") == lock.contains('1');
        const QByteArray sort = isCompanion(lock) ? "companion" : lock.first(4);
        arguments << u"--lock"_s
                  << u"%1,%2,%3,%4"_s.arg(QString::fromLatin1(lock), fair ? u"fair"_s : u"unfair"_s,
                                          QString::fromLatin1(sort), urlOf(*worker, lock));
    }
    worker->stoppedInSection = false;
    worker->program = std::make_unique<QProcess>();
    QProcess *const program = worker->program.get();
    QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
    // Lost locks and unreachable servers are expected.
    environment.insert(u"QT_LOGGING_RULES"_s, u"qdistlock.*=false"_s);
    environment.insert(u"QDISTLOCK_SENTINEL_PASSWORD"_s, u"sentinels"_s);
    program->setProcessEnvironment(environment);
    program->setProcessChannelMode(QProcess::ForwardedErrorChannel);
    program->setChildProcessModifier([] { ::setpgid(0, 0); });
    connect(program, &QProcess::readyReadStandardOutput, this, [this, worker, program] {
        while (program->canReadLine())
            workerPrinted(worker, program->readLine().trimmed());
    });
    connect(program, &QProcess::errorOccurred, this, [this, program](QProcess::ProcessError error) {
        if (error != QProcess::FailedToStart)
            return;
        qCritical("the worker does not start: %ls", qUtf16Printable(program->errorString()));
        Q_EMIT failed();
    });
    connect(program, &QProcess::finished, this,
            [this, worker](int code, QProcess::ExitStatus status) { workerEnded(worker, code, status); });
    m_history.append(Event(bootTime(), worker->process, {}, "process", "invoke").with("form", worker->form.toLatin1()));
    program->start(m_options.worker, arguments);
}

void Round::workerPrinted(Worker *worker, const QByteArray &line)
{
    if (line == "ready") {
        if (m_turning)
            worker->program->write("turn\n");
    } else if (line == "turned") {
        worker->turned = true;
        m_history.append(Event(bootTime(), worker->process, {}, "turn", "ok"));
    } else if (line == "section stopped") {
        worker->stoppedInSection = true;
        QTimer::singleShot(worker->sectionStop, this, [this, worker] { continueSection(worker); });
    } else if (line == "section continued") {
        worker->stoppedInSection = false;
    } else if (line == "stopped") {
        worker->stopped = true;
    } else if (line.startsWith("done ")) {
        worker->done = true;
        m_history.append(
                Event(bootTime(), worker->process, {}, "process", "ok").with("sockets", line.sliced(5).toLongLong()));
    }
}

void Round::workerEnded(Worker *worker, int code, QProcess::ExitStatus status)
{
    if (worker->done && code == 0 && status == QProcess::NormalExit)
        return;
    const bool killed = worker->mayDie && status == QProcess::CrashExit && code == SIGKILL;
    if (killed) {
        m_history.append(Event(bootTime(), worker->process, {}, "process", "info"));
    } else {
        m_history.append(Event(bootTime(), worker->process, {}, "process", "fail")
                                 .with("exit", qint64(code))
                                 .with("crash", status == QProcess::CrashExit));
    }
    if (m_ending)
        return;
    // The worker is restarted after a pause, because the fault may end only now.
    if (!worker->mayDie || killed) {
        QTimer::singleShot(50ms, this, [this, worker] {
            if (!m_ending && worker->program->state() == QProcess::NotRunning)
                startWorker(worker);
        });
    }
}

QByteArray Round::targetOf(const Fault &fault) const
{
    QByteArray target;
    if (fault.worker >= 0)
        target = m_workers.at(size_t(fault.worker))->process;
    if (fault.server >= 0)
        target += (target.isEmpty() ? "s" : "-s") + QByteArray::number(fault.server + 1);
    return target;
}

void Round::begin(const Fault &fault)
{
    if (fault.worker < 0 && fault.server < 0) {
        m_serviceFaults.append(fault);
        if (!std::exchange(m_isServiceBusy, true))
            beginNextInService();
        return;
    }
    const QByteArray target = targetOf(fault);
    record("invoke", fault, target);
    const Undo undo = inject(fault);
    const auto end = [this, fault, target, undo] {
        if (undo)
            undo();
        record("ok", fault, target);
        --m_faultsToCome;
        healIfOver();
    };
    if (fault.duration == 0ms)
        end();
    else
        QTimer::singleShot(fault.duration, Qt::PreciseTimer, this, end);
}

void Round::record(const char *type, const Fault &fault, const QByteArray &target)
{
    m_history.append(event("fault", type)
                             .with("kind", QByteArray(nameOf(fault.kind)))
                             .with("target", target)
                             .with("ms", qint64(fault.duration.count())));
}

Round::Undo Round::inject(const Fault &fault)
{
    if (fault.worker >= 0 && fault.server >= 0)
        return injectIntoLink(fault, m_workers.at(size_t(fault.worker)).get());
    if (fault.worker >= 0)
        return injectIntoWorker(fault, m_workers.at(size_t(fault.worker)).get());
    return injectIntoServer(fault, m_servers.at(size_t(fault.server)).get());
}

Round::Undo Round::injectIntoWorker(const Fault &fault, Worker *worker)
{
    QProcess *const program = worker->program.get();
    if (program->state() != QProcess::Running)
        return {};
    const auto order = [worker](const QByteArray &line) {
        if (worker->program->state() == QProcess::Running) // a new process may have replaced it
            worker->program->write(line + '\n');
    };
    const auto signal = [program = QPointer<QProcess>(program)](int number) {
        if (program && program->state() == QProcess::Running)
            signalWorker(program->processId(), number);
    };
    const QByteArray ms = QByteArray::number(qint64(fault.duration.count()));
    switch (fault.kind) {
    case FaultKind::WorkerKilled:
        worker->mayDie = true;
        m_history.append(Event(bootTime(), worker->process, {}, "kill", "info"));
        signal(SIGKILL);
        return {};
    case FaultKind::WorkerKilledInSection:
        worker->mayDie = true;
        order("section die");
        return {};
    case FaultKind::WorkerStoppedBriefly:
    case FaultKind::WorkerStopped:
        signal(SIGSTOP);
        return [signal] { signal(SIGCONT); };
    case FaultKind::WorkerStoppedInSection:
        withLateReplies(fault, worker, [this, worker, duration = fault.duration](const auto &then) {
            if (worker->program->state() == QProcess::Running) // a new process may have replaced it
                stopInSection(worker, duration, then);
            else
                then();
        });
        return {};
    case FaultKind::LoopBlocked:
        withLateReplies(fault, worker, [this, order, ms, duration = fault.duration](const auto &then) {
            order("block " + ms);
            QTimer::singleShot(duration, this, then);
        });
        return {};
    case FaultKind::NestedLoop:
        order("nest " + ms);
        return {};
    case FaultKind::SectionBlocked:
        order("section block " + ms);
        return {};
    default:
        qFatal("no fault of a worker: %s", nameOf(fault.kind));
    }
}

/// Every second time the replies to the worker are delayed, so that its deadlines must be right although it learns late
/// what the servers did.
void Round::withLateReplies(const Fault &fault, Worker *worker,
                            const std::function<void(const std::function<void()> &then)> &action)
{
    ++m_faultsToCome;
    const bool late = fault.detail % 2;
    const auto setLatency = [worker](milliseconds latency) {
        for (const auto &link : worker->links)
            link->setLatency(0us, latency);
    };
    if (late)
        setLatency(m_options.schedule.lease * (25 + fault.detail % 20) / 100);
    const auto heal = [this, late, setLatency] {
        if (late)
            setLatency(0ms);
        --m_faultsToCome;
        healIfOver();
    };
    // Long enough for locks to be acquired with that latency.
    QTimer::singleShot(late ? 2 * m_options.schedule.lease : 0ms, this, [action, heal] { action(heal); });
}

void Round::stopInSection(Worker *worker, milliseconds duration, const std::function<void()> &then)
{
    worker->sectionStop = duration;
    worker->program->write("section stop\n");
    const qint64 processId = worker->program->processId();
    poll([worker, processId] { return worker->stoppedInSection || hasEnded(processId); }, 5s,
         [this, duration, then] { QTimer::singleShot(duration, this, then); });
}

void Round::continueSection(Worker *worker)
{
    // Repeated until the worker reports it: it may be about to stop, or be stopped by another fault, too.
    const qint64 processId = worker->program->processId();
    const auto hasContinued = [worker, processId] {
        if (!worker->stoppedInSection || hasEnded(processId))
            return true;
        signalWorker(processId, SIGCONT);
        return false;
    };
    poll(hasContinued, m_options.bound, [] {});
}

Round::Undo Round::injectIntoLink(const Fault &fault, Worker *worker)
{
    FaultProxy *const proxy = worker->links.at(size_t(fault.server)).get();
    const QByteArray command = worker->isPlain ? "EXEC" : "EVALSHA";
    const int detail = fault.detail;
    const int nth = 1 + detail % 12;
    const auto part = [this](int percent) { return m_options.schedule.lease * percent / 100; };
    switch (fault.kind) {
    case FaultKind::ConnectionsReset:
        proxy->resetAll();
        return {};
    case FaultKind::CutBeforeCommand:
        proxy->cutBefore(command, nth);
        return {};
    case FaultKind::CutAfterCommand:
        proxy->cutAfter(command, nth);
        return {};
    case FaultKind::ReplyDropped:
        proxy->dropReply(command, nth);
        return {};
    case FaultKind::BlackHole:
        proxy->setBlackHole(true);
        return [proxy] { proxy->setBlackHole(false); };
    case FaultKind::Latency:
        // More than a third of the lease: towards the server, towards the client, or both.
        proxy->setLatency(part(detail % 3 == 0 ? 0 : 20 + detail % 70), part(detail % 3 == 1 ? 0 : 30 + detail % 68));
        return [proxy] { proxy->setLatency(0us, 0us); };
    case FaultKind::RequestsHeld:
        proxy->setHeld(true);
        return [proxy] { proxy->setHeld(false); };
    case FaultKind::RepliesHeld:
        proxy->setRepliesHeld(true);
        return [proxy] { proxy->setRepliesHeld(false); };
    case FaultKind::RepliesSliced:
        proxy->setSlicing(1 + detail % 8);
        return [proxy] { proxy->setSlicing(0); };
    case FaultKind::Bandwidth:
        proxy->setBandwidth(2000 + 4 * detail);
        return [proxy] { proxy->setBandwidth(0); };
    case FaultKind::ConnectingRefused:
        proxy->setRefusing(true);
        proxy->resetAll();
        return [proxy] { proxy->setRefusing(false); };
    case FaultKind::ErrorReplies: {
        const QList<QByteArray> errors = {
                "-LOADING Redis is loading the dataset in memory\r\n",
                "-OOM command not allowed when used memory > 'maxmemory'.\r\n",
                "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.\r\n",
                "-READONLY You can't write against a read only replica.\r\n",
                "-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n",
                "-TRYAGAIN Multiple keys request during rehashing of slot\r\n",
                "-CLUSTERDOWN The cluster is down\r\n",
                "-NOREPLICAS Not enough good replicas to write.\r\n",
        };
        // Not EXEC: the server would wait for it, and take what follows for a part of the transaction.
        proxy->answer(errors.at(detail % errors.size()), worker->isPlain ? "WATCH" : command, nth, 1 + detail % 5);
        return {};
    }
    default:
        qFatal("no fault of a link: %s", nameOf(fault.kind));
    }
}

void Round::loseKeys(Server *server, const QList<QByteArray> &locks, const Fault &fault,
                     const std::function<void()> &action)
{
    const qint64 from = bootTime();
    action();
    const qint64 to = bootTime();
    if (fault.kind != FaultKind::KeysFlushed && fault.kind != FaultKind::KeyDeleted
        && fault.kind != FaultKind::KeyOverwritten && server->keepsKeys)
        return;
    for (const QByteArray &lock : locks) {
        Event lost(to, "nemesis", lock, "key", "info");
        lost.with("lostBy", QByteArray(nameOf(fault.kind))).with("from", from).with("to", to);
        if (fault.kind == FaultKind::KeyOverwritten)
            lost.with("foreignMs", qint64(fault.duration.count()));
        m_history.append(lost);
    }
}

void Round::loseFence(const QByteArray &lock, const std::function<void()> &action)
{
    const qint64 from = bootTime();
    action();
    const qint64 to = bootTime();
    m_history.append(Event(to, "nemesis", lock, "fence", "info").with("from", from).with("to", to));
}

void Round::setClock(Server *server, milliseconds by)
{
    const qint64 from = bootTime();
    server->clockShift += by;
    server->clock.shift(server->clockShift);
    const qint64 to = bootTime();
    for (const QByteArray &lock : server->locks) {
        m_history.append(Event(to, "nemesis", lock, "clock", "info")
                                 .with("from", from)
                                 .with("to", to)
                                 .with("ms", qint64(by.count())));
    }
}

void Round::restarted(Server *server)
{
    if (!server->redis.start())
        qFatal("a server does not start again: %ls", qUtf16Printable(server->redis.errorString()));
}

Round::Undo Round::injectIntoServer(const Fault &fault, Server *server)
{
    RedisServer *const redis = &server->redis;
    const QByteArray lock = server->locks.at(fault.lock);
    const QByteArray key = Prefix + lock;
    const QByteArray queue = '{' + key + "}:queue";
    const QByteArray ms = QByteArray::number(qint64(fault.duration.count()));
    const auto command = [redis](const QList<QByteArray> &arguments) {
        const QVariant reply = redis->command(arguments, 10s);
        if (Support::isError(reply))
            qWarning("nemesis: %s: %s", arguments.join(' ').constData(), reply.toByteArray().constData());
        return reply;
    };
    switch (fault.kind) {
    case FaultKind::ServerStopped:
        redis->pause();
        return [redis] { redis->resume(); };
    case FaultKind::ServerRestarted:
        // The keys are lost when the old process has ended; the keys on the new one are new.
        loseKeys(server, server->locks, fault, [redis] { redis->stop(); });
        restarted(server);
        return {};
    case FaultKind::ServerKilled:
        loseKeys(server, server->locks, fault, [redis] { redis->kill(); });
        restarted(server);
        return {};
    case FaultKind::ClientsPaused:
        command({"CLIENT", "PAUSE", ms, fault.detail % 2 ? "ALL" : "WRITE"});
        return {};
    case FaultKind::ServerSleeps: {
        // The reply comes after the sleep, so it is not read.
        Support::RespClient client;
        if (client.connectToUnix(redis->socketPath())) {
            client.send(Support::Resp::encodeCommand(
                    {"DEBUG", "SLEEP", QByteArray::number(double(fault.duration.count()) / 1000)}));
        }
        return {};
    }
    case FaultKind::ClientsKilled:
        command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
        return {};
    case FaultKind::SubscribersKilled:
        command({"CLIENT", "KILL", "TYPE", "pubsub"});
        return {};
    case FaultKind::ScriptsFlushed:
        command({"SCRIPT", "FLUSH"});
        return {};
    case FaultKind::OutOfMemory:
        command({"CONFIG", "SET", "maxmemory", "1"});
        return [command] { command({"CONFIG", "SET", "maxmemory", "0"}); };
    case FaultKind::MadeReplica:
        command({"REPLICAOF", "127.0.0.1", "1"});
        return [command] { command({"REPLICAOF", "NO", "ONE"}); };
    case FaultKind::ServerClockForward:
        setClock(server, m_options.schedule.lease * (20 + fault.detail % 380) / 100);
        return {};
    case FaultKind::ServerClockBack:
        setClock(server, -fault.duration);
        return {};
    case FaultKind::KeysFlushed:
        loseKeys(server, server->locks, fault, [command] { command({"FLUSHALL"}); });
        return {};
    case FaultKind::KeyDeleted:
        loseKeys(server, {lock}, fault, [&] { command({"DEL", key}); });
        return {};
    case FaultKind::KeyOverwritten: {
        loseKeys(server, {lock}, fault, [&] { command({"SET", key, "somebody-else", "PX", ms}); });
        return {};
    }
    case FaultKind::QueueGarbage: {
        // Some of the members look like tokens: of clients that are subscribed, and of clients that are not.
        QList<QByteArray> members = {"no token", "*", "", hex(fault.detail) + ":1:" + hex(1) + hex(2)};
        const QList<QByteArray> channels = redis->channels();
        for (const QByteArray &channel : channels) {
            const QByteArray token = channel.mid(channel.lastIndexOf(':') + 1) + ":999999:" + hex(fault.detail);
            members << token + hex(3) << 'r' + token + hex(4) << "p1/" + token + hex(5);
        }
        for (const QByteArray &member : std::as_const(members))
            command({"ZADD", queue, fault.detail % 2 ? "-inf" : "0", member});
        return {};
    }
    case FaultKind::QueueOfAnotherType:
        command({"SET", queue, "no queue", "PX", ms});
        return {};
    case FaultKind::FenceDeleted:
        loseFence(lock, [&] { command({"DEL", '{' + key + "}:fence", '{' + key + "}:permits"}); });
        return {};
    case FaultKind::ForgedMessages:
        forge(server, lock);
        return {};
    default:
        qFatal("no fault of a single server: %s", nameOf(fault.kind));
    }
}

/// One at a time, each when nothing is left of the fault before. The fault lasts until it has worked.
void Round::beginNextInService()
{
    if (m_serviceFaults.isEmpty()) {
        m_isServiceBusy = false;
        return;
    }
    const auto inject = [this, fault = m_serviceFaults.takeFirst()] {
        const int before = m_service->failOvers();
        record("invoke", fault, "service");
        const Undo undo = injectIntoService(fault);
        const auto hasWorked = [this, fault, before] { return m_service->hasWorked(fault, before); };
        const auto end = [this, fault, undo] {
            undo();
            record("ok", fault, "service");
            --m_faultsToCome;
            beginNextInService();
            healIfOver();
        };
        QTimer::singleShot(fault.duration, Qt::PreciseTimer, this,
                           [this, hasWorked, end] { poll(hasWorked, 15s, end); });
    };
    poll([this] { return m_service->isHealthy(); }, 30s, inject, 50ms);
}

Round::Undo Round::injectIntoService(const Fault &fault)
{
    if (fault.kind != FaultKind::Partitioned)
        return m_service->inject(fault);
    // Half of the workers stay with the first Sentinel.
    const auto cutOff = [this, fault](bool on) {
        for (size_t i = size_t(fault.detail % 2); i < m_workers.size(); i += 2) {
            for (size_t link = 1; link < m_workers.at(i)->links.size(); ++link)
                m_workers.at(i)->links.at(link)->setBlackHole(on);
        }
    };
    cutOff(true);
    return [cutOff, undo = m_service->inject(fault)] {
        undo();
        cutOff(false);
    };
}

/// Sends grants to the waiters, with and without a proof, which is wrong, and forced releases to the holder.
void Round::forge(Server *server, const QByteArray &lock)
{
    RedisServer *const redis = &server->redis;
    const QByteArray key = Prefix + lock;
    QList<QByteArray> tokens = {redis->command({"GET", key}).toByteArray()};
    const auto addMembers = [&tokens, redis](const QByteArray &set) {
        const QVariantList members = redis->command({"ZRANGE", set, "0", "-1"}).toList();
        for (const QVariant &member : members)
            tokens += member.toByteArray();
    };
    addMembers(key); // several hold it together
    addMembers('{' + key + "}:queue");
    const QVariantList time = redis->command({"TIME"}).toList();
    const QByteArray now = time.value(0).toByteArray() + time.value(1).toByteArray().rightJustified(6, '0');
    const QByteArray hold = now + ' ' + now + " 3000 " + QByteArray(40, '0');
    for (const QByteArray &token : std::as_const(tokens)) {
        const QList<QByteArray> parts = token.split(':');
        if (parts.size() != 3)
            continue;
        QByteArray client = parts.first().mid(parts.first().lastIndexOf('/') + 1); // behind a number of permits
        while (client.startsWith('*') || client.startsWith('r'))
            client.remove(0, 1);
        const QByteArray sequence = parts.at(1);
        // The hand-over first: the others make the waiter send an attempt, and then it believes none.
        for (const QByteArray &message :
             {"grant " + sequence + ' ' + hold, "force " + sequence, "grant " + sequence, "next " + sequence + " 1"})
            redis->command({"PUBLISH", "lock:client:" + client, message});
    }
}

void Round::poll(const std::function<bool()> &condition, milliseconds atMost, const std::function<void()> &then,
                 milliseconds interval)
{
    auto *timer = new QTimer(this);
    const qint64 until = bootTime() + std::chrono::nanoseconds(atMost).count();
    connect(timer, &QTimer::timeout, this, [timer, condition, until, then] {
        if (!condition() && bootTime() < until)
            return;
        timer->stop();
        timer->deleteLater();
        then();
    });
    timer->start(interval);
}

void Round::healIfOver()
{
    if (m_faultsToCome > 0 || m_healed)
        return;
    m_healed = true;
    for (const auto &worker : m_workers) {
        for (const auto &link : worker->links)
            link->heal();
    }
    if (m_service) {
        m_service->quiet();
        poll([this] { return m_service->isHealthy(); }, 30s, [this] { letWorkersTurn(); }, 50ms);
    } else {
        letWorkersTurn();
    }
}

void Round::letWorkersTurn()
{
    m_history.append(event("heal", "info"));
    // Workers that are being replaced must be running first.
    poll([this] { return all([](const Worker &worker) { return worker.program->state() == QProcess::Running; }); },
         m_options.bound,
         [this] {
             m_turning = true;
             for (const auto &worker : m_workers)
                 worker->program->write("turn\n");
             if (m_options.isPlain)
                 return stopScripted();
             poll([this] { return all([](const Worker &worker) { return worker.turned; }); }, m_options.bound,
                  [this] { stopWorkers(); });
         });
}

/// Workers with scripts pass the locks on within the queue for as long as they contend, and the others starve.
void Round::stopScripted()
{
    const auto isDone = [](const Worker &worker) { return worker.isPlain || worker.turned; };
    poll([this, isDone] { return all(isDone); }, m_options.bound / 3,
         [this] {
             for (const auto &worker : m_workers) {
                 if (!worker->isPlain)
                     worker->program->write("stop\n");
             }
             poll([this] { return all([](const Worker &worker) { return worker.turned; }); }, m_options.bound,
                  [this] { stopWorkers(); });
         });
}

bool Round::all(const std::function<bool(const Worker &)> &condition) const
{
    return std::all_of(m_workers.begin(), m_workers.end(), [&](const auto &worker) { return condition(*worker); });
}

void Round::stopWorkers()
{
    m_ending = true;
    m_history.append(event("end", "invoke"));
    const char *const orders[] = {"stop\n", "abandon\n", "quit\n"};
    // Over several seeds each form ends in each of these ways.
    size_t next = m_options.schedule.seed;
    for (const auto &worker : m_workers) {
        const char *const order = orders[next++ / size_t(m_options.forms.size()) % 3];
        if (!worker->stopped) // see stopScripted()
            worker->program->write(order);
    }
    const auto isStopped = [](const Worker &worker) {
        return worker.stopped || worker.program->state() == QProcess::NotRunning;
    };
    poll([this, isStopped] { return all(isStopped); }, m_options.bound,
         [this] {
             // Without a fail-over no lease has to end.
             poll([this] { return keysLeft().isEmpty(); }, m_service ? 2 * m_options.schedule.lease : 2s,
                  [this] {
                      const QByteArray found = keysLeft().join(QLatin1String(", ")).toLatin1();
                      m_history.append(event("left", found.isEmpty() ? "ok" : "fail").with("what", found));
                      endWorkers();
                  });
         });
}

void Round::endWorkers()
{
    for (const auto &worker : m_workers) {
        if (worker->program->state() == QProcess::Running)
            worker->program->write("end\n");
    }
    const auto isOver = [](const Worker &worker) { return worker.program->state() == QProcess::NotRunning; };
    poll([this, isOver] { return all(isOver); }, m_options.bound,
         [this] {
             for (const auto &worker : m_workers) {
                 if (worker->program->state() != QProcess::NotRunning) {
                     m_history.append(Event(bootTime(), worker->process, {}, "process", "fail")
                                              .with("exit", qint64(-1))
                                              .with("crash", false));
                     worker->program->disconnect(this);
                     worker->program->kill();
                     worker->program->waitForFinished();
                 }
                 worker->links.clear(); // closes the dead connections, which only the proxies keep open
             }
             checkLeftovers();
         });
}

QList<RedisServer *> Round::servers()
{
    if (m_service)
        return m_service->servers();
    QList<RedisServer *> servers;
    for (const auto &server : m_servers)
        servers.append(&server->redis);
    return servers;
}

QStringList Round::keysLeft()
{
    QStringList found = m_service ? m_service->left() : QStringList();
    const QList<RedisServer *> all = servers();
    for (RedisServer *const server : all) {
        RedisServer &redis = *server;
        const QList<QByteArray> keys = redis.keys();
        for (const QByteArray &key : keys) {
            if (!key.endsWith(":fence") && !key.endsWith(":permits")) {
                found << u"key "_s + QString::fromLatin1(key);
                continue;
            }
            const QVariant ttl = redis.command({"PTTL", key}); // the replicas of a cluster refuse it
            if (!Support::isError(ttl) && ttl.toLongLong() < 0)
                found << u"endless key "_s + QString::fromLatin1(key);
        }
    }
    return found;
}

QStringList Round::leftovers()
{
    QStringList found = keysLeft();
    const QList<RedisServer *> all = servers();
    for (RedisServer *const redis : all) {
        QList<QByteArray> channels = redis->channels();
        const QVariantList sharded = redis->command({"PUBSUB", "SHARDCHANNELS"}).toList();
        for (const QVariant &channel : sharded)
            channels += channel.toByteArray();
        for (const QByteArray &channel : std::as_const(channels)) {
            if (channel.startsWith(Prefix))
                found << u"subscription "_s + QString::fromLatin1(channel);
        }
        // Replicas and Sentinels are clients, too.
        const qsizetype clients = m_service ? redis->command({"CLIENT", "LIST"}).toByteArray().count("name=qdistlock-")
                                            : redis->connectedClients();
        if (clients > 0)
            found << u"%1 connections"_s.arg(clients);
    }
    return found;
}

void Round::checkLeftovers()
{
    poll([this] { return leftovers().isEmpty(); }, 2s,
         [this] {
             const QByteArray found = leftovers().join(QLatin1String(", ")).toLatin1();
             Event left = event("left", found.isEmpty() ? "ok" : "fail");
             left.with("what", found);
             const QList<QByteArray> names = locks();
             for (const QByteArray &lock : names)
                 left.with(("counter:" + lock).constData(), m_resource.get("counter:" + lock).toLongLong());
             m_history.append(left);
             Q_EMIT finished();
         });
}

} // namespace Chaos
