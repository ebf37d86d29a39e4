// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// The program that writes the page qdistlock(1), in roff with the macros of man(7), when qdistlock is built. ASCII.

#include "options.h"

#include <QDistLock/qdistlockversion.h>

#include <QtCore/qfile.h>
#include <QtCore/qjsonarray.h>
#include <QtCore/qjsondocument.h>
#include <QtCore/qjsonobject.h>

#include <algorithm>
#include <cstdio>

using namespace Qt::StringLiterals;
using namespace Cli;

namespace {

/// \a text for roff: ASCII, without anything that roff would take for a request or an escape.
QString escaped(const QString &text)
{
    QString result;
    const auto codePoints = text.toUcs4();
    for (const uint codePoint : codePoints) {
        if (codePoint == '\\')
            result += u"\\e"_s;
        else if (codePoint == '-')
            result += u"\\-"_s; // a plain one may become a hyphen, which nobody can copy
        else if (codePoint == '\'')
            result += u"\\(aq"_s;
        else if (codePoint == '`')
            result += u"\\(ga"_s;
        else if (codePoint == '^')
            result += u"\\(ha"_s;
        else if (codePoint == '~')
            result += u"\\(ti"_s;
        else if (codePoint == 0x2026)
            result += u"..."_s;
        else if (codePoint >= 0x80)
            result += u"\\[u%1]"_s.arg(QString::number(codePoint, 16).toUpper().rightJustified(4, u'0'));
        else
            result += QChar(ushort(codePoint));
    }
    return result.startsWith(u'.') ? u"\\&"_s + result : result;
}

QString bold(const QString &text)
{
    return u"\\fB"_s + escaped(text) + u"\\fR"_s;
}

QString italic(const QString &text)
{
    return u"\\fI"_s + escaped(text) + u"\\fR"_s;
}

/// "\fB-w\fR, \fB--timeout\fR \fIDUR\fR"
QString syntaxOf(const OptionInfo &option)
{
    QStringList forms = option.forms();
    std::transform(forms.begin(), forms.end(), forms.begin(), bold);
    const QString text = forms.join(u", "_s);
    return option.valueName.isEmpty() ? text : text + u' ' + italic(option.valueName);
}

QString paragraphs(const QString &text)
{
    QString result;
    const QStringList parts = text.split(u"\n\n"_s);
    for (const QString &part : parts)
        result += u".PP\n"_s + escaped(part) + u'\n';
    return result;
}

/// \a term in the margin, \a text beside it.
QString item(const QString &term, const QString &text)
{
    return u".TP\n"_s + term + u'\n' + escaped(text) + u'\n';
}

/// A sentence of a short text of the tables.
QString sentence(const QString &text)
{
    return text.isEmpty() ? text : text.at(0).toUpper() + text.sliced(1) + u'.';
}

QString optionItem(const OptionInfo &option)
{
    QString text = sentence(option.help);
    if (option.kind == ValueKind::Choice)
        text += u' ' + option.valueName + u" is one of "_s + option.choiceList().join(u", "_s) + u'.';
    return item(syntaxOf(option), text);
}

/// Their texts as they are: many begin with a word that must not have a capital letter.
QString items(const QList<Explanation> &rows)
{
    QString text;
    for (const Explanation &row : rows)
        text += item(bold(row.name), row.text);
    return text;
}

QString synopsis(const CommandInfo &command)
{
    QString text = bold(u"qdistlock"_s) + u" [\\fIOPTION\\fR...] "_s + bold(command.name);
    const bool hasOptions = std::any_of(options().cbegin(), options().cend(), [&command](const OptionInfo &option) {
        return !option.isGlobal() && option.isFor(command.command);
    });
    if (hasOptions)
        text += u" [\\fIOPTION\\fR...]"_s;
    return command.operands.isEmpty() ? text : text + u' ' + italic(command.operands);
}

QString section(const QString &title)
{
    return u".SH "_s + title + u'\n';
}

QString subsection(const QString &title)
{
    return u".SS \""_s + escaped(title) + u"\"\n"_s;
}

/// \a definitions: those of docs/qdistlock.schema.json.
QString jsonSection(const QJsonObject &definitions)
{
    QString text = section(u"JSON OUTPUT"_s);
    text += paragraphs(
            u"With --json, each line of the output is one JSON object, in UTF-8. Errors are text on standard error all "
            "the same. Times are in milliseconds. Members may be added later, so skip those that you do not know. The "
            "file qdistlock.schema.json, which is installed in share/qdistlock, describes the same as a JSON schema.\n\n"
            "run prints nothing of its own: the output is that of CMD, with --json and without."_s);
    for (const QString &name : {u"outcome"_s, u"permits"_s, u"listing"_s, u"event"_s, u"hold"_s, u"lock"_s, u"client"_s,
                                u"waiter"_s, u"doctor"_s, u"check"_s}) {
        const QJsonObject object = definitions.value(name).toObject();
        const QJsonObject members = object.value(u"properties"_s).toObject();
        text += subsection(object.value(u"title"_s).toString());
        QStringList names = object.value(u"required"_s).toVariant().toStringList();
        const QStringList all = members.keys();
        std::copy_if(all.begin(), all.end(), std::back_inserter(names),
                     [required = names](const QString &member) { return !required.contains(member); });
        for (const QString &member : std::as_const(names))
            text += item(bold(member), members.value(member).toObject().value(u"description"_s).toString());
    }
    return text;
}

QByteArray manPage(const QJsonObject &schema)
{
    // Each file of the project names its licence.
    QString text = u".\\\" SPDX-"_s + u"FileCopyrightText: 2026 The QDistLock developers\n.\\\" SPDX-"_s
            + u"License-Identifier: MIT\n"_s;
    text += u".\\\" Made from the options of the program when it was built.\n"_s;
    text += u".TH QDISTLOCK 1 \"\" \"QDistLock %1\" \"User Commands\"\n"_s.arg(QLatin1String(QDISTLOCK_VERSION_STRING));
    text += u".nh\n.ad l\n"_s; // names are not hyphenated
    text += section(u"NAME"_s) + u"qdistlock \\- locks that exclude each other on all machines\n"_s;

    text += section(u"SYNOPSIS"_s);
    for (const CommandInfo &command : commands())
        text += synopsis(command) + u"\n.br\n"_s;
    text.chop(4); // the last .br

    text += section(u"DESCRIPTION"_s);
    text += paragraphs(
            u"Locks that exclude each other on all machines that use the same Redis server. At most one holder has "
            "a lock at a time. A lock is a lease: the server ends it if nobody renews it, for example because "
            "the machine of its holder is gone.\n\n"
            "The names of locks are free text. Programs that use the library QDistLock, and other libraries that keep a lock in a Redis key of the same name, are excluded, too."_s);

    text += section(u"COMMANDS"_s);
    for (const CommandInfo &command : commands()) {
        text += subsection(command.name + u" - "_s + command.summary);
        text += paragraphs(command.description);
        for (const OptionInfo &option : options()) {
            if (!option.isGlobal() && option.isFor(command.command))
                text += optionItem(option);
        }
    }

    text += section(u"OPTIONS OF EVERY COMMAND"_s);
    for (const OptionInfo &option : options()) {
        if (option.isGlobal())
            text += optionItem(option);
    }
    text += section(u"DURATIONS"_s)
            + paragraphs(
                    u"Durations are written as 250ms, 2s, 5m and 1h; a bare number is seconds. Fractions are allowed."_s);
    text += section(u"EXIT STATUS"_s) + items(exitCodeTexts());
    text += section(u"ENVIRONMENT"_s) + items(environmentTexts());
    text += section(u"ENVIRONMENT OF CMD"_s) + items(childEnvironmentTexts());

    text += jsonSection(schema.value(u"$defs"_s).toObject());
    text += section(u"EXAMPLES"_s);
    for (const Explanation &example : exampleTexts())
        text += item(bold(example.name), sentence(example.text));
    text += section(u"SEE ALSO"_s) + u"\\fBflock\\fR(1), \\fBredis\\-cli\\fR(1)\n"_s;
    return text.toLatin1();
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 3) {
        std::fputs("Usage: qdistlock_manpage SCHEMA PAGE\n", stderr);
        return 64;
    }
    QFile schema(QFile::decodeName(argv[1]));
    QFile file(QFile::decodeName(argv[2]));
    if (schema.open(QIODevice::ReadOnly) && file.open(QIODevice::WriteOnly)) {
        const QByteArray page = manPage(QJsonDocument::fromJson(schema.readAll()).object());
        if (file.write(page) == page.size() && file.flush())
            return 0;
    }
    std::fprintf(stderr, "%s: %s%s\n", argv[2], qPrintable(schema.errorString()), qPrintable(file.errorString()));
    return 1;
}
