// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "base/postedcall.h"

#include <QtCore/qbytearray.h>
#include <QtCore/qlist.h>
#include <QtCore/qobject.h>
#include <QtCore/qset.h>
#include <QtCore/qtimer.h>

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

QT_BEGIN_NAMESPACE
class QHostInfo;
class QSocketNotifier;
QT_END_NAMESPACE

struct _zhandle;

namespace QtZooKeeper {

/// One server of the ensemble. Thread: a plain value.
struct Server
{
    QString host; ///< a name, or an address without brackets
    quint16 port = 2181;
};

/// Facts about a node that the ensemble keeps besides its data. Thread: a plain value.
struct NodeStat
{
    qint64 created = 0;                     ///< number of the transaction that has created the node (czxid)
    qint64 owner = 0;                       ///< the session that an ephemeral node belongs to; 0 = none
    std::chrono::milliseconds createdAt{0}; ///< since 1970, on the clock of the leader
    int version = 0;                        ///< of its data
    int dataSize = 0;                       ///< bytes
};

/// The outcome of one operation. Thread: a plain value.
struct Result
{
    int code = 0;               ///< ZOK, ZNONODE and so on, of zookeeper.h
    QByteArray path;            ///< of create(): with the sequence number
    QByteArray data;            ///< of read()
    QList<QByteArray> children; ///< of children(): their names
    NodeStat stat;              ///< of create(), read() and children()

    bool isOk() const { return code == 0; }
    /// The ensemble has decided. Of a write also if it is refused: the leader and a majority were there.
    bool isAnswered() const { return isOk() || isMissing() || existsAlready() || isOutdated() || isRefused(); }
    /// There is no such node.
    bool isMissing() const;
    bool existsAlready() const;
    /// The node has another version.
    bool isOutdated() const;
    /// The user lacks a right.
    bool isRefused() const;
    /// The connection ended before an answer came: the operation may or may not have been executed.
    bool isUnknown() const;
    /// In words, as a clause.
    QString errorString() const;
};

/*!
    A session with a ZooKeeper ensemble on the event loop, through the single-threaded C client. It survives its
    connections: the client connects again, to any of the servers, and keeps session, ephemeral nodes and watches,
    unless that takes longer than the session's time-out.

    Operations are sent and answered in order. Without a connection they wait for one; those that were sent when it ends
    fail, see Result::isUnknown(). Completions and watches are called from the event loop, never from inside the call
    that they were given to, and at most once; not after the session's destruction. They may run an event loop, and
    destroy the session.

    Thread: the one it lives in. Nothing blocks; host names are looked up asynchronously.
    Source: the rules for event loops of one's own in zookeeper.h.
*/
class Session : public QObject
{
    Q_OBJECT
public:
    enum State {
        Closed,
        Connecting, ///< for the first time, or again
        Connected,
        Expired, ///< the ensemble has ended the session, and deleted its ephemeral nodes
        LoginFailed
    };

    using Completion = std::function<void(const Result &)>;
    using Watch = std::function<void(bool isDeleted)>;

    struct Options
    {
        QList<Server> servers;
        std::chrono::milliseconds timeout{30'000};     ///< wanted; the ensemble decides
        std::function<std::chrono::nanoseconds()> now; ///< the clock of askedAt()
    };

    /// Why there can be no session, with what to do: the C client is not installed. Empty if there can. Thread-safe.
    static QString problem();

    /// Only if there is no problem().
    explicit Session(const Options &options, QObject *parent = nullptr);
    ~Session() override;

    /// Begins a new session, unless there is one that has not ended. \a user and \a password: of a digest login; both
    /// empty: none.
    void open(const QByteArray &user = {}, const QByteArray &password = {});
    /// Ends the session. If it is connected, the ensemble deletes its ephemeral nodes at once; otherwise after the
    /// time-out.
    void close();

    State state() const { return m_state; }
    /// Why it is not Connected, as a clause; empty if there is no reason yet.
    QString errorString() const { return m_errorString; }
    /// 0 before the first connection.
    qint64 id() const;
    /// That the ensemble has granted; 0 before the first connection.
    std::chrono::milliseconds timeout() const;

    /// When the present connection asked for its session, or for a new one; perhaps a little earlier.
    std::chrono::nanoseconds askedAt() const { return m_askedAt; }

    enum Kind { Container, EphemeralSequential };
    void create(const QByteArray &path, const QByteArray &data, Kind kind, Completion completion);
    void remove(const QByteArray &path, Completion completion);
    /// \a watch, if not null, is called once when the node is changed or deleted afterwards, unless the operation
    /// fails; and not at the end of the session. It is called before anything that shows the node's new state.
    void read(const QByteArray &path, Watch watch, Completion completion);
    /// Changes the data of a node only if they have this \a version, -1 = any, and if the node \a beside exists.
    void write(const QByteArray &path, const QByteArray &data, int version, const QByteArray &beside,
               Completion completion);
    void children(const QByteArray &path, Completion completion);
    /// Reads after this one return at least what the leader has now.
    void sync(const QByteArray &path, Completion completion);

Q_SIGNALS:
    void stateChanged();
    /// No server could be reached; see errorString(). The attempts go on.
    void failed();

private:
    friend struct Callbacks;
    struct Call;
    struct Watcher;
    /// A notifier may be replaced while it emits.
    struct DeleteLater
    {
        void operator()(QSocketNotifier *notifier) const;
    };
    using Notifier = std::unique_ptr<QSocketNotifier, DeleteLater>;

    using Sender = std::function<int(Call *)>;

    void send(Completion completion, Sender sender);
    /// To the client.
    void hand(std::unique_ptr<Call> call, const Sender &sender);
    void endClient();
    void lookUpNext();
    void lookedUp(const QHostInfo &info);
    void connectToServers();
    void clientStateIs(int state, std::chrono::nanoseconds askedAt);
    void setState(State state, const QString &errorString);
    /// Lets the client do what is due, and waits for what it wants next.
    void advance(int events);
    void advanceNow(int events);
    void deliverLater(std::function<void()> function);
    void deliver();

    const Options m_options;
    QByteArray m_login; ///< "user:password"
    State m_state = Closed;
    QString m_errorString;
    _zhandle *m_handle = nullptr;
    Notifier m_readNotifier;
    Notifier m_writeNotifier;
    QTimer m_timer;
    QList<QByteArray> m_addresses; ///< as the client reads them, of the names that were looked up
    qsizetype m_toLookUp = 0;      ///< index of the next server
    qsizetype m_addressCount = 0;  ///< that the client has
    qsizetype m_untried = 0;       ///< of these, since the connection was lost
    int m_lookup = -1;
    QTimer m_lookUpAgain;
    std::shared_ptr<Session *> m_self; ///< the session, for calls that are not answered yet; null: drop them
    QSet<Watcher *> m_watchers;
    std::vector<std::pair<std::unique_ptr<Call>, Sender>> m_unsent; ///< until the names have been looked up
    std::deque<std::function<void()>> m_toDeliver;
    std::chrono::nanoseconds m_lastAskedAt{0}; ///< by a connection that may not be established
    std::chrono::nanoseconds m_askedAt{0};
    QDistLock::PostedCall m_postedDelivery{this, [this] { deliver(); }};
    bool m_isInClient = false;
};

} // namespace QtZooKeeper
