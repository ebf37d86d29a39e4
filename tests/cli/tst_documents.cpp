// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// --help, the man page and the completions of the shells say the same, and are correct in their languages.

#include "clitest.h"

#include "options.h"
#include "support/rows.h"

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

/// Why a test that runs \a program cannot run here; empty if it can.
static QByteArray missing(const QString &program)
{
    if (!QStandardPaths::findExecutable(program).isEmpty())
        return {};
    return "This test runs " + program.toUtf8()
            + ", which is not installed here; on Debian and Ubuntu, tools/packages installs it.";
}

class tst_Documents : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase();
    void helpOfEachCommand_data();
    void helpOfEachCommand();
    void helpWithoutCommand();
    void helpFitsTheTerminal();
    void manPage();
    void manPageIsCorrect();
    void jsonMembers();
    void completionHasEverything_data() { helpOfEachCommand_data(); }
    void completionHasEverything();
    void installedCompletion_data() { Support::addNamedRows<QString>("shell", {"bash", "zsh", "fish"}); }
    void installedCompletion();
    void syntax_data() { installedCompletion_data(); }
    void syntax();
    void bashCompletes_data();
    void bashCompletes();
    void zshCompletes_data();
    void zshCompletes();
    void fishCompletes_data();
    void fishCompletes();
    void completionWithoutServer();
    void unknownShell();

private:
    QStringList completed(const QString &shell, const QStringList &arguments);

    Support::RedisServer m_server;
};

namespace {

QByteArray contentOf(const QString &path)
{
    QFile file(path);
    return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
}

QString scriptOf(const QString &shell)
{
    return QStringLiteral(COMPLETIONS "/qdistlock.") + shell;
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
        names.insert(option.name);
    return names;
}

Result printed(const QStringList &arguments)
{
    return run({}, arguments);
}

/// The lines of a reply of `__complete`, without the explanations of words.
QStringList wordsOf(const Result &result)
{
    QStringList words = QString::fromUtf8(result.output).split(u'\n', Qt::SkipEmptyParts);
    for (QString &word : words)
        word = word.section(u'\t', 0, 0);
    return words;
}

} // namespace

/// Three locks, one of which has a name that must not be executed.
void tst_Documents::initTestCase()
{
    QVERIFY2(m_server.start(), qPrintable(m_server.errorString()));
    for (const QByteArray &name : {"job"_ba, "deploy:web"_ba, "$(id)"_ba})
        m_server.command({"SET", "lock:" + name, "holder", "PX", "3600000"});
}

void tst_Documents::helpOfEachCommand_data()
{
    QTest::addColumn<int>("command");
    for (const CommandInfo &command : commands())
        QTest::newRow(qPrintable(command.name)) << int(command.command);
}

