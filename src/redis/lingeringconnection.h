// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "base/leaseclock.h"

#include <QtCore/qbytearray.h>
#include <QtCore/qlist.h>
#include <QtCore/qobject.h>

#include <functional>
#include <memory>

namespace QtRedis {

struct Reply;
class ReplyReader;
class Transport;

/*!
    The socket of a destroyed Connection, kept until every command that was sent has its reply. Closing it earlier
    would reset it, and the server might discard commands that it has not read.

    Deletes itself after the last reply or when the server closes, after 1 s at the latest. If the thread, the
    application or the program ends before that, it blocks this end while replies are outstanding: all sockets of a
    thread together for 250 ms at most, and then each further one for 10 ms at most. A server that replies takes one
    round trip.

    Thread: the one of the Connection. Emits nothing.
*/
class LingeringConnection : public QObject
{
    Q_OBJECT
public:
    /// As Connection::Farewell.
    using Farewell = std::function<QList<QList<QByteArray>>(const Reply &)>;

    /// \a reader holds the beginning of the first of the \a replies that are outstanding. Unless it is null,
    /// \a farewell gets all replies but the first \a before.
    static void linger(std::unique_ptr<Transport> transport, std::unique_ptr<ReplyReader> reader, size_t replies,
                       Farewell farewell = nullptr, size_t before = 0);

    /// A static object of this type waits, in its destructor, for the lingering connections of the thread that ends
    /// the program. It must be constructed after everything that they still need then.
    struct AtExit
    {
        ~AtExit();
    };

private:
    LingeringConnection(std::unique_ptr<Transport> transport, std::unique_ptr<ReplyReader> reader, size_t replies,
                        Farewell farewell, size_t before);
    ~LingeringConnection() override;

    void readReplies();
    void replied(const Reply &reply);
    void waitForReplies(const QDistLock::Deadline &deadline);
    static void drainThread();

    const std::unique_ptr<Transport> m_transport;
    const std::unique_ptr<ReplyReader> m_reader;
    const int m_forks;
    size_t m_replies;            ///< outstanding
    const Farewell m_farewell;   ///< or null
    size_t m_beforeFarewell;     ///< of the outstanding replies
    LingeringConnection *m_next; ///< of this thread
};

} // namespace QtRedis
