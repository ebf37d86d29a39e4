// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// The command line of qdistlock: what is accepted, and what the errors say.

#include "options.h"
#include "support/rows.h"

#include <QtCore/qfile.h>
#include <QtTest/qtest.h>

#include <algorithm>
#include <utility>

using namespace Qt::StringLiterals;

using namespace Cli;
using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace {

std::optional<Invocation> parse(const QByteArrayList &arguments, QString *error = nullptr)
{
    QString ignored;
    return Invocation::parse(arguments, error ? error : &ignored);
}

/// The words of the first command in \a line, as a shell separates them. A quotation mark that is not closed ends it.
QByteArrayList shellWords(const QByteArray &line)
{
    QByteArrayList words;
    QByteArray word;
    bool isWord = false;
    for (qsizetype i = 0; i < line.size(); ++i) {
        const char c = line.at(i);
        if (c == '\'' || c == '"') {
            const qsizetype end = line.indexOf(c, i + 1);
            if (end < 0)
                break;
            word += line.sliced(i + 1, end - i - 1);
            isWord = true;
            i = end;
        } else if (c == '|' || c == ';' || c == '&' || c == '#' || c == '>') {
            break;
        } else if (c == ' ') {
            if (std::exchange(isWord, false))
                words += std::exchange(word, QByteArray());
        } else {
            word += c;
            isWord = true;
        }
    }
    if (isWord)
        words += word;
    return words;
}

} // namespace

class tst_Options : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void durations_data();
    void durations();
    void badDurations_data();
    void badDurations();
    void durationTexts();
    void tables();
    void helpTexts();
    void optionsBeforeTheName();
    void limits();
    void valuesOfOptions_data();
    void valuesOfOptions();
    void childCommand_data();
    void childCommand();
    void rawBytes();
    void severalNames();
    void optionsAfterOperands();
    void errors_data();
    void errors();
    void examplesOfPages_data()
    {
        Support::addRows<QString>(
                "page", {{"command-line.md", u"command-line.md"_s}, {"getting-started.md", u"getting-started.md"_s}});
    }
    void examplesOfPages();
    void examplesOfTheManPage();
};

void tst_Options::durations_data()
{
    Support::addColumns<QString, milliseconds>("text", "expected");
    QTest::newRow("0") << u"0"_s << 0ms;
    QTest::newRow("seconds") << u"2"_s << milliseconds(2s);
    QTest::newRow("fraction") << u"1.5"_s << 1500ms;
    QTest::newRow("binary fraction") << u"0.003"_s << 3ms;
    QTest::newRow("less than a millisecond") << u"0.0001"_s << 1ms;
    QTest::newRow("ms") << u"250ms"_s << 250ms;
    QTest::newRow("s") << u"2s"_s << milliseconds(2s);
    QTest::newRow("m") << u"5m"_s << milliseconds(5min);
    QTest::newRow("h") << u"1h"_s << milliseconds(1h);
    QTest::newRow("half an hour") << u"0.5h"_s << milliseconds(30min);
    QTest::newRow("a year") << u"8784h"_s << milliseconds(8784h);
}

void tst_Options::durations()
{
    QFETCH(QString, text);
    QFETCH(milliseconds, expected);
    const auto duration = parseDuration(text);
    QVERIFY(duration);
    QCOMPARE(duration->count(), expected.count());
}

void tst_Options::badDurations_data()
{
    QTest::addColumn<QString>("text");
    const char *const texts[] = {"",
                                 "s",
                                 "-1",
                                 "+1",
                                 ".5",
                                 "5.",
                                 "1.2.3",
                                 "1d",
                                 "1 s",
                                 " 1",
                                 "1s ",
                                 "1e3",
                                 "0x1",
                                 "inf",
                                 "nan",
                                 "1S",
                                 "1min",
                                 "8785h",
                                 "99999999999999999999",
                                 "1,5",
                                 "２"};
    for (const char *text : texts)
        QTest::newRow(*text ? text : "empty") << QString::fromUtf8(text);
}

