// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "doctor/report.h"

#include "exitcodes.h"
#include "lockview.h"
#include "output.h"

#include <algorithm>
#include <array>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace Cli {

namespace {

/// What a fail-over takes after the time of silence: the vote, the promotion and the first renewal.
constexpr milliseconds FailOverTime = 3s;

QString nameOf(DoctorReport::Level level)
{
    static constexpr std::array Names{"ok", "info", "warn", "fail"};
    return QString::fromLatin1(Names.at(size_t(level)));
}

Style styleOf(DoctorReport::Level level)
{
    static constexpr std::array Styles{Style::Green, Style::Dim, Style::Yellow, Style::Red};
    return Styles.at(size_t(level));
}

} // namespace

void DoctorReport::add(Level level, const QString &check, const QString &text, const QString &advice,
                       const QJsonObject &details)
{
    const QString remedy = level == Ok ? QString() : advice;
    m_worst = std::max(m_worst, level);
    if (isJson()) {
        QJsonObject object{{u"check"_s, check},
                           {u"level"_s, nameOf(level)},
                           {u"text"_s, text},
                           {u"remedy"_s, remedy.isEmpty() ? QJsonValue() : QJsonValue(remedy)}};
        for (auto detail = details.begin(); detail != details.end(); ++detail)
            object.insert(detail.key(), detail.value());
        m_checks.append(object);
        return;
    }
    if (isQuiet() && level < Warning)
        return;
    QString line = u"%1 %2: %3"_s.arg(styled(nameOf(level).leftJustified(4), styleOf(level)), check, printable(text));
    if (!remedy.isEmpty())
        line += u" → "_s + printable(remedy);
    m_isPrinted = m_isPrinted && printLine(line);
}

void DoctorReport::addFailOver(const QString &whom, const QString &setting, const QString &detail, milliseconds silent,
                               milliseconds lease, const QString &remedy)
{
    // A renewal may have been sent a third of the lease before the master fails.
    const milliseconds shortest = (silent + FailOverTime) * 3 / 2;
    const bool isLongEnough = lease >= shortest;
    add(isLongEnough ? Ok : Warning, u"failover"_s,
        u"%1 a master that is silent for %2 (%3); leases from %4 on survive that%5"_s.arg(
                whom, roughText(silent), setting, roughText(shortest),
                isLongEnough ? QString() : u", one of %1 does not"_s.arg(roughText(lease))),
        remedy, {{detail, qint64(silent.count())}, {u"shortestLeaseMs"_s, qint64(shortest.count())}});
}

int DoctorReport::finish(const QString &server)
{
    const int code = m_worst == Failure ? CheckFailed : m_worst == Warning ? NotHeld : Success;
    if (isJson()) {
        m_isPrinted = printJson({{u"command"_s, u"doctor"_s},
                                 {u"server"_s, server},
                                 {u"result"_s, nameOf(m_worst == Info ? Ok : m_worst)},
                                 {u"checks"_s, m_checks}});
    }
    return m_isPrinted ? code : InternalError;
}

} // namespace Cli
