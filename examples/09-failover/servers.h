// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/QElapsedTimer>
#include <QtCore/QObject>
#include <QtCore/QProcess>
#include <QtCore/QTemporaryDir>
#include <QtCore/QUrl>

#include <functional>
#include <memory>
#include <vector>

/*!
    A Redis master, two replicas and three Sentinels that replace the master when it is silent for a second. They are
    this program's own: on free ports of 127.0.0.1, with their files in a temporary folder.
*/
class Servers : public QObject
{
    Q_OBJECT
public:
    /// \a program: redis-server.
    explicit Servers(const QString &program);

    /// Ends in ready() or failed().
    void start();
    QUrl url() const; ///< redis+sentinel://…
    quint16 masterPort() const { return m_ports[0]; }
    /// SIGKILL, to the first master.
    void killMaster();
    /// Ends all of them, then stopped() is emitted.
    void stop();

Q_SIGNALS:
    void ready();
    void failed(const QString &why);
    /// A Sentinel has published +switch-master: the server at \a port is the master from now on.
    void switched(quint16 port);
    void stopped();

private:
    void startProcess(const QStringList &arguments);
    void startSentinels();
    void processEnded(QProcess *process);
    void ask(quint16 port, const QByteArray &command, std::function<void(const QByteArray &reply)> handler);
    void askLater();
    void check();
    void listen(quint16 port);
    void fail(const QString &why);

    const QString m_program;
    const QTemporaryDir m_folder;
    QList<quint16> m_ports; ///< three servers, the first of which is the first master, and three Sentinels
    std::vector<std::unique_ptr<QProcess>> m_processes;
    QElapsedTimer m_sinceStart;
    int m_checked = 0; ///< how many of the servers and Sentinels are known to be complete
    bool m_isSwitched = false;
    bool m_isEnding = false;
};
