// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "runform.h"

#include <QtCore/qcoreapplication.h>
#include <QtCore/qfile.h>
#include <QtCore/qprocess.h>
#include <QtCore/qsocketnotifier.h>
#include <QtCore/qtimer.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using std::chrono::microseconds;
using std::chrono::milliseconds;

namespace Chaos {

namespace {

/// Two processes for each acquisition take a hundred times longer than an acquisition of the other forms.
constexpr int PauseFactor = 100;
constexpr milliseconds LongestPause = 500ms;
/// The descriptor of the pipe in qdistlock and its child.
constexpr int ReportFd = 3;

QByteArray reasonOf(const QByteArray &text)
{
    return text == "deleted"           ? "Deleted"
            : text == "stolen"         ? "Stolen"
            : text == "forced-release" ? "ForcedRelease"
                                       : "";
}

QByteArray errorOf(int exitCode)
{
    switch (exitCode) {
    case 75:
        return "BusyError";
    case 69:
        return "ConnectionError";
    case 77:
        return "PermissionError";
    case 79:
        return "Lost"; // before the child could report that it had begun
    default:
        return exitCode > 128 ? "CancelledError" : "Exit" + QByteArray::number(exitCode);
    }
}

/// qdistlock; a mutant of it if this program is named after one.
QString program()
{
    const QString own = QCoreApplication::applicationFilePath();
    const qsizetype dash = own.lastIndexOf("/chaosworker-"_L1);
    const QString mutant = dash < 0 ? QString() : QString(own).replace("/chaosworker-"_L1, "/qdistlock-"_L1);
    return QFile::exists(mutant) ? mutant : QStringLiteral(QDISTLOCK);
}

bool alwaysHeld()
{
    return true;
}

} // namespace

class RunForm::Client : public QObject
{
public:
    Client(RunForm *form, Participant *participant)
        : m_form(form)
        , m_participant(participant)
    {
        for (QTimer *timer : {&m_pause, &m_cancel}) {
            timer->setSingleShot(true);
            timer->setTimerType(Qt::PreciseTimer);
        }
        connect(&m_pause, &QTimer::timeout, this, &Client::run);
        connect(&m_cancel, &QTimer::timeout, this, [this] { signal(m_participant->below(2) ? SIGINT : SIGTERM); });
        m_program.setStandardErrorFile(QProcess::nullDevice());
        connect(&m_program, &QProcess::finished, this, &Client::checkEnd);
        connect(&m_program, &QProcess::errorOccurred, this, [](QProcess::ProcessError error) {
            if (error == QProcess::FailedToStart)
                qFatal("qdistlock does not start");
        });
    }

    ~Client() override { closePipe(); }

    void next()
    {
        if (m_isStopping) {
            m_isOver = true;
            m_form->clientFinished();
            return;
        }
        const auto pause = std::chrono::duration_cast<milliseconds>(m_participant->drawPause() * PauseFactor);
        m_pause.start(std::min(pause, LongestPause));
    }

    void stop()
    {
        m_isStopping = true;
        if (m_pause.isActive()) {
            m_pause.stop();
            next();
        } else if (!m_isAnnounced) {
            signal(SIGTERM);
        }
    }

    void abandon()
    {
        stop();
        signal(SIGTERM);
    }

    bool isOver() const { return m_isOver; }

private:
    void run()
    {
        int ends[2];
        if (::pipe(ends) != 0)
            qFatal("no pipe");
        for (const int end : ends)
            ::fcntl(end, F_SETFD, FD_CLOEXEC);
        ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
        m_pipe = ends[0];
        m_notifier = std::make_unique<QSocketNotifier>(m_pipe, QSocketNotifier::Read);
        connect(m_notifier.get(), &QSocketNotifier::activated, this, &Client::readReports);
        m_program.setChildProcessModifier([ends] {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            ::dup2(ends[1], ReportFd);
        });
        m_isAnnounced = m_isReleased = m_isStopped = false;
        m_reason.clear();
        m_reports.clear();

        const LockSettings &lock = m_participant->lock();
        const QDistLock::LockOptions options = m_participant->drawOptions();
        QStringList arguments{u"run"_s,
                              u"--server"_s,
                              lock.server.toString(),
                              u"--lease"_s,
                              u"%1ms"_s.arg(options.lease.count()),
                              u"--on-lost-exec"_s,
                              u"echo lost $QDISTLOCK_LOST >&%1"_s.arg(ReportFd)};
        if (options.wait == 0ms)
            arguments += u"-n"_s;
        else if (options.wait != QDistLock::LockOptions::Forever)
            arguments += {u"-w"_s, u"%1ms"_s.arg(options.wait.count())};
        if (!options.fair)
            arguments += u"--no-fair"_s;
        if (m_participant->below(4) == 0)
            arguments += {u"--on-lost"_s, u"kill"_s};
        // Half of the children ignore SIGTERM.
        const QString behaviour = m_participant->below(2) ? u"obedient"_s : u"stubborn"_s;
        arguments += {QString::fromLatin1(lock.name),      QCoreApplication::applicationDirPath() + u"/chaossection"_s,
                      m_form->m_settings.resource,         QString::fromLatin1(lock.name),
                      QString::number(drawHold().count()), behaviour};
        m_participant->acquireInvoked();
        m_program.start(program(), arguments);
        ::close(ends[1]);
        if (m_participant->below(12) == 0)
            m_cancel.start(int(m_participant->below(100)));
    }

