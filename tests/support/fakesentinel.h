// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "fakeserver.h"

#include <QtCore/qlist.h>
#include <QtCore/qmutex.h>
#include <QtCore/qset.h>

#include <utility>

namespace Support {

/// A Sentinel whose view of one service the test chooses. Thread-safe.
class FakeSentinel
{
public:
    struct View
    {
        QByteArray service = QByteArrayLiteral("mymaster");
        QByteArray host = QByteArrayLiteral("127.0.0.1"); ///< of the master, as it is announced
        quint16 port = 0;                                 ///< of the master
        qint64 epoch = 0;
        QByteArray flags = QByteArrayLiteral("master");
        quint16 promoted = 0; ///< GET-MASTER-ADDR-BY-NAME returns it instead of `port`, if it is not 0
        int downAfter = 1000; ///< ms
        int others = 0;       ///< num-other-sentinels, if it is more than the size of `listed`
        QList<const FakeSentinel *> listed = {}; ///< SENTINEL SENTINELS
        QByteArray error = {};                   ///< the reply to every command of SENTINEL, if it is not empty
        bool isSilent = false; ///< a connection that sends a command of SENTINEL now is never answered again
        bool isSlow = false;   ///< its answers about the service are kept until answerKept()
    };

    /// \a port 0: a free one.
    explicit FakeSentinel(const View &view, quint16 port = 0);

    quint16 port() const { return m_server.port(); }
    QByteArray id() const;
    void setId(const QByteArray &id);
    FakeServer &server() { return m_server; }
    void setView(const View &view);
    View view() const;
    /// Publishes +switch-master, as after setView().
    void reportSwitch(quint16 from, quint16 to);
    /// The answers that are kept at present.
    int keptAnswers() const;
    /// Sends the first \a count of them.
    void answerKept(int count);
    bool isListenedTo() const;
    /// SENTINEL MASTER requests.
    int questions() const;

private:
    FakeServer::Answer answer(const QList<QByteArray> &arguments, int connection);
    QByteArray answerToSentinel(const QList<QByteArray> &arguments);
    QByteArray answerAboutService(const QByteArray &subcommand) const;

    mutable QMutex m_mutex;
    View m_view;
    mutable QMutex m_idMutex; ///< may be locked while that of another one is
    QByteArray m_id;
    QSet<int> m_listeners;
    QSet<int> m_unanswered;                   ///< a later answer would be taken for one to an earlier command
    QList<std::pair<int, QByteArray>> m_kept; ///< answers, and for which connections
    int m_questions = 0;
    FakeServer m_server; // the last member: its thread uses the others
};

} // namespace Support
