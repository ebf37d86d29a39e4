// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "doctorreport.h"

#include "exitcodes.h"
#include "output.h"

#include <algorithm>

using namespace Qt::StringLiterals;

namespace Cli {

namespace {

QString nameOf(DoctorReport::Level level)
{
    switch (level) {
    case DoctorReport::Ok:
        return u"ok"_s;
    case DoctorReport::Info:
        return u"info"_s;
    case DoctorReport::Warning:
        return u"warn"_s;
    case DoctorReport::Failure:
        break;
    }
    return u"fail"_s;
}

Style styleOf(DoctorReport::Level level)
{
    switch (level) {
    case DoctorReport::Ok:
        return Style::Green;
    case DoctorReport::Info:
        return Style::Dim;
    case DoctorReport::Warning:
        return Style::Yellow;
    case DoctorReport::Failure:
        break;
    }
    return Style::Red;
}

} // namespace

void DoctorReport::add(Level level, const QString &check, const QString &text, const QString &remedy)
{
    add(level, check, text, remedy, QJsonObject());
}

void DoctorReport::add(Level level, const QString &check, const QString &text, const QString &remedy,
                       const QJsonObject &details)
{
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
