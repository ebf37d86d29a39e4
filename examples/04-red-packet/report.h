// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/QElapsedTimer>
#include <QtCore/QList>
#include <QtCore/QString>

struct RoundResult
{
    bool complete = false;
    qint64 pot = 0; // in cents, like `paid` and `left`
    qint64 paid = 0;
    qint64 left = 0;
    int draws = 0;
    int lostUpdates = 0;
    bool inOrder = true; // no payment has a smaller fencing token than the previous one
    int killed = 0;
    int frozen = 0;
    qint64 refusedWrites = 0;
    QList<int> drawsByWorker;
    double seconds = 0;

    bool isExact() const { return complete && inOrder && paid == pot && left == 0 && lostUpdates == 0; }
};

// Prints the progress and the results: on a terminal with a moving bar, coloured unless NO_COLOR is set; elsewhere as
// plain lines, one per second.
class Report
{
public:
    Report();

    void heading(const QString &text);
    void note(const QString &text);
    void progress(bool locked, qint64 paid, qint64 pot, int draws);
    void endProgress();
    void table(const RoundResult &unlocked, const RoundResult &locked);
    // Prints the last line, for scripts.
    void verdict(const RoundResult &locked);

private:
    enum Colour { Red = 31, Green = 32 };

    void print(const QString &text);
    QString coloured(Colour colour, const QString &text) const;

    const bool m_terminal;
    const bool m_colour;
    QString m_bar;
    QElapsedTimer m_sinceLine;
};
