// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "report.h"

#include <QtCore/QtGlobal>

#include <unistd.h>

#include <cstdio>

using namespace Qt::StringLiterals;

namespace {

QString grouped(qint64 number)
{
    QString digits = QString::number(number);
    for (qsizetype i = digits.size() - 3; i > 0; i -= 3)
        digits.insert(i, QLatin1Char(' '));
    return digits;
}

} // namespace

Report::Report()
    : m_terminal(isatty(STDOUT_FILENO) && qgetenv("TERM") != "dumb")
    , m_colour(m_terminal && qEnvironmentVariableIsEmpty("NO_COLOR"))
{
}

void Report::heading(const QString &text)
{
    print(QLatin1Char('\n') + text + QLatin1Char('\n'));
}

void Report::note(const QString &text)
{
    if (m_terminal && !m_bar.isEmpty())
        print(u"\r\x1b[K"_s);
    print(u"  "_s + text + QLatin1Char('\n'));
    if (m_terminal)
        print(m_bar);
}

void Report::progress(bool locked, qint64 paid, qint64 pot, int draws)
{
    constexpr int width = 30;
    const int filled = static_cast<int>(qMin<qint64>(paid, pot) * width / pot);
    const QString bar = QString(filled, QLatin1Char('#')) + QString(width - filled, QLatin1Char('.'));
    const QString text = u"  [%1] %2 % paid, %3 draws"_s.arg(bar).arg(paid * 100 / pot, 3).arg(grouped(draws));
    m_bar = paid > pot ? coloured(Red, text) : locked ? coloured(Green, text) : text;
    if (m_terminal) {
        print(u"\r\x1b[K"_s + m_bar);
    } else if (!m_sinceLine.isValid() || m_sinceLine.elapsed() >= 1000) {
        print(text + QLatin1Char('\n'));
        m_sinceLine.start();
    }
}

void Report::endProgress()
{
    print((m_terminal ? QString() : m_bar) + QLatin1Char('\n'));
    m_bar.clear();
    m_sinceLine.invalidate();
}

void Report::table(const RoundResult &unlocked, const RoundResult &locked)
{
    const auto row = [this](const QString &label, const QString &left, const QString &right) {
        print(u"  %1 %2 %3\n"_s.arg(label, -22).arg(left, 16).arg(right, 16));
    };
    const auto numbers = [&row](const QString &label, qint64 left, qint64 right) {
        row(label, grouped(left), grouped(right));
    };
    print(u"\n"_s);
    row(QString(), u"without lock"_s, u"with lock"_s);
    numbers(u"in the pot, cents"_s, unlocked.pot, locked.pot);
    numbers(u"paid, cents"_s, unlocked.paid, locked.paid);
    numbers(u"paid too much, cents"_s, unlocked.paid + unlocked.left - unlocked.pot,
            locked.paid + locked.left - locked.pot);
    numbers(u"draws"_s, unlocked.draws, locked.draws);
    numbers(u"lost updates"_s, unlocked.lostUpdates, locked.lostUpdates);
    numbers(u"workers killed"_s, unlocked.killed, locked.killed);
    numbers(u"workers frozen"_s, unlocked.frozen, locked.frozen);
    row(u"stale writes refused"_s, u"-"_s, grouped(locked.refusedWrites));
    for (qsizetype i = 0; i < locked.drawsByWorker.size(); ++i)
        numbers(u"draws of worker %1"_s.arg(i + 1), unlocked.drawsByWorker.at(i), locked.drawsByWorker.at(i));
    row(u"seconds"_s, QString::number(unlocked.seconds, 'f', 1), QString::number(locked.seconds, 'f', 1));
    print(u"\n"_s);
}

void Report::verdict(const RoundResult &locked)
{
    print(u"with lock: paid %1 of %2, draws %3, lost updates %4, killed %5, frozen %6, "
          "stale writes refused %7\n"_s.arg(locked.paid)
                  .arg(locked.pot)
                  .arg(locked.draws)
                  .arg(locked.lostUpdates)
                  .arg(locked.killed)
                  .arg(locked.frozen)
                  .arg(locked.refusedWrites));
}

void Report::print(const QString &text)
{
    std::fputs(qPrintable(text), stdout);
    std::fflush(stdout);
}

QString Report::coloured(Colour colour, const QString &text) const
{
    return m_colour ? u"\x1b[%1m%2\x1b[0m"_s.arg(int(colour)).arg(text) : text;
}
