// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// --help, the man page and the completions of the shells say the same, and are correct in their languages.

#include "clitest.h"

#include "jsontexts.h"
#include "options.h"

#include <QtCore/qfile.h>
#include <QtCore/qjsondocument.h>
#include <QtCore/qjsonobject.h>
#include <QtCore/qregularexpression.h>
#include <QtCore/qstandardpaths.h>

#include <algorithm>

using namespace Qt::StringLiterals;

using namespace Cli;
using CliTesting::Result;
using CliTesting::run;

class tst_Documents : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void helpOfEachCommand_data();
    void helpOfEachCommand();
    void helpWithoutCommand();
    void helpFitsTheTerminal();
    void manPage();
    void manPageIsCorrect();
    void jsonMembers();
    void completionHasEverything_data();
    void completionHasEverything();
    void installedCompletion_data();
    void installedCompletion();
    void syntax_data();
    void syntax();
    void bashCompletes_data();
    void bashCompletes();
    void fishCompletes_data();
    void fishCompletes();
    void unknownShell();
};

namespace {

QByteArray readDocument(const QString &name)
{
    QFile file(QStringLiteral(DOCUMENTS) + u'/' + name);
    return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
}

/// The long options that \a text names.
QSet<QString> optionsIn(const QString &text)
{
    static const QRegularExpression option(u"--([a-z][a-z-]*)"_s);
    QSet<QString> found;
    auto matches = option.globalMatch(text);
    while (matches.hasNext())
        found.insert(matches.next().captured(1));
    return found;
}

QSet<QString> allOptions()
{
    QSet<QString> names;
    for (const OptionInfo &option : options())
        names.insert(QString::fromUtf8(option.name));
    return names;
}

Result printed(const QStringList &arguments)
{
    return run({}, arguments);
}

} // namespace

void tst_Documents::helpOfEachCommand_data()
{
    QTest::addColumn<int>("command");
    for (const CommandInfo &command : commands())
        QTest::newRow(command.name) << int(command.command);
}

void tst_Documents::helpOfEachCommand()
{
    QFETCH(int, command);
    const CommandInfo &row = info(Command(command));
    const Result result = printed({QString::fromUtf8(row.name), u"--help"_s});
    QCOMPARE(result.status, 0);
    QCOMPARE(result.errors, QByteArray());
    if (row.command != Command::Help)
        QCOMPARE(printed({u"help"_s, QString::fromUtf8(row.name)}).output, result.output);
    const QString text = QString::fromUtf8(result.output);
    for (const OptionInfo &option : options()) {
        const bool isShown = QRegularExpression(u"^ .*"_s + QRegularExpression::escape(optionSyntax(option))
                                                        + u"( |$)"_s,
                                                QRegularExpression::MultilineOption)
                                     .match(text)
                                     .hasMatch();
        QVERIFY2(isShown == option.isFor(row.command), option.name);
    }
}

void tst_Documents::helpWithoutCommand()
{
    const Result result = printed({u"--help"_s});
    QCOMPARE(result.status, 0);
    QVERIFY2(result.output.startsWith("Usage: qdistlock [OPTION…] COMMAND"), result.output.constData());
    QCOMPARE(printed({u"help"_s}).output, result.output);
    QVERIFY(printed({u"help"_s, u"--help"_s}).output.startsWith("Usage: qdistlock help"));
}

void tst_Documents::helpFitsTheTerminal()
{
    QList<QStringList> all{{u"--help"_s}};
    for (const CommandInfo &command : commands())
        all.append({QString::fromUtf8(command.name), u"--help"_s});
    for (const QStringList &arguments : std::as_const(all)) {
        const QStringList lines = QString::fromUtf8(printed(arguments).output).split(u'\n');
        for (const QString &line : lines)
            QVERIFY2(line.size() <= 80, qPrintable(line));
    }
}

void tst_Documents::manPage()
{
    const QByteArray page = readDocument(u"qdistlock.1"_s);
    QVERIFY(!page.isEmpty());
    QVERIFY(std::all_of(page.begin(), page.end(), [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }));
    QString text = QString::fromLatin1(page);
    text.replace(u"\\-"_s, u"-"_s);
    QCOMPARE(optionsIn(text), allOptions());
    for (const CommandInfo &command : commands())
        QVERIFY2(text.contains(u".SS \"%1 - "_s.arg(QString::fromUtf8(command.name))), command.name);
    for (const Explanation &code : exitCodeTexts())
        QVERIFY2(text.contains(u"\\fB%1\\fR\n"_s.arg(QString::fromUtf8(code.name))), code.name);
}

