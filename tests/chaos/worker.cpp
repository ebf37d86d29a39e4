// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// One of the processes that contend for locks while a nemesis is at work. Uses the library's public
// interface alone. Writes its history to a file; takes orders from its standard input, one a line:
//   block MS      the event loop stands still
//   section stop | section die | section block MS     inside the next critical section; around a stop
//                 say "section stopped" and "section continued"
//   turn          say "turned" once each lock was acquired again
//   stop          give everything back in order, and say "stopped"
//   abandon       the same, but the locks are destroyed as they are
//   end           after "stopped": say "done SOCKETS" (those that are still open), and end
//   quit          the same in the midst of it all

#include "form.h"

#include <QtCore/qcommandlineparser.h>
#include <QtCore/qcoreapplication.h>
#include <QtCore/qdir.h>
#include <QtCore/qsocketnotifier.h>
#include <QtCore/qtimer.h>

#include <cstdio>

#include <fcntl.h>
#include <sys/prctl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

using namespace std::chrono_literals;
using namespace Chaos;

namespace {

void say(const QByteArray &line)
{
    std::fputs((line + '\n').constData(), stdout);
    std::fflush(stdout);
}

/// Internet sockets only: those to the lock servers. The guarded resource has a Unix socket.
int openSockets()
{
    QByteArray tables;
    for (const char *name : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
        QFile table(QString::fromLatin1(name));
        if (table.open(QIODevice::ReadOnly))
            tables += table.readAll();
    }
    int count = 0;
    const QDir folder(QStringLiteral("/proc/self/fd"));
    const QStringList descriptors = folder.entryList(QDir::Files | QDir::System | QDir::NoDotAndDotDot);
    for (const QString &descriptor : descriptors) {
        char target[64];
        const QByteArray path = QFile::encodeName(folder.filePath(descriptor));
        const ssize_t size = ::readlink(path.constData(), target, sizeof(target));
        const QByteArray link(target, std::max<ssize_t>(size, 0));
        if (!link.startsWith("socket:["))
            continue;
        const QByteArray inode = link.mid(8, link.size() - 9);
        count += tables.contains(' ' + inode + ' ');
    }
    return count;
}

class Worker : public QObject
{
public:
    Worker(Form *form, Ordeal *ordeal)
        : m_form(form)
        , m_ordeal(ordeal)
        , m_input(STDIN_FILENO, QSocketNotifier::Read)
    {
        ::fcntl(STDIN_FILENO, F_SETFL, ::fcntl(STDIN_FILENO, F_GETFL) | O_NONBLOCK);
        connect(&m_input, &QSocketNotifier::activated, this, &Worker::read);
        connect(form, &Form::finished, this, [] { say("stopped"); });
        connect(&m_lookForTurns, &QTimer::timeout, this, &Worker::lookForTurns);
    }

private:
    void read()
    {
        char buffer[512];
        const ssize_t n = ::read(STDIN_FILENO, buffer, sizeof(buffer));
        if (n == 0)
            ::_exit(3); // whoever started it is gone
        if (n < 0)
            return;
        m_orders += QByteArray(buffer, n);
        qsizetype end;
        while ((end = m_orders.indexOf('\n')) >= 0) {
            const QList<QByteArray> words = m_orders.first(end).split(' ');
            m_orders.remove(0, end + 1);
            obey(words);
        }
    }

    void obey(const QList<QByteArray> &words)
    {
        const QByteArray &order = words.first();
        if (order == "block") {
            const int ms = words.value(1).toInt();
            const timespec pause{ms / 1000, ms % 1000 * 1'000'000L};
            ::nanosleep(&pause, nullptr);
        } else if (order == "nest") {
            m_ordeal->nest(words.value(1).toInt());
        } else if (order == "section" && words.value(1) == "stop") {
            m_ordeal->stop();
        } else if (order == "section" && words.value(1) == "die") {
            m_ordeal->die();
        } else if (order == "section" && words.value(1) == "block") {
            m_ordeal->block(words.value(2).toInt());
        } else if (order == "turn") {
            m_before.clear();
            for (const auto &participant : m_form->participants())
                m_before.append(participant->acquisitions());
            m_lookForTurns.start(5ms);
        } else if (order == "stop") {
            m_form->stop();
        } else if (order == "abandon") {
            m_form->abandon();
        } else if (order == "end" || order == "quit") {
            end();
        } else {
            qFatal("unknown order: %s", order.constData());
        }
    }

