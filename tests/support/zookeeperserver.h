// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qlist.h>
#include <QtCore/qprocess.h>
#include <QtCore/qstring.h>
#include <QtCore/qtemporarydir.h>

#include <memory>
#include <vector>

namespace Support {

/*!
    A ZooKeeper ensemble of its own, of one or several servers, on free ports of 127.0.0.1, in a temporary folder. Its
    tick is 100 ms, so that sessions may last from 200 ms.

    Thread: the one it lives in. The functions block.
*/
class ZooKeeperServer
{
public:
    explicit ZooKeeperServer(int size = 1);
    ~ZooKeeperServer();

    /// Whether Java and ZooKeeper are installed.
    static bool isInstalled();
    /// Why a test is skipped otherwise.
    static constexpr char NotInstalled[] =
            "This test starts a ZooKeeper server, and Java or ZooKeeper is not installed "
            "on this machine. tools/test installs both on Debian, and runs this test.";

    /// Starts all servers that do not run, and waits until each serves clients.
    bool start();
    bool start(int index);
    QString errorString() const { return m_error; }

    int size() const { return int(m_members.size()); }
    quint16 port(int index = 0) const { return m_members[size_t(index)].port; }
    /// SIGKILL. Its data remain on the disk.
    void kill(int index = 0);
    /// SIGSTOP, and waits until it has stopped: connections remain, and nothing is answered.
    void pause(int index = 0);
    void resume(int index = 0);

    /// The answer to a command of four letters, such as "srvr"; empty if there is none.
    QByteArray ask(const QByteArray &command, int index = 0) const;
    /// -1 if there is none.
    int leader() const;

private:
    struct Member
    {
        std::unique_ptr<QProcess> process;
        quint16 port = 0;
        quint16 quorumPort = 0;
        quint16 electionPort = 0;
    };

    QString folder(int index) const { return m_folder.filePath(QString::number(index)); }
    bool launch(int index);
    bool waitUntilServing(int index);

    QTemporaryDir m_folder;
    std::vector<Member> m_members;
    QString m_error;
};

} // namespace Support