void tst_Documents::manPageIsCorrect()
{
    if (QStandardPaths::findExecutable(u"man"_s).isEmpty())
        QSKIP("man is not installed; tools/packages installs it");
    QProcess man;
    QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
    environment.insert(u"MANWIDTH"_s, u"80"_s);
    environment.insert(u"LC_ALL"_s, u"C.UTF-8"_s);
    man.setProcessEnvironment(environment);
    man.start(u"man"_s, {u"--warnings"_s, u"-l"_s, QStringLiteral(DOCUMENTS) + u"/qdistlock.1"_s});
    QVERIFY(man.waitForFinished(60000));
    QCOMPARE(man.readAllStandardError(), QByteArray());
    QCOMPARE(man.exitCode(), 0);
    const QByteArray text = man.readAllStandardOutput();
    QVERIFY2(text.contains("--connect-timeout DUR") && text.contains("EXIT STATUS"), text.constData());
}

// The man page names the members of each object that the schema describes, and no others.
void tst_Documents::jsonMembers()
{
    QString page = QString::fromLatin1(readDocument(u"qdistlock.1"_s));
    page = page.sliced(page.indexOf(u".SH JSON OUTPUT"_s));
    QFile file(QStringLiteral(SCHEMA));
    QVERIFY(file.open(QIODevice::ReadOnly));
    QJsonObject schema = QJsonDocument::fromJson(file.readAll()).object().value(u"$defs"_s).toObject();
    for (const QString &narrowed : {u"ls"_s, u"show"_s}) // of listing
        schema.remove(narrowed);
    QStringList described;
    for (const JsonObjectText &object : jsonObjects()) {
        const QString name = QString::fromLatin1(object.schema);
        described += name;
        QStringList members;
        for (const Explanation &member : object.members) {
            members += QString::fromLatin1(member.name);
            QVERIFY2(page.contains(u"\\fB%1\\fR\n"_s.arg(members.last())), member.name);
        }
        members.sort();
        QCOMPARE(members, schema.value(name).toObject().value(u"properties"_s).toObject().keys());
    }
    QStringList objects;
    for (auto it = schema.constBegin(); it != schema.constEnd(); ++it) {
        if (it->toObject().contains(u"properties"_s))
            objects += it.key();
    }
    described.sort();
    QCOMPARE(described, objects);
}

void tst_Documents::completionHasEverything_data()
{
    QTest::addColumn<QString>("shell");
    for (const char *const shell : {"bash", "zsh", "fish"})
        QTest::newRow(shell) << QString::fromLatin1(shell);
}

void tst_Documents::completionHasEverything()
{
    QFETCH(QString, shell);
    const Result result = printed({u"completion"_s, shell});
    QCOMPARE(result.status, 0);
    QString text = QString::fromUtf8(result.output);
    const QRegularExpression ofFish(u"^(complete .*) -l ([a-z-]+)"_s, QRegularExpression::MultilineOption);
    text.replace(ofFish, u"\\1 --\\2"_s);
    QSet<QString> found = optionsIn(text);
    found.remove(u"fcs-skip"_s); // of fish itself
    QSet<QString> expected = allOptions();
    // Its place is behind the name of the lock, where the completion of commands takes over.
    const QString shellCommand = QString::fromUtf8(info(Option::ShellCommand).name);
    expected.remove(shellCommand);
    found.remove(shellCommand);
    QCOMPARE(found, expected);
    for (const CommandInfo &command : commands())
        QVERIFY2(text.contains(QRegularExpression(u"\\b%1\\b"_s.arg(QString::fromUtf8(command.name)))), command.name);
    for (const OptionInfo &option : options())
        QVERIFY2(option.choiceList().isEmpty() || text.contains(option.choiceList().join(u' ')), option.name);
}

void tst_Documents::installedCompletion_data()
{
    completionHasEverything_data();
}

void tst_Documents::installedCompletion()
{
    QFETCH(QString, shell);
    QCOMPARE(readDocument(u"qdistlock."_s + shell), printed({u"completion"_s, shell}).output);
}

void tst_Documents::syntax_data()
{
    completionHasEverything_data();
}

void tst_Documents::syntax()
{
    QFETCH(QString, shell);
    if (QStandardPaths::findExecutable(shell).isEmpty())
        QSKIP("this shell is not installed; tools/packages installs it");
    QProcess process;
    process.start(shell, {u"-n"_s, QStringLiteral(DOCUMENTS) + u"/qdistlock."_s + shell});
    QVERIFY(process.waitForFinished(60000));
    QCOMPARE(process.readAllStandardError(), QByteArray());
    QCOMPARE(process.exitCode(), 0);
}

