// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "redis/failure.h"
#include "redis/serverurl.h"
#include "redis/topology/sentinelvotes.h"

#include <QtCore/qobject.h>

#include <functional>
#include <memory>
#include <optional>

namespace QtRedis {

/*!
    Finds the master of a service through its Sentinels, and follows it over fail-overs.

    All Sentinels are asked at the same time; one that does not answer within 500 ms is silent. The master is the one on
    which they agree (SentinelVotes::agreed()), also if its epoch is smaller than the former one's, as after SENTINEL
    REMOVE and SENTINEL MONITOR. While too many are silent for that, it is the one that all others name: at the
    start, and later if the present one cannot be used and the other's epoch is greater. +switch-master of one Sentinel
    is only a reason to ask them all. Sentinels that a majority of those in the URL lists are asked, too.

    Thread: the one it lives in, with an event loop. Errors: failure() and errorString(). Nothing blocks. No signal is
    emitted and no verdict is passed from inside a member function.
*/
class SentinelWatch : public QObject
{
    Q_OBJECT
public:
    using Master = SentinelMaster;

    explicit SentinelWatch(const ServerUrl &service, QObject *parent = nullptr);
    ~SentinelWatch() override;

    /// Must be unique; see Connection::setClientName().
    void setClientName(const QByteArray &name);
    /// As Connection::setNeeded().
    void setNeeded(std::function<bool()> isNeeded);

    /// Asks the Sentinels unless the master is known.
    void open();
    /// For a master that cannot be used: asks again in 100 to 300 ms.
    void askAgain();

    /// nullopt until the master is known.
    const std::optional<Master> &master() const;
    /// Why the master is not known.
    Failure failure() const;
    QString errorString() const; ///< names the service or a Sentinel

    /// An empty \a problem: a majority of the Sentinels, asked since confirm(), has named the master:
    /// SentinelVotes::isConfirmed().
    using Verdict = std::function<void(const QString &problem)>;
    void confirm(Verdict verdict);

Q_SIGNALS:
    void masterChanged();
    /// The master could not be found out, and is not known.
    void failed();

private:
    Q_DISABLE_COPY_MOVE(SentinelWatch)
    class Private;
    std::unique_ptr<Private> d;
};

} // namespace QtRedis