void tst_Documents::helpOfEachCommand()
{
    QFETCH(int, command);
    const CommandInfo &row = info(Command(command));
    const Result result = printed({row.name, u"--help"_s});
    QCOMPARE(result.status, 0);
    QCOMPARE(result.errors, QByteArray());
    if (row.command != Command::Help)
        QCOMPARE(printed({u"help"_s, row.name}).output, result.output);
    const QString text = QString::fromUtf8(result.output);
    for (const OptionInfo &option : options()) {
        const bool isShown = QRegularExpression(u"^ .*"_s + QRegularExpression::escape(optionSyntax(option))
                                                        + u"( |$)"_s,
                                                QRegularExpression::MultilineOption)
                                     .match(text)
                                     .hasMatch();
        QVERIFY2(isShown == option.isFor(row.command), qPrintable(option.name));
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
        all.append({command.name, u"--help"_s});
    for (const QStringList &arguments : std::as_const(all)) {
        const QStringList lines = QString::fromUtf8(printed(arguments).output).split(u'\n');
        for (const QString &line : lines)
            QVERIFY2(line.size() <= 80, qPrintable(line));
    }
}

void tst_Documents::manPage()
{
    const QByteArray page = contentOf(QStringLiteral(MAN_PAGE));
    QVERIFY(!page.isEmpty());
    QVERIFY(std::all_of(page.begin(), page.end(), [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }));
    QString text = QString::fromLatin1(page);
    text.replace(u"\\-"_s, u"-"_s);
    QCOMPARE(optionsIn(text), allOptions());
    for (const CommandInfo &command : commands())
        QVERIFY2(text.contains(u".SS \"%1 - "_s.arg(command.name)), qPrintable(command.name));
    for (const Explanation &code : exitCodeTexts())
        QVERIFY2(text.contains(u"\\fB%1\\fR\n"_s.arg(code.name)), qPrintable(code.name));
}

void tst_Documents::manPageIsCorrect()
{
    if (const QByteArray reason = missing(u"man"_s); !reason.isEmpty())
        QSKIP(reason.constData());
    QProcess man;
    QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
    environment.insert(u"MANWIDTH"_s, u"80"_s);
    environment.insert(u"LC_ALL"_s, u"C.UTF-8"_s);
    man.setProcessEnvironment(environment);
    man.start(u"man"_s, {u"--warnings"_s, u"-l"_s, QStringLiteral(MAN_PAGE)});
    QVERIFY(man.waitForFinished(60000));
    QCOMPARE(man.readAllStandardError(), QByteArray());
    QCOMPARE(man.exitCode(), 0);
    const QByteArray text = man.readAllStandardOutput();
    QVERIFY2(text.contains("--connect-timeout DUR") && text.contains("EXIT STATUS"), text.constData());
}

// The man page explains each object that the schema describes, and each of its members.
void tst_Documents::jsonMembers()
{
    QString page = QString::fromLatin1(contentOf(QStringLiteral(MAN_PAGE)));
    page = page.sliced(page.indexOf(u".SH JSON OUTPUT"_s));
    page = page.first(page.indexOf(u".SH EXAMPLES"_s));
    const QJsonObject schema = QJsonDocument::fromJson(contentOf(QStringLiteral(SCHEMA))).object();
    const QJsonObject definitions = schema.value(u"$defs"_s).toObject();
    qsizetype members = 0;
    for (auto it = definitions.constBegin(); it != definitions.constEnd(); ++it) {
        const QJsonObject properties = it->toObject().value(u"properties"_s).toObject();
        if (properties.isEmpty() || it.key() == u"ls" || it.key() == u"show") // these narrow down "listing"
            continue;
        const QString title = it->toObject().value(u"title"_s).toString();
        QVERIFY2(!title.isEmpty() && page.contains(u".SS \"%1\"\n"_s.arg(title)), qPrintable(it.key()));
        members += properties.size();
        for (const QString &member : properties.keys()) {
            QVERIFY2(!properties.value(member).toObject().value(u"description"_s).toString().isEmpty(),
                     qPrintable(member));
            QVERIFY2(page.contains(u"\\fB%1\\fR\n"_s.arg(member)), qPrintable(member));
        }
    }
    QCOMPARE(page.count(u".TP\n"_s), members);
}

void tst_Documents::completionHasEverything()
{
    QFETCH(int, command);
    const QString name = info(Command(command)).name;
    QVERIFY(wordsOf(printed({u"__complete"_s, QString()})).contains(name));
    QStringList expected{u"words"_s};
    for (const OptionInfo &option : options()) {
        // The place of -c is behind the name of the lock, where the completion of commands takes over.
        if (!option.isFor(Command(command)) || option.option == Option::ShellCommand)
            continue;
        expected += option.forms();
        if (option.kind == ValueKind::None)
            continue;
        const QStringList values = option.kind == ValueKind::File ? QStringList{u"files"_s}
                                                                  : QStringList{u"words"_s} + option.choiceList();
        QCOMPARE(wordsOf(printed({u"__complete"_s, name, option.forms().last(), QString()})), values);
    }
    QCOMPARE(wordsOf(printed({u"__complete"_s, name, u"-"_s})), expected);
    QCOMPARE(wordsOf(printed({u"__complete"_s, name, u"--"_s, u"-"_s})).filter(u"--"_s), QStringList());
}

void tst_Documents::installedCompletion()
{
    QFETCH(QString, shell);
    QVERIFY(!contentOf(scriptOf(shell)).isEmpty());
    QCOMPARE(contentOf(scriptOf(shell)), printed({u"completion"_s, shell}).output);
}

void tst_Documents::syntax()
{
    QFETCH(QString, shell);
    if (const QByteArray reason = missing(shell); !reason.isEmpty())
        QSKIP(reason.constData());
    QProcess process;
    process.start(shell, {u"-n"_s, scriptOf(shell)});
    QVERIFY(process.waitForFinished(60000));
    QCOMPARE(process.readAllStandardError(), QByteArray());
    QCOMPARE(process.exitCode(), 0);
}

/// What \a shell prints, which finds the program and the server.
QStringList tst_Documents::completed(const QString &shell, const QStringList &arguments)
{
    QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
    environment.insert(u"PATH"_s, QFileInfo(QStringLiteral(QDISTLOCK)).path() + u':' + environment.value(u"PATH"_s));
    environment.insert(u"QDISTLOCK_URL"_s, m_server.url().toString());
    QProcess process;
    process.setProcessEnvironment(environment);
    process.start(shell, arguments);
    if (!process.waitForFinished(60000) || process.exitStatus() != QProcess::NormalExit)
        return {u"no end"_s};
    const QByteArray errors = process.readAllStandardError();
    return errors.isEmpty() ? QString::fromUtf8(process.readAllStandardOutput()).split(u'\n', Qt::SkipEmptyParts)
                            : QStringList{QString::fromUtf8(errors)};
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
    row("qdistlock run --l", "--limit --lease", "--latest");
    row("qdistlock pe", "permits", "run");
    row("qdistlock run --s", "--shared --server", "--sort");
    row("qdistlock run -", "-n --nonblock -s -w -h", "-c --names");
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
    row("qdistlock run -nw 3 job -c ca", "cat", "--help job");
    row("qdistlock run --lease $LEASE --on-lost ", "term kill warn", "job");
    row("qdistlock release --token-file /et", "/etc", "job");
    row("qdistlock release --token-file=/et", "/etc", "job");
    row("qdistlock ls -- --na", "", "--names");
}

void tst_Documents::bashCompletes()
{
    QFETCH(QString, line);
    QFETCH(QString, expected);
    QFETCH(QString, unexpected);
    if (const QByteArray reason = missing(u"bash"_s); !reason.isEmpty())
        QSKIP(reason.constData());
    const QString script = uR"(
        source "$1"
        COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
        COMP_LINE=$2
        COMP_POINT=${#COMP_LINE}
        _qdistlock
        printf '%s\n' "${COMPREPLY[@]}"
    )"_s;
    const QStringList words = completed(u"bash"_s,
                                        {u"--norc"_s, u"-c"_s, script, u"bash"_s, scriptOf(u"bash"_s), line});
    for (const QString &word : expected.split(u' ', Qt::SkipEmptyParts))
        QVERIFY2(words.contains(word), qPrintable(words.join(u' ')));
    for (const QString &word : unexpected.split(u' ', Qt::SkipEmptyParts))
        QVERIFY2(!words.contains(word), qPrintable(words.join(u' ')));
}

void tst_Documents::zshCompletes_data()
{
    QTest::addColumn<QString>("line");
    QTest::addColumn<QString>("expected"); ///< all that is given to the functions of zsh, which show what fits
    const auto row = [](const char *line, const char *expected) {
        QTest::newRow(line) << QString::fromLatin1(line) << QString::fromLatin1(expected);
    };
    row("qdistlock --color ", "auto always never");
    row("qdistlock ls --sort=t", "--sort=name --sort=ttl --sort=queue");
    row("qdistlock show j", "$(id) deploy\\:web job");
    row("qdistlock --prefix 'lock:' show j", "$(id) deploy\\:web job");
    row("qdistlock release --token-file x", "--*= files");
    row("qdistlock run -n job ca", "1 ca");
    row("qdistlock run -n job -- cat fi", "2 cat fi");
    row("qdistlock run -n job -c ca", "1 ca");
    row("qdistlock help show ", "");
}

void tst_Documents::zshCompletes()
{
    QFETCH(QString, line);
    if (const QByteArray reason = missing(u"zsh"_s); !reason.isEmpty())
        QSKIP(reason.constData());
    const QString script = uR"(
        compdef() { }
        _describe() { for item in ${(P)3}; do print -r -- ${item/[^\\]:[A-Za-z ]*/}; done }
        compset() { print -r -- $2 }
        _files() { print files }
        _normal() { print -r -- $CURRENT $words }
        source $1
        words=("${(@Q)${(z)2}}")
        [[ $2 == *' ' ]] && words+=('')
        CURRENT=$#words
        _qdistlock
    )"_s;
    const QStringList words = completed(u"zsh"_s, {u"-f"_s, u"-c"_s, script, u"zsh"_s, scriptOf(u"zsh"_s), line});
    QTEST(words.join(u' '), "expected");
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
    row("qdistlock release --token-file /dev/nul", "/dev/null");
    row("qdistlock release --token-file=/dev/nul", "--token-file=/dev/null");
}

