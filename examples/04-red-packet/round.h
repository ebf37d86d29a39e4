// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "pot.h"
#include "report.h"

#include <QtCore/QElapsedTimer>
#include <QtCore/QObject>
#include <QtCore/QProcess>
#include <QtCore/QTimer>

#include <vector>

/*
    One round: fills the pot, starts the workers, and adds up the payments when the pot is empty. In a round with the
    lock it also kills one worker and stops another one for a while, each while it holds the lock.
*/
class Round : public QObject
{
    Q_OBJECT
public:
    struct Setting
    {
        QUrl server;
        QUrl locks;
        bool locked = false;
        int workers = 6;
        Pot::Content pot;
    };

    Round(const Setting &setting, Report *report, QObject *parent = nullptr);
    ~Round() override;

    void start();
    bool isRunning() const { return m_running > 0; }
    // Ends the workers; finished() is emitted when the last one has ended.
    void giveUp(const QString &reason);
    void removePot() { m_pot.remove(); }
    const RoundResult &result() const { return m_result; }

Q_SIGNALS:
    void finished();

private:
    enum Fault { None, KillRequested, Killed, KillOver, FreezeRequested, Frozen, FreezeOver };

    void readLines(int worker);
    void handleLine(int worker, const QList<QByteArray> &words);
    void workerDrew(int worker, qint64 token);
    void workerHolds(int worker, qint64 token);
    void workerFinished(int worker, int exitCode, QProcess::ExitStatus status);
    void send(int worker, const QByteArray &command);
    void signal(int worker, int number);
    void showProgress();
    void finish();

    const Setting m_setting;
    Report *const m_report;
    Pot m_pot;
    std::vector<std::unique_ptr<QProcess>> m_workers;
    QTimer m_progress;
    QTimer m_limit;
    QElapsedTimer m_clock;
    QElapsedTimer m_faultClock;
    RoundResult m_result;
    Fault m_fault = None;
    qint64 m_faultToken = 0;
    qint64 m_paid = 0; // as reported by the workers, for the progress bar only
    int m_draws = 0;
    int m_ready = 0;
    int m_running = 0;
    bool m_over = false;
};
