// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "base/logging.h"

#include <QDistLock/lockresult.h>

#include <algorithm>

using namespace Qt::StringLiterals;

namespace QDistLock {

Q_LOGGING_CATEGORY(lcLock, "qdistlock.lock", QtInfoMsg)

namespace {

/// No lock has a name with more characters.
constexpr qsizetype LongestName = 1024;

/// The number of code units of the character at \a i, or 0 if it cannot be printed.
qsizetype printableSize(QStringView text, qsizetype i)
{
    const QChar c = text.at(i);
    if (c.isHighSurrogate() && i + 1 < text.size() && text.at(i + 1).isLowSurrogate())
        return QChar::isPrint(QChar::surrogateToUcs4(c, text.at(i + 1))) ? 2 : 0;
    return c.isPrint() ? 1 : 0;
}

QString escaped(QChar c)
{
    return c == u'\n' ? u"\\n"_s : u"\\u%1"_s.arg(int(c.unicode()), 4, 16, QLatin1Char('0'));
}

/// In double quotes, with the escapes of JSON, unless it can be read without.
QString fieldValue(QStringView text)
{
    QString value;
    bool mustQuote = text.isEmpty();
    for (qsizetype i = 0; i < text.size(); ++i) {
        const QChar c = text.at(i);
        const qsizetype size = c.isSpace() && c != u' ' ? 0 : printableSize(text, i);
        mustQuote |= size == 0 || c == u' ' || c == u'"' || c == u'=' || c == u'\\';
        if (c == u'"' || c == u'\\')
            value += u'\\';
        value += size == 0 ? escaped(c) : text.sliced(i, size).toString();
        i += std::max<qsizetype>(size - 1, 0);
    }
    return mustQuote ? u'"' + value + u'"' : value;
}

} // namespace

QString withFields(const QString &text, const QString &lock, qint64 fencingToken, const QByteArray &client)
{
    QString line = text;
    if (!lock.isEmpty() && lock.size() <= LongestName)
        line += u" lock="_s + fieldValue(lock);
    if (fencingToken > 0)
        line += u" fence="_s + QString::number(fencingToken);
    if (!client.isEmpty())
        line += u" client="_s + fieldValue(QString::fromLatin1(client));
    return line;
}

QString Detail::quoted(QStringView text)
{
    constexpr qsizetype Longest = 100;
    QStringView cut = text.first(std::min(text.size(), Longest));
    if (cut.size() < text.size() && cut.back().isHighSurrogate())
        cut.chop(1);
    QString shown(u'"');
    for (qsizetype i = 0; i < cut.size(); ++i) {
        const qsizetype size = printableSize(cut, i);
        if (size > 0)
            shown += cut.sliced(i, size);
        else
            shown += cut.at(i).isNull() ? u"\\0"_s : escaped(cut.at(i));
        i += std::max<qsizetype>(size - 1, 0);
    }
    shown += cut.size() < text.size() ? u"…\"" : u"\"";
    if (cut.size() < text.size())
        shown += u" (%1 characters)"_s.arg(text.size());
    return shown;
}

} // namespace QDistLock