    void lookForTurns()
    {
        for (qsizetype i = 0; i < m_before.size(); ++i) {
            if (m_form->participants().at(size_t(i))->acquisitions() == m_before.at(i))
                return;
        }
        m_lookForTurns.stop();
        say("turned");
    }

    void end()
    {
        m_form->abandon();
        m_form->disconnectFromServers();
        if (m_form->hasThreads()) {
            QCoreApplication::quit();
            return;
        }
        // What was given back in the end is still on its way.
        connect(&m_lookForSockets, &QTimer::timeout, this, [this, looks = 0]() mutable {
            const int sockets = openSockets();
            if (sockets > 0 && ++looks < 500)
                return;
            m_lookForSockets.stop();
            say("done " + QByteArray::number(sockets));
            QCoreApplication::quit();
        });
        m_lookForSockets.start(5ms);
    }

    Form *const m_form;
    Ordeal *const m_ordeal;
    QSocketNotifier m_input;
    QByteArray m_orders;
    QList<int> m_before;
    QTimer m_lookForTurns;
    QTimer m_lookForSockets;
};

} // namespace

int main(int argc, char *argv[])
{
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    auto application = std::make_unique<QCoreApplication>(argc, argv);
    QCommandLineParser parser;
    parser.addHelpOption();
    const QCommandLineOption formOption(QStringLiteral("form"), QStringLiteral("signals, scoped or annotated"),
                                        QStringLiteral("form"), QStringLiteral("signals"));
    const QCommandLineOption processOption(QStringLiteral("process"), QStringLiteral("its name in the history"),
                                           QStringLiteral("name"));
    const QCommandLineOption historyOption(QStringLiteral("history"), QStringLiteral("where it is written"),
                                           QStringLiteral("file"));
    const QCommandLineOption resourceOption(QStringLiteral("resource"), QStringLiteral("the guarded redis-server"),
                                            QStringLiteral("socket"));
    const QCommandLineOption leaseOption(QStringLiteral("lease"), QStringLiteral("of all locks"),
                                         QStringLiteral("ms"), QStringLiteral("300"));
    const QCommandLineOption seedOption(QStringLiteral("seed"), QStringLiteral("of what it draws"),
                                        QStringLiteral("number"), QStringLiteral("1"));
    const QCommandLineOption lockOption(QStringLiteral("lock"), QStringLiteral("a lock to contend for, repeatable"),
                                        QStringLiteral("name,fair|unfair,fast|slow,url"));
    parser.addOptions({formOption, processOption, historyOption, resourceOption, leaseOption, seedOption, lockOption});
    parser.process(*application);

    Settings settings;
    settings.process = parser.value(processOption).toLatin1();
    settings.historyFile = parser.value(historyOption);
    settings.resource = parser.value(resourceOption);
    settings.lease = std::chrono::milliseconds(parser.value(leaseOption).toInt());
    settings.seed = parser.value(seedOption).toULongLong();
    const QStringList locks = parser.values(lockOption);
    for (const QString &text : locks) {
        const QStringList parts = text.split(u',');
        if (parts.size() != 4)
            qFatal("--lock wants name,fair|unfair,fast|slow,url");
        settings.locks.append({parts.at(0).toLatin1(), QUrl(parts.at(3)), parts.at(1) == QLatin1String("fair"),
                               parts.at(2) == QLatin1String("slow")});
    }

    History history(settings.historyFile);
    Ordeal ordeal;
    const std::unique_ptr<Form> form = Form::make(parser.value(formOption), settings, &history, &ordeal);
    if (!form)
        qFatal("unknown form: %ls", qUtf16Printable(parser.value(formOption)));
    auto worker = std::make_unique<Worker>(form.get(), &ordeal);
    form->start();
    say("ready");
    const int code = application->exec();
    worker.reset();
    application.reset();
    form->join();
    if (form->hasThreads())
        say("done " + QByteArray::number(openSockets()));
    return code;
}
