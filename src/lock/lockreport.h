// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QDistLock/lockclient.h>
#include <QDistLock/lockmetrics.h>

#include <QtCore/qbytearray.h>
#include <QtCore/qlist.h>
#include <QtCore/qstring.h>

#include <chrono>
#include <optional>

namespace QDistLock {

/// The message with which a monitor asks a client to report what its locks do, see "Monitors" in docs/protocol.md.
/// Thread: a plain value.
struct WatchRequest
{
    QByteArray monitor; ///< the id of the client that gets the reports
    std::chrono::milliseconds interval{0};
    std::chrono::seconds duration{0}; ///< after that nothing is reported; 0: from now on

    static constexpr std::chrono::milliseconds ShortestInterval{200};
    static constexpr std::chrono::seconds LongestDuration{60};

    QByteArray toMessage() const;
    /// nullopt for all that is not exactly of this form: anybody may send messages.
    static std::optional<WatchRequest> parse(const QByteArray &message);
};

/// What a client has to say of one lock.
struct LockReport
{
    QByteArray key; ///< prefix and name

    /// One of its lock objects holds the lock at present, or waits for it.
    struct Present
    {
        bool isHeld = false;                ///< otherwise it waits
        qint64 fencingToken = 0;            ///< if it holds it
        std::chrono::milliseconds since{0}; ///< how long it has done that
        QString label;                      ///< LockOptions::label
    };
    QList<Present> present;

    // Since the last report:
    LockHistogram wait; ///< of each hold that began
    LockHistogram hold; ///< of each hold that ended
    int failed = 0;     ///< acquires
    int lost = 0;       ///< of the holds that ended

    struct EndedHold
    {
        qint64 fencingToken = 0;
        std::chrono::milliseconds waited{0};
        std::chrono::milliseconds held{0};
        std::chrono::milliseconds ago{0}; ///< since it ended
    };
    QList<EndedHold> ended; ///< the last ones, the newest last
};

/// The message in which a client reports, see "Monitors" in docs/protocol.md. Thread: a plain value.
struct ClientReport
{
    LockClient client;
    qint64 number = 1; ///< 1 for the first one after a `watch` that begins, and then one more each time
    QList<LockReport> locks;

    /// As many locks at most, and of each as many of `present` and `ended`; what is more is not read.
    static constexpr qsizetype MostLocks = 400;
    static constexpr qsizetype MostPresent = 8;
    static constexpr qsizetype MostEnded = 16;

    QByteArray toMessage() const;
    /// nullopt if \a message is no report. Anybody may send one, so numbers and texts may be anything that the types
    /// allow, but durations are not negative.
    static std::optional<ClientReport> parse(const QByteArray &message);
};

} // namespace QDistLock