    /// Each sixth child lives for up to two leases, or most faults would hit none.
    microseconds drawHold()
    {
        const microseconds hold = m_participant->drawHold();
        const auto lease = quint64(microseconds(m_form->m_settings.lease).count());
        return m_participant->below(6) == 0 ? hold + microseconds(m_participant->below(2 * lease)) : hold;
    }

    void signal(int number)
    {
        if (m_program.state() == QProcess::Running)
            ::kill(pid_t(m_program.processId()), number);
    }

    void readReports()
    {
        std::array<char, 4096> bytes;
        ssize_t size;
        while ((size = ::read(m_pipe, bytes.data(), bytes.size())) > 0)
            m_reports.append(bytes.data(), qsizetype(size));
        qsizetype end;
        while ((end = m_reports.indexOf('\n')) >= 0) {
            const QList<QByteArray> words = m_reports.first(end).split(' ');
            m_reports.remove(0, end + 1);
            reported(words);
        }
        if (size == 0) {
            closePipe();
            checkEnd();
        }
    }

    void reported(const QList<QByteArray> &words)
    {
        const auto number = [&words](int i) { return words.value(i).toLongLong(); };
        const QByteArray &what = words.first();
        if (what == "acquired") {
            m_cancel.stop();
            m_isAnnounced = true;
            m_lastSeen = number(2);
            m_participant->acquired(number(1), number(2), 0ns, alwaysHeld);
            // Only now may it write: the history knows of the hold whatever happens to this process.
            m_program.write("go " + m_form->m_faults->takeNext() + '\n');
        } else if (what == "held") {
            m_lastSeen = number(1);
            m_participant->renewed(number(1), 0ns, alwaysHeld);
        } else if (what == "write") {
            m_participant->wrote(number(1), number(2), number(3), number(4), {number(5) == 1, number(6)});
        } else if (what == "released") {
            m_isReleased = true;
            m_lastSeen = number(1);
            m_participant->releasedAfter(number(1));
        } else if (what == "lost") {
            m_reason = reasonOf(words.value(1));
        } else if (what == "section") {
            m_isStopped = words.value(1) == "stopped";
            print("section " + words.value(1));
        }
    }

    static void print(const QByteArray &line)
    {
        std::fputs((line + '\n').constData(), stdout);
        std::fflush(stdout);
    }

    void closePipe()
    {
        if (m_pipe < 0)
            return;
        if (m_notifier) {
            m_notifier->setEnabled(false);
            m_notifier.release()->deleteLater(); // this may be its slot
        }
        ::close(std::exchange(m_pipe, -1));
    }

    /// The end is that of qdistlock, its child and everybody else who has the pipe.
    void checkEnd()
    {
        if (m_pipe >= 0 || m_program.state() != QProcess::NotRunning)
            return;
        m_cancel.stop();
        if (m_isStopped)
            print("section continued"); // it was killed while it was stopped
        const bool isCrash = m_program.exitStatus() == QProcess::CrashExit;
        if (!m_isAnnounced) {
            m_participant->acquireFailed(isCrash ? "CancelledError"_ba : errorOf(m_program.exitCode()));
        } else if (m_isReleased) {
            m_participant->released();
        } else if (!m_reason.isEmpty()) {
            m_participant->lost(m_reason);
        } else {
            // It was ended before its lease; to others that is as if it had released the lock.
            m_participant->releasedAfter(m_lastSeen);
            m_participant->released();
        }
        next();
    }

    RunForm *const m_form;
    Participant *const m_participant;
    QProcess m_program;
    int m_pipe = -1;
    std::unique_ptr<QSocketNotifier> m_notifier;
    QByteArray m_reports;
    QTimer m_pause;
    QTimer m_cancel;
    bool m_isAnnounced = false;
    bool m_isReleased = false;
    bool m_isStopped = false;
    QByteArray m_reason;
    qint64 m_lastSeen = 0;
    bool m_isStopping = false;
    bool m_isOver = false;
};

RunForm::RunForm(const Settings &settings, History *history, InjectedFaults *faults)
    : Form(settings, history, faults)
    , m_settings(settings)
    , m_faults(faults)
{
    for (const auto &participant : m_participants)
        m_clients.push_back(std::make_unique<Client>(this, participant.get()));
}

RunForm::~RunForm() = default;

void RunForm::start()
{
    for (const auto &client : m_clients)
        client->next();
}

void RunForm::stop()
{
    for (const auto &client : m_clients)
        client->stop();
}

void RunForm::abandon()
{
    for (const auto &client : m_clients)
        client->abandon();
}

bool RunForm::isOver() const
{
    return std::all_of(m_clients.begin(), m_clients.end(), [](const auto &client) { return client->isOver(); });
}

void RunForm::clientFinished()
{
    if (isOver())
        QMetaObject::invokeMethod(this, &Form::finished, Qt::QueuedConnection);
}

} // namespace Chaos