void tst_Options::badDurations()
{
    QFETCH(QString, text);
    QVERIFY(!parseDuration(text));
}

void tst_Options::durationTexts()
{
    for (const milliseconds duration :
         {0ms, 1ms, 250ms, 999ms, 1000ms, 1500ms, 60000ms, 90000ms, 3600000ms, 5400000ms}) {
        const auto parsed = parseDuration(durationText(duration));
        QVERIFY(parsed);
        QCOMPARE(parsed->count(), duration.count());
    }
    QCOMPARE(durationText(90s), u"90s"_s);
    QCOMPARE(durationText(2h), u"2h"_s);
}

void tst_Options::tables()
{
    // Each enumerator has one row, and no command has two options of one name.
    for (int command = 0; command <= int(Command::Help); ++command) {
        QCOMPARE(int(info(Command(command)).command), command);
        QStringList names;
        for (const OptionInfo &option : options()) {
            if (!option.isFor(Command(command)))
                continue;
            names += u"--"_s + option.name;
            if (option.shortName)
                names += u"-"_s + QLatin1Char(option.shortName);
        }
        QCOMPARE(QSet<QString>(names.cbegin(), names.cend()).size(), names.size());
    }
    for (int option = 0; option <= int(Option::Interval); ++option)
        QCOMPARE(int(info(Option(option)).option), option);
    for (const OptionInfo &option : options()) {
        QCOMPARE(option.valueName != nullptr, option.kind != ValueKind::None);
        QCOMPARE(option.choices != nullptr, option.kind == ValueKind::Choice);
        const QString help = option.help;
        QVERIFY2(help.at(0).isLower() && !help.endsWith(u'.'), qPrintable(option.name));
    }
}

void tst_Options::helpTexts()
{
    const QString all = helpText(std::nullopt);
    for (const CommandInfo &command : commands()) {
        QVERIFY(all.contains(command.summary));
        const QString help = helpText(command.command);
        for (const OptionInfo &option : options())
            QCOMPARE(help.contains(optionSyntax(option)), option.isFor(command.command));
        const QStringList lines = (all + help).split(u'\n');
        for (const QString &line : lines)
            QVERIFY2(line.size() <= 80 && !line.endsWith(u' '), qPrintable(line));
    }
    // What it cannot see must not be taken for what has not happened.
    QVERIFY(helpText(Command::Watch).simplified().contains(u"sees what lasts longer than --interval"_s));
}

void tst_Options::optionsBeforeTheName()
{
    const auto invocation = parse({"--json", "run", "-nsq", "--lease=5s", "--prefix", "p:", "job", "ls", "-n"});
    QVERIFY(invocation);
    QCOMPARE(*invocation->command(), Command::Run);
    QVERIFY(invocation->has(Option::Json));
    QVERIFY(invocation->has(Option::NonBlock));
    QVERIFY(invocation->has(Option::Shared));
    QVERIFY(invocation->has(Option::Quiet));
    QVERIFY(!invocation->has(Option::Verbose));
    QCOMPARE(invocation->duration(Option::Lease)->count(), 5000);
    QCOMPARE(invocation->text(Option::Prefix), u"p:"_s);
    QCOMPARE(invocation->operands(), QStringList{u"job"_s});
    QCOMPARE(invocation->childCommand(), (QByteArrayList{"ls", "-n"}));
}

void tst_Options::limits()
{
    const auto server = parse({"run", "--limit", "server", "job", "true"});
    QVERIFY(server);
    QCOMPARE(server->text(Option::Limit), u"server"_s);
    QCOMPARE(*server->number(Option::Limit), 0);
    QVERIFY(!server->has(Option::Take));
    const auto most = parse({"acquire", "job", "--limit=10000", "--take", "3"});
    QVERIFY(most);
    QCOMPARE(*most->number(Option::Limit), 10000);
    QCOMPARE(*most->number(Option::Take), 3);
    QCOMPARE(parse({"permits", "job", "8"})->operands(), (QStringList{u"job"_s, u"8"_s}));
    QCOMPARE(parse({"permits", "8", "--json"})->operands(), QStringList{u"8"_s});
}

