// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// One of the processes that contend for locks while a nemesis injects faults. Uses only the library's public interface.
// Writes its history to a file, and reads orders from its standard input, one in each line:
//   block MS      block the event loop
//   section stop | section die | section block MS     inside the next critical section; before and after a stop
//                 print "section stopped" and "section continued"
//   turn          print "turned" when each lock was acquired again, in each mode
//   stop          release everything in order, and print "stopped"
//   abandon       the same, but destroy the locks in whatever state they are
//   end           after "stopped": print "done SOCKETS" (the number of open sockets), and end
//   quit          the same without "stopped"

#include "form.h"

#include <QDistLock/LockMetrics>

#include <QtCore/qcommandlineparser.h>
#include <QtCore/qcoreapplication.h>
#include <QtCore/qdir.h>
#include <QtCore/qsocketnotifier.h>
#include <QtCore/qtimer.h>

#include <cstdio>

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using namespace Chaos;

namespace {

void print(const QByteArray &line)
{
    std::fputs((line + '\n').constData(), stdout);
    std::fflush(stdout);
}

/// Counts Internet sockets, which lead to the lock servers. The guarded resource has a Unix socket.
int openSockets()
{
    QByteArray tables;
    for (const char *name : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
        QFile table(QString::fromLatin1(name));
        if (table.open(QIODevice::ReadOnly))
            tables += table.readAll();
    }
    int count = 0;
    const QDir folder(u"/proc/self/fd"_s);
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
    Worker(Form *form, InjectedFaults *faults)
        : m_form(form)
        , m_faults(faults)
        , m_input(STDIN_FILENO, QSocketNotifier::Read)
    {
        ::fcntl(STDIN_FILENO, F_SETFL, ::fcntl(STDIN_FILENO, F_GETFL) | O_NONBLOCK);
        connect(&m_input, &QSocketNotifier::activated, this, &Worker::read);
        connect(form, &Form::finished, this, [] { print("stopped"); });
        connect(&m_turnPoll, &QTimer::timeout, this, &Worker::checkTurns);
    }

private:
    void read()
    {
        char buffer[512];
        const ssize_t n = ::read(STDIN_FILENO, buffer, sizeof(buffer));
        if (n == 0)
            ::_exit(3); // the parent has ended
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
            m_faults->nest(words.value(1).toInt());
        } else if (order == "section" && words.value(1) == "stop") {
            m_faults->stop();
        } else if (order == "section" && words.value(1) == "die") {
            m_faults->die();
        } else if (order == "section" && words.value(1) == "block") {
            m_faults->block(words.value(2).toInt());
        } else if (order == "turn") {
            m_before.clear();
            for (const auto &participant : m_form->participants())
                m_before.append({participant->acquisitions(false), participant->acquisitions(true)});
            m_turnPoll.start(5ms);
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

    void checkTurns()
    {
        for (qsizetype i = 0; i < m_before.size(); ++i) {
            const auto &participant = m_form->participants().at(size_t(i));
            const auto [alone, shared] = m_before.at(i);
            if (participant->acquisitions(false) == alone)
                return;
            if (participant->isShared() && participant->acquisitions(true) == shared)
                return;
        }
        m_turnPoll.stop();
        print("turned");
    }

    void end()
    {
        m_form->abandon();
        m_form->disconnectFromServers();
        if (m_form->hasThreads()) {
            QCoreApplication::quit();
            return;
        }
        // The last releases may still be on their way to the server.
        connect(&m_socketPoll, &QTimer::timeout, this, [this, polls = 0]() mutable {
            const int sockets = openSockets();
            if ((sockets > 0 || !m_form->isOver()) && ++polls < 500)
                return;
            m_socketPoll.stop();
            print("done " + QByteArray::number(sockets));
            QCoreApplication::quit();
        });
        m_socketPoll.start(5ms);
    }

    Form *const m_form;
    InjectedFaults *const m_faults;
    QSocketNotifier m_input;
    QByteArray m_orders;
    QList<std::pair<int, int>> m_before;
    QTimer m_turnPoll;
    QTimer m_socketPoll;
};

/// Whether LockMetrics has counted what this process did when it holds nothing any more: all holds have ended, and all
/// \a acquisitions are among them. A MultiLock also counts locks that it acquired in vain.
bool isCounted(quint64 acquisitions)
{
    quint64 acquired = 0;
    const auto groups = QDistLock::LockMetrics::snapshot();
    for (const QDistLock::LockStatistics &group : groups) {
        if (group.acquired != group.released + group.lost() || group.held != 0 || group.waiting != 0) {
            qCritical("LockMetrics: %ls: %llu acquired, %llu released, %llu lost, %d held, %d waiting",
                      qUtf16Printable(group.group), group.acquired, group.released, group.lost(), group.held,
                      group.waiting);
            return false;
        }
        acquired += group.acquired;
    }
    if (acquired < acquisitions)
        qCritical("LockMetrics: %llu acquired, but there were %llu acquisitions", acquired, acquisitions);
    return acquired >= acquisitions;
}

} // namespace

int main(int argc, char *argv[])
{
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    auto application = std::make_unique<QCoreApplication>(argc, argv);
    QCommandLineParser parser;
    parser.addHelpOption();
    const QCommandLineOption formOption(
            u"form"_s,
            u"signals, scoped, annotated, run, multi, multi-scoped, readwrite, readwrite-scoped, "
            u"semaphore or semaphore-scoped"_s,
            u"form"_s, u"signals"_s);
    const QCommandLineOption processOption(u"process"_s, u"its name in the history"_s, u"name"_s);
    const QCommandLineOption historyOption(u"history"_s, u"file to which it is written"_s, u"file"_s);
    const QCommandLineOption resourceOption(u"resource"_s, u"the guarded redis-server"_s, u"socket"_s);
    const QCommandLineOption leaseOption(u"lease"_s, u"of all locks"_s, u"ms"_s, u"300"_s);
    const QCommandLineOption seedOption(u"seed"_s, u"of the random choices"_s, u"number"_s, u"1"_s);
    const QCommandLineOption replicasOption(u"replicas"_s, u"that must have each lock"_s, u"number"_s, u"0"_s);
    const QCommandLineOption lockOption(u"lock"_s, u"a lock to contend for, repeatable"_s,
                                        u"name,fair|unfair,fast|slow|companion,url"_s);
    parser.addOptions({formOption, processOption, historyOption, resourceOption, leaseOption, seedOption,
                       replicasOption, lockOption});
    parser.process(*application);

    Settings settings;
    settings.process = parser.value(processOption).toLatin1();
    settings.historyFile = parser.value(historyOption);
    settings.resource = parser.value(resourceOption);
    settings.lease = std::chrono::milliseconds(parser.value(leaseOption).toInt());
    settings.seed = parser.value(seedOption).toULongLong();
    settings.replicas = parser.value(replicasOption).toInt();
    const QStringList texts = parser.values(lockOption);
    for (const QString &text : texts) {
        const QStringList parts = text.split(u',');
        if (parts.size() != 4)
            qFatal("--lock expects name,fair|unfair,fast|slow|companion,url");
        auto &locks = parts.at(2) == QLatin1String("companion") ? settings.companions : settings.locks;
        locks.append({parts.at(0).toLatin1(), QUrl(parts.at(3)), parts.at(1) == QLatin1String("fair"),
                      parts.at(2) == QLatin1String("slow"), QByteArray()});
    }

    History history(settings.historyFile);
    InjectedFaults faults;
    std::unique_ptr<Form> form = Form::make(parser.value(formOption), settings, &history, &faults);
    if (!form)
        qFatal("unknown form: %ls", qUtf16Printable(parser.value(formOption)));
    auto worker = std::make_unique<Worker>(form.get(), &faults);
    form->start();
    print("ready");
    const int code = application->exec();
    worker.reset();
    application.reset();
    form->join();
    if (form->hasThreads())
        print("done " + QByteArray::number(openSockets()));
    quint64 acquisitions = 0;
    if (parser.value(formOption) != u"run") { // there, other processes acquire the locks
        for (const auto &participant : form->participants())
            acquisitions += quint64(participant->acquisitions(false)) + quint64(participant->acquisitions(true));
    }
    form.reset();
    return isCounted(acquisitions) ? code : 4;
}
