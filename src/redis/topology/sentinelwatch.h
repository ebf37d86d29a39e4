// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "redis/failure.h"
#include "redis/serverurl.h"

#include <QtCore/qobject.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

namespace QtRedis {

/*!
    Finds the master of a service through its Sentinels, and follows it over fail-overs.

    All Sentinels are asked at the same time. The master is the one with the greatest config epoch once a majority has
    answered, or 500 ms after the first answer; a smaller epoch than one that was seen is never accepted again. From
    then on +switch-master, and any answer with a greater epoch, make it change. A Sentinel that does not answer within
    500 ms is silent. Sentinels that the others know, and the URL does not, are asked, too.

    Thread: the one it lives in, with an event loop. Errors: failure() and errorString(). Nothing blocks. No signal is
    emitted and no verdict is passed from inside a member function.
*/
class SentinelWatch : public QObject
{
    Q_OBJECT
public:
    struct Master
    {
        Endpoint endpoint;
        qint64 epoch = -1;                      ///< config epoch: rises with each fail-over
        std::chrono::milliseconds downAfter{0}; ///< after which the Sentinels begin a fail-over

        bool isSame(const Master &other) const { return epoch == other.epoch && endpoint == other.endpoint; }
    };

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

    /// nullopt until the master is known, and from +switch-master until the new one's epoch is known.
    const std::optional<Master> &master() const;
    /// Why the master is not known.
    Failure failure() const;
    QString errorString() const; ///< names the service or a Sentinel

    /// An empty \a problem: a majority of the Sentinels, asked since confirm(), has named the master.
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