void tst_Options::valuesOfOptions_data()
{
    Support::addColumns<QByteArrayList, QString>("arguments", "expected");
    QTest::newRow("short, separate") << QByteArrayList{"-w", "5"} << u"5"_s;
    QTest::newRow("short, attached") << QByteArrayList{"-w5"} << u"5"_s;
    QTest::newRow("after flags") << QByteArrayList{"-qw5"} << u"5"_s;
    QTest::newRow("long, separate") << QByteArrayList{"--timeout", "5"} << u"5"_s;
    QTest::newRow("long, attached") << QByteArrayList{"--timeout=5"} << u"5"_s;
    QTest::newRow("the last one counts") << QByteArrayList{"-w", "1", "-w", "5"} << u"5"_s;
}

void tst_Options::valuesOfOptions()
{
    QFETCH(QByteArrayList, arguments);
    QFETCH(QString, expected);
    const auto invocation = parse(QByteArrayList{"run"} + arguments + QByteArrayList{"job", "true"});
    QVERIFY(invocation);
    QCOMPARE(invocation->text(Option::Timeout), expected);
}

void tst_Options::childCommand_data()
{
    Support::addColumns<QByteArrayList, QByteArrayList, bool>("arguments", "expected", "isForShell");
    QTest::newRow("plain") << QByteArrayList{"job", "a", "b"} << QByteArrayList{"a", "b"} << false;
    QTest::newRow("dashes before CMD") << QByteArrayList{"job", "--", "a", "-b"} << QByteArrayList{"a", "-b"} << false;
    QTest::newRow("dashes before NAME") << QByteArrayList{"--", "job", "a"} << QByteArrayList{"a"} << false;
    QTest::newRow("dashes twice") << QByteArrayList{"--", "job", "--", "a", "--"} << QByteArrayList{"a", "--"} << false;
    QTest::newRow("CMD is a dash") << QByteArrayList{"job", "--", "-c"} << QByteArrayList{"-c"} << false;
    QTest::newRow("options of CMD") << QByteArrayList{"job", "a", "--lease", "x", "-c", ""}
                                    << QByteArrayList{"a", "--lease", "x", "-c", ""} << false;
    QTest::newRow("-c") << QByteArrayList{"job", "-c", "a | b"} << QByteArrayList{"a | b"} << true;
    QTest::newRow("--command") << QByteArrayList{"job", "--command", "a"} << QByteArrayList{"a"} << true;
    QTest::newRow("--command=") << QByteArrayList{"job", "--command=a"} << QByteArrayList{"a"} << true;
}

void tst_Options::childCommand()
{
    QFETCH(QByteArrayList, arguments);
    QFETCH(QByteArrayList, expected);
    QFETCH(bool, isForShell);
    QString error;
    const auto invocation = parse(QByteArrayList{"run"} + arguments, &error);
    QVERIFY2(invocation, qPrintable(error));
    QCOMPARE(invocation->operands(), QStringList{u"job"_s});
    QCOMPARE(invocation->childCommand(), expected);
    QCOMPARE(invocation->has(Option::ShellCommand), isForShell);
}

void tst_Options::rawBytes()
{
    const QByteArray bytes("\xff\xfe\x01", 3);
    const auto invocation = parse({"run", "job", "echo", bytes});
    QVERIFY(invocation);
    QCOMPARE(invocation->childCommand().last(), bytes);
    const auto named = parse({"run", bytes, "true"});
    QVERIFY(named);
    QCOMPARE(named->operands(), QStringList(QString(QChar(0xdcff)) + QChar(0xdcfe) + QChar(1)));
}

void tst_Options::severalNames()
{
    const auto invocation = parse({"run", "a,b", "true"});
    QVERIFY(invocation);
    QCOMPARE(invocation->operands(), (QStringList{u"a"_s, u"b"_s}));
    QCOMPARE(parse({"show", "a,b", "c"})->operands(), (QStringList{u"a,b"_s, u"c"_s}));
}

