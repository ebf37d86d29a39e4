// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "round.h"

#include <QtCore/QCoreApplication>

#include <csignal>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;

namespace {

constexpr int KilledWorker = 0;
constexpr int FrozenWorker = 1;

} // namespace

Round::Round(const Setting &setting, Report *report, QObject *parent)
    : QObject(parent)
    , m_setting(setting)
    , m_report(report)
    , m_pot(setting.server, setting.locked ? "locked" : "unlocked")
{
    m_result.pot = setting.pot.cents;
    m_result.drawsByWorker.resize(setting.workers);
    m_progress.setInterval(100ms);
    connect(&m_progress, &QTimer::timeout, this, &Round::showProgress);
    m_limit.setSingleShot(true);
    m_limit.setInterval(25s);
    connect(&m_limit, &QTimer::timeout, this, [this] { giveUp(u"The round has not finished within 25 s."_s); });
}

Round::~Round() = default;

void Round::start()
{
    m_pot.fill(m_setting.pot);
    m_limit.start();
    for (int i = 0; i < m_setting.workers; ++i) {
        m_workers.push_back(std::make_unique<QProcess>());
        QProcess *process = m_workers.back().get();
        process->setProcessChannelMode(QProcess::ForwardedErrorChannel);
        connect(process, &QProcess::readyReadStandardOutput, this, [this, i] { readLines(i); });
        connect(process, &QProcess::finished, this,
                [this, i](int exitCode, QProcess::ExitStatus status) { workerFinished(i, exitCode, status); });
        connect(process, &QProcess::errorOccurred, this, [this, i, process](QProcess::ProcessError error) {
            if (error != QProcess::FailedToStart)
                return;
            giveUp(u"A worker could not be started: "_s + process->errorString());
            workerFinished(i, 1, QProcess::NormalExit);
        });
        ++m_running;
        process->start(QCoreApplication::applicationFilePath(),
                       {u"--worker"_s, QString::number(i + 1), u"--server"_s, m_setting.server.toString(), u"--locks"_s,
                        m_setting.locks.toString(), u"--mode"_s, m_setting.locked ? u"locked"_s : u"unlocked"_s});
    }
}

void Round::readLines(int worker)
{
    QProcess *process = m_workers[static_cast<size_t>(worker)].get();
    while (process->canReadLine())
        handleLine(worker, process->readLine().trimmed().split(' '));
}

void Round::handleLine(int worker, const QList<QByteArray> &words)
{
    const QByteArray &event = words.first();
    const qint64 token = words.value(1).toLongLong();
    if (event == "ready") {
        if (++m_ready < m_setting.workers)
            return;
        m_clock.start();
        m_progress.start();
        for (int i = 0; i < m_setting.workers; ++i)
            send(i, "start");
    } else if (event == "drew") {
        ++m_draws;
        m_paid += words.value(2).toLongLong();
        if (m_setting.locked)
            workerDrew(worker, token);
    } else if (event == "holding") {
        workerHolds(worker, token);
    } else if (event == "refused") {
        m_report->note(u"worker %1 writes with its old token: refused (its isHeld() returns %2)"_s.arg(worker + 1)
                               .arg(words.value(2) == "1" ? QLatin1String("true") : QLatin1String("false")));
    }
}

// The faults follow each other. What the workers report starts each one, not the time.
void Round::workerDrew(int worker, qint64 token)
{
    if (m_fault == None && m_draws >= m_setting.pot.packets / 4) {
        m_fault = KillRequested;
        send(KilledWorker, "pause");
    } else if (m_fault == Killed && token > m_faultToken) {
        m_fault = KillOver;
        m_report->note(u"worker %1 draws %2 ms later"_s.arg(worker + 1).arg(m_faultClock.elapsed()));
    } else if (m_fault == KillOver && m_draws >= m_setting.pot.packets / 2) {
        m_fault = FreezeRequested;
        send(FrozenWorker, "pause");
    } else if (m_fault == Frozen && token > m_faultToken) {
        // Another worker has drawn, so the lease of the stopped one has ended.
        m_fault = FreezeOver;
        m_result.frozen = 1;
        m_report->note(u"worker %1 draws %2 ms later; worker %3 is continued"_s.arg(worker + 1)
                               .arg(m_faultClock.elapsed())
                               .arg(FrozenWorker + 1));
        send(FrozenWorker, "go");
        signal(FrozenWorker, SIGCONT);
    }
}

void Round::workerHolds(int worker, qint64 token)
{
    m_faultToken = token;
    m_faultClock.start();
    if (m_fault == KillRequested) {
        m_fault = Killed;
        signal(worker, SIGKILL);
        m_report->note(u"worker %1 killed while it holds the lock"_s.arg(worker + 1));
    } else {
        m_fault = Frozen;
        signal(worker, SIGSTOP);
        m_report->note(u"worker %1 stopped while it holds the lock"_s.arg(worker + 1));
    }
}

void Round::workerFinished(int worker, int exitCode, QProcess::ExitStatus status)
{
    --m_running;
    const bool killed = status == QProcess::CrashExit && worker == KilledWorker && m_fault >= Killed;
    if (killed)
        m_result.killed = 1;
    else if (status != QProcess::NormalExit || exitCode != 0)
        giveUp(u"Worker %1 failed."_s.arg(worker + 1));
    if (m_running > 0)
        return;
    if (!m_over)
        finish();
    Q_EMIT finished();
}

void Round::send(int worker, const QByteArray &command)
{
    m_workers[static_cast<size_t>(worker)]->write(command + '\n');
}

void Round::signal(int worker, int number)
{
    const qint64 processId = m_workers[static_cast<size_t>(worker)]->processId();
    if (processId > 0)
        ::kill(static_cast<pid_t>(processId), number);
}

void Round::showProgress()
{
    m_report->progress(m_setting.locked, m_paid, m_setting.pot.cents, m_draws);
}

void Round::giveUp(const QString &reason)
{
    if (m_over)
        return;
    m_over = true;
    m_progress.stop();
    m_limit.stop();
    m_report->note(reason);
    for (int i = 0; i < int(m_workers.size()); ++i) {
        signal(i, SIGCONT); // it may be stopped
        m_workers[size_t(i)]->closeWriteChannel();
    }
}

// The result is read from the server, not taken from what the workers reported.
void Round::finish()
{
    m_over = true;
    m_progress.stop();
    m_limit.stop();
    m_result.complete = true;
    m_result.seconds = static_cast<double>(m_clock.elapsed()) / 1000;
    const QList<Pot::Payment> payments = m_pot.payments();
    const Pot::Content left = m_pot.read();
    qint64 lastToken = 0;
    for (const Pot::Payment &payment : payments) {
        m_result.paid += payment.cents;
        ++m_result.drawsByWorker[payment.worker - 1];
        m_result.inOrder = m_result.inOrder && payment.token >= lastToken;
        lastToken = payment.token;
    }
    m_result.draws = static_cast<int>(payments.size());
    m_result.left = left.cents;
    // Each draw reduces the number of packets by one, unless another draw overwrote the result.
    m_result.lostUpdates = m_result.draws - (m_setting.pot.packets - left.packets);
    m_result.refusedWrites = m_pot.refusedWrites();
    m_report->progress(m_setting.locked, m_result.paid, m_result.pot, m_result.draws);
    m_report->endProgress();
}
