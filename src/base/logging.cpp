// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "base/logging.h"

#include <QDistLock/lockresult.h>

using namespace Qt::StringLiterals;

namespace QDistLock {

Q_LOGGING_CATEGORY(lcLock, "qdistlock.lock", QtInfoMsg)

QString Detail::quoted(QStringView text)
{
    constexpr qsizetype Longest = 100;
    QStringView cut = text.first(std::min(text.size(), Longest));
    if (cut.size() < text.size() && cut.back().isHighSurrogate())
        cut.chop(1);
    QString shown(u'"');
    for (qsizetype i = 0; i < cut.size(); ++i) {
        const QChar c = cut.at(i);
        const bool isPair = c.isHighSurrogate() && i + 1 < cut.size() && cut.at(i + 1).isLowSurrogate();
        if (isPair && QChar::isPrint(QChar::surrogateToUcs4(c, cut.at(i + 1))))
            shown += cut.sliced(i++, 2);
        else if (c.isPrint())
            shown += c;
        else if (c == u'\n')
            shown += u"\\n";
        else if (c.isNull())
            shown += u"\\0";
        else
            shown += u"\\u%1"_s.arg(int(c.unicode()), 4, 16, QLatin1Char('0'));
    }
    shown += cut.size() < text.size() ? u"…\"" : u"\"";
    if (cut.size() < text.size())
        shown += u" (%1 characters)"_s.arg(text.size());
    return shown;
}

} // namespace QDistLock