void tst_Documents::fishCompletes()
{
    QFETCH(QString, line);
    if (const QByteArray reason = missing(u"fish"_s); !reason.isEmpty())
        QSKIP(reason.constData());
    const QStringList lines = completed(
            u"fish"_s,
            {u"--no-config"_s, u"-c"_s, u"source $argv[1]; complete -C $argv[2]"_s, scriptOf(u"fish"_s), line});
    QStringList words;
    const QString typed = line.section(u' ', -1);
    for (const QString &printedLine : lines) {
        const QString word = printedLine.section(u'\t', 0, 0);
        if (word.startsWith(typed)) // fish 4 also offers words that only contain what was typed
            words += word;
    }
    words.sort();
    QTEST(words.join(u' '), "expected");
}

// Whoever types gets the rest at once.
void tst_Documents::completionWithoutServer()
{
    const auto withServer = [](const QUrl &url) {
        return run({{}, {{u"QDISTLOCK_URL"_s, url.toString()}}}, {u"__complete"_s, u"show"_s, QString()});
    };
    QCOMPARE(withServer(QUrl(u"redis://127.0.0.1:1"_s)).output, QByteArray("words\n"));
    QVERIFY(wordsOf(withServer(m_server.url())).contains(u"job"_s));
    QCOMPARE(printed({u"__complete"_s, u"--server"_s, m_server.url().toString(), u"--prefix"_s, u"lock:jo"_s, u"show"_s,
                      QString()})
                     .output,
             QByteArray("words\nb\n"));
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