void tst_Options::optionsAfterOperands()
{
    const auto invocation = parse({"release", "job", "--force", "--expect", "7"});
    QVERIFY(invocation);
    QVERIFY(invocation->has(Option::Force));
    QCOMPARE(*invocation->number(Option::Expect), 7);
    QVERIFY(parse({"hold", "job", "--pid", "1"})->has(Option::Pid));
    QCOMPARE(parse({"show", "--", "--json"})->operands(), QStringList{u"--json"_s});
    QVERIFY(parse({"run", "--help"}));
    QVERIFY(parse({"--version"}));
}

void tst_Options::errors_data()
{
    Support::addColumns<QByteArrayList, QString>("arguments", "text");
    const auto row = [](const char *name, const QByteArrayList &arguments, const QString &text) {
        QTest::newRow(name) << arguments << text;
    };
    row("nothing", {}, u"qdistlock: COMMAND is missing"_s);
    row("unknown command", {"rum", "job"}, u"did you mean run?"_s);
    row("unknown option", {"run", "--leese", "5", "job", "true"}, u"did you mean --lease?"_s);
    row("unknown short option", {"run", "-z", "job", "true"}, u"unknown option -z"_s);
    row("option of another command", {"run", "--force", "job", "true"},
        u"qdistlock run: --force is an option of release"_s);
    row("reader of a token", {"renew", "--shared", "job"}, u"--shared is an option of run, hold, acquire"_s);
    row("limit of a token", {"renew", "--limit", "5", "job"}, u"--limit is an option of run, hold, acquire"_s);
    row("no limit", {"run", "--limit", "0", "job", "true"},
        u"--limit: \"0\" is not a number of permits; write 1 to 10000, or server"_s);
    row("limit is too great", {"hold", "--limit=10001", "job"}, u"\"10001\" is not a number of permits"_s);
    row("limit is a word", {"run", "--limit", "many", "job", "true"}, u"\"many\" is not a number of permits"_s);
    row("limit with a sign", {"run", "--limit", "+5", "job", "true"}, u"\"+5\" is not a number of permits"_s);
    row("limit is a place", {"run", "--limit", "%1%3", "job", "true"}, u"\"%1%3\" is not a number of permits"_s);
    row("limit is empty", {"run", "--limit", "", "job", "true"}, u"\"\" is not a number of permits"_s);
    row("limit is missing", {"run", "--limit"}, u"--limit needs a value: --limit N"_s);
    row("bad number of permits to take", {"run", "--limit", "5", "--take", "two", "job", "true"},
        u"--take: \"two\" is not a number"_s);
    row("no permits", {"permits", "job", "0"}, u"\"0\" is not a number of permits; write 1 to 10000"_s);
    row("too many permits", {"permits", "job", "10001"}, u"\"10001\" is not a number of permits"_s);
    row("permits of the server", {"permits", "job", "server"}, u"\"server\" is not a number of permits"_s);
    row("permits of nothing", {"permits"}, u"NAME is missing"_s);
    row("permits of an empty name", {"permits", "", "5"}, u"a name is empty"_s);
    row("permits of two", {"permits", "a", "5", "b"}, u"\"b\" is one operand too many"_s);
    row("option before its command", {"--lease", "5s", "run", "job", "true"}, u"must come after its command"_s);
    row("help of an unknown command", {"help", "rum"}, u"did you mean run?"_s);
    row("help of two commands", {"help", "run", "show"}, u"one operand too many"_s);
    row("no name", {"run"}, u"qdistlock run: NAME and CMD are missing: which lock"_s);
    row("no name after options", {"run", "-n"}, u"NAME and CMD are missing"_s);
    row("no name to show", {"show"}, u"qdistlock show: NAME is missing: which lock? Write qdistlock show NAME…"_s);
    row("no shell", {"completion"}, u"the shell is missing; write qdistlock completion bash|zsh|fish"_s);
    row("empty name", {"run", "", "true"}, u"a name is empty"_s);
    row("empty name in a list", {"run", "a,,b", "true"}, u"a name is empty"_s);
    row("name twice", {"run", "a,b,a", "true"}, u"given twice"_s);
    row("names for acquire", {"acquire", "a,b"}, u"one name, without commas"_s);
    row("no CMD", {"run", "job"}, u"CMD is missing after NAME"_s);
    row("no CMD after dashes", {"run", "job", "--"}, u"CMD is missing after NAME"_s);
    row("option after NAME", {"run", "job", "-n", "true"}, u"write options before NAME"_s);
    row("-c before NAME", {"run", "-c", "true", "job"}, u"comes after NAME"_s);
    row("--command before NAME", {"run", "--command", "true", "job"}, u"comes after NAME"_s);
    row("-c without STRING", {"run", "job", "-c"}, u"exactly one STRING"_s);
    row("-c with two", {"run", "job", "-c", "a", "b"}, u"exactly one STRING"_s);
    row("value is missing", {"run", "--lease"}, u"--lease needs a value"_s);
    row("bad duration", {"run", "--lease", "soon", "job", "true"}, u"\"soon\" is not a duration"_s);
    row("negative duration", {"run", "-w", "-5", "job", "true"}, u"\"-5\" is not a duration"_s);
    row("bad number", {"hold", "--pid", "x", "job"}, u"\"x\" is not a number"_s);
    row("bad exit code", {"run", "-E", "256", "job", "true"}, u"0 to 255"_s);
    row("bad choice", {"run", "--on-lost", "die", "job", "true"}, u"not one of term, kill, warn"_s);
    row("flag with a value", {"run", "--json=yes", "job", "true"}, u"takes no value"_s);
    row("empty program", {"run", "--on-lost-exec", "", "job", "true"}, u"is empty"_s);
    row("too many operands", {"hold", "a", "b"}, u"one operand too many"_s);
    row("too many operands, too", {"ls", "a", "b"}, u"one operand too many"_s);
    row("not UTF-8", {"run", "--prefix", "\xff", "job", "true"}, u"is not UTF-8"_s);
    row("control characters", {"run", "--lease", "\x1b[31m\n", "job", "true"}, u"\"?[31m?\" is not a duration"_s);
}

