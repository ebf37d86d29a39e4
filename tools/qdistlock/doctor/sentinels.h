// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "redis/serverurl.h"

#include <QtCore/qhash.h>
#include <QtCore/qset.h>

#include <chrono>
#include <optional>

namespace Cli {

class DoctorConnection;
class DoctorReport;

/*!
    The Sentinels of one service, examined one after the other: whether each can be reached, which master it names, and
    whether a majority names the same one.

    Its functions run the event loop until they have their result. A signal ends them, see interruption().
*/
class DoctorSentinels
{
public:
    DoctorSentinels(const QtRedis::ServerUrl &service, std::chrono::milliseconds timeout, DoctorReport *report);

    /// Asks those of the URL and those that they list. The master that a client would use; null if there is none, or
    /// after a signal.
    std::optional<QtRedis::ServerUrl> findMaster();
    /// After findMaster(): whether a lock with \a lease is still held when the master was replaced.
    void checkLease(std::chrono::milliseconds lease);
    /// After findMaster(): whether the replicas can be reached at the addresses that clients would be given.
    void checkReplicas();

    /// As that of DoctorConnection.
    int interruption() const { return m_interruption; }

private:
    /// The names and values that a Sentinel returns for one server.
    using Fields = QHash<QByteArray, QByteArray>;
    struct Sentinel
    {
        QtRedis::Endpoint address;
        QByteArray id;
        QtRedis::Endpoint master;
        qint64 epoch = -1; ///< config epoch of the master; -1 if it names none
        std::chrono::milliseconds downAfter{0};
        int others = 0;
        std::optional<QList<Fields>> replicas; ///< null if its user may not ask for them

        bool agreesWith(const Sentinel &other) const { return epoch == other.epoch && master == other.master; }
    };

    void ask(const QtRedis::Endpoint &address, bool isListed);
    void askForMaster(DoctorConnection *connection, Sentinel *sentinel, bool isListed);
    void addRefusal(DoctorConnection *connection, const QByteArray &reply);
    void addView(const Sentinel &sentinel, const Fields &fields, std::chrono::nanoseconds delay, bool isListed);
    const Sentinel *findBest() const;
    QSet<QByteArray> agreeingWith(const Sentinel &best) const;
    void checkMajority(const Sentinel &best);
    /// Whether a client can log in there; if not, that is reported.
    bool isReplicaReachable(const Fields &replica);

    const QtRedis::ServerUrl m_service;
    const std::chrono::milliseconds m_timeout;
    DoctorReport *const m_report;
    QList<Sentinel> m_sentinels; ///< those that named a master
    QList<QtRedis::Endpoint> m_asked;
    QList<std::pair<QByteArray, QtRedis::Endpoint>> m_listed; ///< ids and addresses
    int m_interruption = 0;
};

} // namespace Cli