void tst_Documents::bashCompletes_data()
{
    QTest::addColumn<QString>("line");
    QTest::addColumn<QString>("expected"); ///< some of the words
    QTest::addColumn<QString>("unexpected");
    const auto row = [](const char *line, const char *expected, const char *unexpected) {
        QTest::newRow(line) << QString::fromLatin1(line) << QString::fromLatin1(expected)
                            << QString::fromLatin1(unexpected);
    };
    row("qdistlock ", "run release completion", "--server bash");
    row("qdistlock re", "renew release", "run");
    row("qdistlock --", "--server --json", "--lease --yes");
    row("qdistlock run --no", "--nonblock --no-fair --no-renew", "--names");
    row("qdistlock run -", "-n --nonblock -w -h", "-c --names");
    row("qdistlock --json ls --", "--sort --names --json", "--lease");
    row("qdistlock ls --sort ", "name ttl queue", "--wide");
    row("qdistlock ls --sort=t", "ttl", "name");
    row("qdistlock run --lease 5m --on-lost ", "term kill warn", "job");
    row("qdistlock completion ", "bash zsh fish", "--json");
    row("qdistlock help ", "run show help", "job");
    row("qdistlock help re", "renew release", "run");
    row("qdistlock show ", "job deploy:web $(id)", "--json");
    row("qdistlock show job ", "job deploy:web", "--json");
    row("qdistlock show deploy:", "web", "job deploy:web");
    row("qdistlock run -w 3 j", "job", "jobs");
    row("qdistlock release job ", "", "job");
    row("qdistlock run job ca", "cat", "--help job");
    row("qdistlock run job -- ca", "cat", "--help job");
}

void tst_Documents::bashCompletes()
{
    QFETCH(QString, line);
    QFETCH(QString, expected);
    QFETCH(QString, unexpected);
    if (QStandardPaths::findExecutable(u"bash"_s).isEmpty())
        QSKIP("bash is not installed, as on systems with another shell");
    // A server with three locks, one of which has a name that must not be executed.
    const QString script = uR"(
        source "$1"
        qdistlock() { printf '%s\n' 'job' 'deploy:web' '$(id)'; }
        COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
        COMP_LINE=$2
        COMP_POINT=${#COMP_LINE}
        _qdistlock
        printf '%s\n' "${COMPREPLY[@]}"
    )"_s;
    QProcess process;
    process.start(u"bash"_s,
                  {u"--norc"_s, u"-c"_s, script, u"bash"_s, QStringLiteral(DOCUMENTS) + u"/qdistlock.bash"_s, line});
    QVERIFY(process.waitForFinished(60000));
    QCOMPARE(process.readAllStandardError(), QByteArray());
    const QStringList words = QString::fromUtf8(process.readAllStandardOutput()).split(u'\n', Qt::SkipEmptyParts);
    for (const QString &word : expected.split(u' ', Qt::SkipEmptyParts))
        QVERIFY2(words.contains(word), qPrintable(words.join(u' ')));
    for (const QString &word : unexpected.split(u' ', Qt::SkipEmptyParts))
        QVERIFY2(!words.contains(word), qPrintable(words.join(u' ')));
}

void tst_Documents::fishCompletes_data()
{
    QTest::addColumn<QString>("line");
    QTest::addColumn<QString>("expected"); ///< all of the words, sorted
    const auto row = [](const char *line, const char *expected) {
        QTest::newRow(line) << QString::fromLatin1(line) << QString::fromLatin1(expected);
    };
    row("qdistlock re", "release renew");
    row("qdistlock --json re", "release renew");
    row("qdistlock run --no", "--no-fair --no-renew --nonblock");
    row("qdistlock ls --sort ", "name queue ttl");
    row("qdistlock show job ", "$(id) deploy:web job");
    row("qdistlock run -w 3 ", "$(id) deploy:web job");
    row("qdistlock release job ", "");
    row("qdistlock completion ", "bash fish zsh");
    row("qdistlock help re", "release renew");
    row("qdistlock run job fish_inden", "fish_indent");
    row("qdistlock run -n job -- fish_inden", "fish_indent");
}

void tst_Documents::fishCompletes()
{
    QFETCH(QString, line);
    if (QStandardPaths::findExecutable(u"fish"_s).isEmpty())
        QSKIP("fish is not installed; tools/packages installs it");
    const QString script = uR"(
        source $argv[1]
        function qdistlock; printf '%s\n' job deploy:web '$(id)'; end
        complete -C $argv[2]
    )"_s;
    QProcess process;
    process.start(u"fish"_s,
                  {u"--no-config"_s, u"-c"_s, script, QStringLiteral(DOCUMENTS) + u"/qdistlock.fish"_s, line});
    QVERIFY(process.waitForFinished(60000));
    QCOMPARE(process.readAllStandardError(), QByteArray());
    QStringList words;
    const QStringList lines = QString::fromUtf8(process.readAllStandardOutput()).split(u'\n', Qt::SkipEmptyParts);
    const QString typed = line.section(u' ', -1);
    for (const QString &printedLine : lines) {
        const QString word = printedLine.section(u'\t', 0, 0);
        if (word.startsWith(typed)) // fish 4 also offers words that only contain what was typed
            words += word;
    }
    words.sort();
    QTEST(words.join(u' '), "expected");
}

void tst_Documents::unknownShell()
{
    const Result result = printed({u"completion"_s, u"tcsh"_s});
    QCOMPARE(result.status, 64);
    QVERIFY2(result.errors.contains("bash"), result.errors.constData());
    QCOMPARE(printed({u"completion"_s}).status, 64);
}

QTEST_GUILESS_MAIN(tst_Documents)

#include "tst_documents.moc"
