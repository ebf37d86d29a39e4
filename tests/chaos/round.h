// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "history.h"
#include "schedule.h"

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
    QString worker;              ///< program
    QStringList forms;           ///< given out to the workers in turn
    QString folder;              ///< for the histories
    std::chrono::seconds bound{15}; ///< in which everybody has to have a turn after healing
};

/*!
    One round: servers, workers on ways of their own to them, and a nemesis that carries out a schedule.
    Then everything is healed, everybody gets a turn, and all stop: some in order, some by destroying their
    locks, some by quitting. What is left is looked for twice: keys while clients still live, and again,
    with connections and subscriptions, after their end.
    Judges nothing: it writes down what it does and sees, in nemesis.jsonl, for the checker.

    The locks: fast-1, slow-1 on a server that keeps nothing, fast-2, slow-2 on one with an append-only
    file. Fair are fast-1 and slow-2; the others are not.
*/
class Round : public QObject
{
    Q_OBJECT
public:
    explicit Round(const RoundOptions &options);
    ~Round() override;

    /// False if it cannot be played.
    bool start();

Q_SIGNALS:
    void finished();
    /// Instead: it cannot be played after all.
    void failed();

private:
    struct Server;
    struct Worker;
    using Undo = std::function<void()>;

    void startWorker(Worker *worker);
    void workerSaid(Worker *worker, const QByteArray &line);
    void workerEnded(Worker *worker, int code, QProcess::ExitStatus status);
    void begin(const Fault &fault);
    Undo inject(const Fault &fault);
    Undo hitWorker(const Fault &fault, Worker *worker);
    Undo hitWay(const Fault &fault, Support::FaultProxy *proxy);
    Undo hitServer(const Fault &fault, Server *server);
    void forge(Server *server, const QByteArray &lock);
    void withLateReplies(const Fault &fault, Worker *worker,
                         const std::function<void(const std::function<void()> &then)> &deed);
    void stopInSection(Worker *worker, std::chrono::milliseconds duration, const std::function<void()> &then);
    void continueSection(Worker *worker);
    void loseKeys(Server *server, const QList<QByteArray> &locks, const Fault &fault, const std::function<void()> &deed);
    void restarted(Server *server);
    void healIfOver();
    void look(const std::function<bool()> &condition, std::chrono::milliseconds atMost,
              const std::function<void()> &then);
    bool all(const std::function<bool(const Worker &)> &condition) const;
    void stopWorkers();
    void endWorkers();
    void lookForRests();
    QStringList keysLeft();
    QStringList rests();
    Event event(const char *operation, const char *type, const QByteArray &lock = {}) const;
    QByteArray targetOf(const Fault &fault) const;

    const RoundOptions m_options;
    History m_history;
    Support::RedisServer m_resource;
    std::vector<std::unique_ptr<Server>> m_servers;
    std::vector<std::unique_ptr<Worker>> m_workers;
    int m_faultsToCome = 0;
    bool m_healed = false;
    bool m_turning = false;
    bool m_ending = false;
};

} // namespace Chaos
