// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "history.h"
#include "schedule.h"
#include "service.h"

#include "support/faultproxy.h"
#include "support/redisserver.h"

#include <QtCore/qobject.h>
#include <QtCore/qprocess.h>
#include <QtCore/qstringlist.h>

#include <functional>
#include <memory>
#include <vector>

namespace Chaos {

struct RoundOptions
{
    ScheduleOptions schedule;
    QString worker;                 ///< path of the worker program
    QStringList forms;              ///< assigned to the workers in turn
    int replicas = 0;               ///< that must have each lock; with Sentinels
    bool isPlain = false;           ///< half of the workers use no scripts
    bool hasCompanions = false;     ///< there are more locks, which the forms multi and multi-scoped hold together
    QString folder;                 ///< in which the histories are written
    std::chrono::seconds bound{15}; ///< the time within which each client must acquire each lock after healing
};

/*!
    One round: servers, workers with separate links to them, and a nemesis that injects the faults of a schedule. Then
    everything is healed, each client acquires each lock once more, and all workers stop: some in order, some by
    destroying their locks, some by quitting. Leftovers are searched for twice: keys while the clients still run, and
    keys, connections and subscriptions after their end.
    The round does not judge. It records what it does and sees in nemesis.jsonl, for the checker.

    The locks: fast-1 and slow-1 are on a server without persistence, fast-2 and slow-2 on one with an append-only file.
    fast-1 and slow-2 are fair.

    With the forms multi and multi-scoped there are also-1, more-1, with-1 on the first server, and also-2, more-2,
    with-2 on the other. Locks with the same number can be held together. In a cluster this number is a hash tag.

    With Sentinels, a cluster, a quorum or ZooKeeper, all four are kept by one service, see SentinelService,
    ClusterService, QuorumService and ZooKeeperService; links lead from each worker to each Sentinel, or server of the
    quorum or ensemble.
*/
class Round : public QObject
{
    Q_OBJECT
public:
    explicit Round(const RoundOptions &options);
    ~Round() override;

    /// False if a server or a proxy cannot be started.
    bool start();

Q_SIGNALS:
    void finished();
    /// Emitted instead of finished() if a worker cannot be started.
    void failed();

private:
    struct Server;
    struct Worker;
    using Undo = std::function<void()>;

    void startWorker(Worker *worker);
    void workerPrinted(Worker *worker, const QByteArray &line);
    void workerEnded(Worker *worker, int code, QProcess::ExitStatus status);
    void begin(const Fault &fault);
    Undo inject(const Fault &fault);
    Undo injectIntoWorker(const Fault &fault, Worker *worker);
    Undo injectIntoLink(const Fault &fault, Worker *worker);
    Undo injectIntoServer(const Fault &fault, Server *server);
    Undo injectIntoService(const Fault &fault);
    void beginNextInService();
    void record(const char *type, const Fault &fault, const QByteArray &target);
    void letWorkersTurn();
    void stopScripted();
    bool startServers();
    bool addLinks(Worker *worker);
    QList<QByteArray> locks() const;
    QString urlOf(const Worker &worker, const QByteArray &lock) const;
    QList<Support::RedisServer *> servers();
    void forge(Server *server, const QByteArray &lock);
    void withLateReplies(const Fault &fault, Worker *worker,
                         const std::function<void(const std::function<void()> &then)> &action);
    void stopInSection(Worker *worker, std::chrono::milliseconds duration, const std::function<void()> &then);
    void continueSection(Worker *worker);
    void loseKeys(Server *server, const QList<QByteArray> &locks, const Fault &fault,
                  const std::function<void()> &action);
    void loseFence(const QByteArray &lock, const std::function<void()> &action);
    void setClock(Server *server, std::chrono::milliseconds by);
    void restarted(Server *server);
    void healIfOver();
    void poll(const std::function<bool()> &condition, std::chrono::milliseconds atMost,
              const std::function<void()> &then, std::chrono::milliseconds interval = std::chrono::milliseconds(5));
    bool all(const std::function<bool(const Worker &)> &condition) const;
    void stopWorkers();
    void endWorkers();
    void checkLeftovers();
    QStringList keysLeft();
    QStringList leftovers();
    Event event(const char *operation, const char *type, const QByteArray &lock = {}) const;
    QByteArray targetOf(const Fault &fault) const;

    const RoundOptions m_options;
    History m_history;
    Support::RedisServer m_resource;
    std::vector<std::unique_ptr<Server>> m_servers;
    std::unique_ptr<Service> m_service; ///< with Sentinels and so on; then no m_servers
    std::vector<std::unique_ptr<Worker>> m_workers;
    QList<Fault> m_serviceFaults; ///< that wait
    bool m_isServiceBusy = false; ///< one of its faults lasts, or the next one waits until it has healed
    int m_faultsToCome = 0;
    bool m_healed = false;
    bool m_turning = false;
    bool m_ending = false;
};

} // namespace Chaos
