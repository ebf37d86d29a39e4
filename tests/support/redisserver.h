// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "respclient.h"

#include <QtCore/qhash.h>
#include <QtCore/qprocess.h>
#include <QtCore/qstringlist.h>
#include <QtCore/qtemporarydir.h>
#include <QtCore/qurl.h>

#include <chrono>

namespace Support {

class Certificates;

/// A field of a reply to INFO, empty if there is none.
QByteArray infoField(const QByteArray &info, const QByteArray &field);

/*!
    A private redis-server in a temporary folder: on a Unix socket always, on a TCP and a TLS port
    if requested (never 6379; the ports stay the same over restarts). It ends with this object, and with the thread that
    started it.

    All functions block, with a time-out. Thread: the one that constructed the object; needs no running event loop.

    The functions from get() to channels() end the program if the server cannot be reached or refuses the command, and
    so does cli() if it cannot connect: an unknown key must not be taken for a missing one. To ask a server that may be
    down, or may refuse, use command().
*/
class RedisServer
{
public:
    struct Options
    {
        bool tcp = false;
        bool tls = false; ///< needs certificateFile and keyFile
        QString certificateFile;
        QString keyFile;
        QString caFile; ///< the authority of client certificates, and ca= of tlsUrl()
        bool requireClientCertificate = false;
        QByteArray password;              ///< requirepass; not part of the URLs below
        QList<QByteArray> users;          ///< ACL rules as after ACL SETUSER: "lockapp on >secret ~lock:* …"
        QByteArray loginCommand = "AUTH"; ///< its name after a rename-command in `config`; then cli() does not work
        QList<QByteArray> config;         ///< more lines of redis.conf; the last one wins
        bool appendOnly = false;          ///< AOF with fsync always; otherwise nothing persists
        const RedisServer *replicaOf = nullptr; ///< the master, reached by its TCP port without a password
        QStringList environment;                ///< NAME=VALUE, besides this process's own

        /// With a TCP port.
        static Options withTcp();
        /// With a TCP port and a TLS port.
        static Options withTls(const Certificates &certificates);
    };

    /// "redis-server", or the program that the environment variable QDISTLOCK_TEST_SERVER names, as "valkey-server".
    static QString serverProgram();
    /// Its command line client: "redis-cli" or "valkey-cli".
    static QString cliProgram();

    RedisServer();
    explicit RedisServer(const Options &options);
    ~RedisServer();

    /// True when it answers PING.
    bool start();
    /// SIGTERM; also if paused.
    void stop();
    /// SIGKILL.
    void kill();
    /// stop() and start().
    bool restart();
    /// SIGSTOP: the kernel still accepts connections and bytes, and nothing is answered.
    void pause();
    /// SIGCONT.
    void resume();
    bool isRunning();
    /// It runs, and answers nothing because of pause().
    bool isPaused() const { return m_isPaused; }
    qint64 processId() const { return m_process.processId(); }
    /// The reason why start() failed.
    QString errorString() const { return m_error; }

    QUrl url() const;    ///< unix://
    QUrl tcpUrl() const; ///< redis://127.0.0.1:port
    QUrl tlsUrl() const; ///< rediss://localhost:port?ca=…
    QString socketPath() const;
    quint16 port() const { return m_port; }
    quint16 tlsPort() const { return m_tlsPort; }
    QString folder() const { return m_folder.path(); }

    /// Sends a command as a client with all rights. See Resp::parseReply for the types, and RedisError for failures.
    QVariant command(const QList<QByteArray> &arguments, std::chrono::milliseconds timeout = std::chrono::seconds(60));
    /// The output of the real redis-cli, without the last line end.
    QByteArray cli(const QList<QByteArray> &arguments, std::chrono::milliseconds timeout = std::chrono::seconds(60));

    QByteArray get(const QByteArray &key) { return look({"GET", key}).toByteArray(); }
    bool exists(const QByteArray &key) { return look({"EXISTS", key}).toLongLong() == 1; }
    /// Milliseconds; -1 = for ever, -2 = no such key.
    qint64 pttl(const QByteArray &key) { return look({"PTTL", key}).toLongLong(); }
    /// Sorted.
    QList<QByteArray> keys(const QByteArray &pattern = QByteArrayLiteral("*"));
    /// A field of INFO, empty if there is none.
    QByteArray info(const QByteArray &section, const QByteArray &field);

    /// Calls since the server started, by command ("set", "client|id"), without those of command(). Calls inside
    /// scripts count; rejected calls do not.
    QHash<QByteArray, qint64> commandCalls();
    qint64 commandsProcessed();
    qint64 commandsProcessed(const QByteArray &name) { return commandCalls().value(name.toLower()); }

    /// Without the connection of command().
    int connectedClients();
    int subscriberCount(const QByteArray &channel);
    /// All channels with subscribers, sorted, but for those of monitors.
    QList<QByteArray> channels();

    QByteArray log() const;
    /// Waits until the log since start() contains \a text.
    bool waitForLog(const QByteArray &text, std::chrono::milliseconds timeout = std::chrono::seconds(60));
    /// Waits until that many replicas have all that any client has written so far.
    bool waitUntilReplicated(int replicas, std::chrono::milliseconds timeout = std::chrono::seconds(60));

private:
    Q_DISABLE_COPY_MOVE(RedisServer)
    enum class Attempt { Started, AddressInUse, Failed };
    Attempt attemptStart();
    bool writeConfig();
    QVariant runCommand(const QList<QByteArray> &arguments, std::chrono::milliseconds timeout);
    QVariant look(const QList<QByteArray> &arguments);
    void signal(int number);
    QString logPath() const;

    Options m_options;
    QTemporaryDir m_folder;
    QProcess m_process;
    bool m_isPaused = false;
    RespClient m_witness;
    QHash<QByteArray, qint64> m_ownCalls; // "name|first argument" in lower case
    QByteArray m_witnessPassword;
    QString m_error;
    qint64 m_logStart = 0;
    quint16 m_port = 0;
    quint16 m_tlsPort = 0;
};

/// A server, or a set of servers, that runs. A machine on which it cannot start ends the test.
template<typename Server>
class Started : public Server
{
public:
    using Server::Server;

private:
    bool m_isStarted = [this] {
        if (!this->start())
            qFatal("%s", qPrintable(this->errorString()));
        return true;
    }();
};

} // namespace Support