void tst_Options::errors()
{
    QFETCH(QByteArrayList, arguments);
    QFETCH(QString, text);
    QString error;
    QVERIFY(!parse(arguments, &error));
    QVERIFY2(error.contains(text), qPrintable(error));
    QVERIFY2(std::all_of(error.cbegin(), error.cend(), [](QChar c) { return c.isPrint(); }), qPrintable(error));
}

void tst_Options::examplesOfPages()
{
    QFETCH(const QString, page);
    QFile file(QStringLiteral(DOCUMENTS) + u'/' + page);
    QVERIFY(file.open(QIODevice::ReadOnly));
    const QByteArray text = file.readAll().replace("\\\n", " ");
    bool isCode = false;
    int examples = 0;
    const QList<QByteArray> lines = text.split('\n');
    for (const QByteArray &line : lines) {
        if (line.startsWith("```"))
            isCode = !isCode;
        const qsizetype begin = line.indexOf("qdistlock ");
        if (!isCode || begin < 0)
            continue;
        QString error;
        QVERIFY2(parse(shellWords(line.sliced(begin)).sliced(1), &error), (line + ": " + error.toUtf8()).constData());
        ++examples;
    }
    QVERIFY(examples >= (page.startsWith(u"command") ? 12 : 1));
}

void tst_Options::examplesOfTheManPage()
{
    for (const Explanation &example : exampleTexts()) {
        QByteArray line = example.name.toUtf8();
        line = line.sliced(std::max<qsizetype>(0, line.indexOf("qdistlock")));
        if (line.contains("\", ")) // a list, as in a Dockerfile
            line = line.replace("\", \"", " ").replace("\"]", "");
        QString error;
        QVERIFY2(parse(shellWords(line).sliced(1), &error), (line + ": " + error.toUtf8()).constData());
    }
}

QTEST_APPLESS_MAIN(tst_Options)
#include "tst_options.moc"
