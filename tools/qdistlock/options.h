// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qbytearraylist.h>
#include <QtCore/qlist.h>
#include <QtCore/qmap.h>
#include <QtCore/qstringlist.h>

#include <chrono>
#include <optional>

/*!
    The command line of qdistlock: one table of commands and one of options, from which the parser, --help, the man page
    and the shell completions are made. Nothing else in the program names an option as text.

    QCommandLineParser is not used: it knows no commands with options of their own, and its arguments are QStrings,
    while those of a child must be passed on byte by byte.
*/
namespace Cli {

enum class Command {
    Run,
    Hold,
    Acquire,
    Renew,
    Release,
    Permits,
    List,
    Show,
    Watch,
    Metrics,
    Doctor,
    Completion,
    Help
};

enum class Option {
    // for all commands
    Server,
    Prefix,
    ConnectTimeout,
    Json,
    Quiet,
    Verbose,
    Color,
    Help,
    Version,
    // how the lock is acquired
    NonBlock,
    Timeout,
    Shared,
    Limit,
    Take,
    Lease,
    MinHold,
    NoFair,
    NoRenew,
    // the child of `run`
    OnLost,
    KillAfter,
    OnLostExec,
    ConflictExitCode,
    Orphan,
    Foreground,
    BackgroundGroup,
    PassEnvironment,
    ShellCommand,
    // `hold`
    Pid,
    Descriptor,
    // `acquire`, `renew`, `release`
    TokenFile,
    Token,
    Force,
    Expect,
    Yes,
    // `ls`
    Sort,
    Held,
    Stale,
    Foreign,
    Names,
    Wide,
    // `watch`
    Interval
};

enum class ValueKind {
    None, ///< a flag
    Text,
    Duration, ///< Invocation::duration()
    Number,   ///< 0 or more; Invocation::number()
    Permits,  ///< 1 to the greatest number of permits, or "server", for which Invocation::number() is 0
    ExitCode, ///< 0 to 255; Invocation::number()
    Choice,   ///< one of OptionInfo::choices
    File,
    Program ///< a command line for the shell
};

/// A set of commands: one bit for each, see commandBit().
using CommandSet = quint32;
constexpr CommandSet commandBit(Command command)
{
    return CommandSet(1) << int(command);
}
constexpr CommandSet AllCommands = ~CommandSet(0);

/// One row of the table of options.
struct OptionInfo
{
    Option option;
    char shortName; ///< '\0' if there is none
    QString name;   ///< without the two dashes
    ValueKind kind;
    QString valueName;   ///< "DUR"; empty for a flag
    QString choices;     ///< "term|kill|warn"; empty unless \c kind is Choice
    QString help;        ///< begins with a small letter, without a full stop
    CommandSet commands; ///< AllCommands: also before the command

    bool isGlobal() const { return commands == AllCommands; }
    bool isFor(Command command) const { return commands & commandBit(command); }
    /// "-w" if it has a short name, and "--timeout".
    QStringList forms() const;
    QStringList choiceList() const { return choices.split(QLatin1Char('|'), Qt::SkipEmptyParts); }
};

/// One row of the table of commands.
struct CommandInfo
{
    Command command;
    QString name;
    QString operands; ///< as the synopsis shows them, with required options: "NAME[,NAME…] [--] CMD [ARG…]"
    int minimumOperands;
    int maximumOperands; ///< -1 = any number
    QString summary;     ///< one line
    QString description; ///< paragraphs, separated by empty lines; one line each
};

/// An exit code, a variable or an example, and its meaning.
struct Explanation
{
    QString name;
    QString text;
};

const QList<CommandInfo> &commands();
const CommandInfo &info(Command command);
/// Null if there is no command of that name.
std::optional<Command> commandNamed(const QString &name);
/// In the order in which --help shows them.
const QList<OptionInfo> &options();
const OptionInfo &info(Option option);
const QList<Explanation> &exitCodeTexts();
/// The variables that qdistlock reads, and those that the child of `run` gets.
const QList<Explanation> &environmentTexts();
const QList<Explanation> &childEnvironmentTexts();
/// Lines of a shell, a crontab and other files.
const QList<Explanation> &exampleTexts();

/// "-w, --timeout DUR", as --help and the man page show an option.
QString optionSyntax(const OptionInfo &option);
/// The text of --help, of a command or of the whole program, at most 80 columns wide.
QString helpText(std::optional<Command> command);

/// 250ms 2s 5m 1h; a bare number is seconds; with fractions. Null if \a text is something else.
std::optional<std::chrono::milliseconds> parseDuration(QStringView text);
/// A text that parseDuration() reads: "250ms", "1.5s", "2s", "5m", "1h 5m" as "65m".
QString durationText(std::chrono::milliseconds duration);

struct Completion;

/// One command line, parsed and checked as far as that is possible without a server.
class Invocation
{
public:
    /// \a arguments: without the program's name. Null and \a error, one line that begins with commandText(), if they
    /// cannot be used. With --help or --version nothing else is required.
    static std::optional<Invocation> parse(const QByteArrayList &arguments, QString *error);

    /// \a words: those after the program's name, the last of which a shell completes; it may be empty.
    static Completion complete(const QByteArrayList &words);

    /// Null only with --help and --version.
    std::optional<Command> command() const { return m_command; }
    /// How errors and advice name the command: "qdistlock run"; "qdistlock" if there is none.
    QString commandText() const;

    bool has(Option option) const { return m_values.contains(option); }
    /// The last value given; empty if the option was not given.
    QString text(Option option) const { return m_values.value(option); }
    /// Null if the option was not given.
    std::optional<std::chrono::milliseconds> duration(Option option) const;
    std::optional<qint64> number(Option option) const;

    /// Names or globs, in the order given. `run` and `hold`: NAME,NAME is separated here.
    QStringList operands() const { return m_operands; }
    /// `run`: the program to execute and its arguments, byte by byte as given; with -c: the text for the shell alone.
    QByteArrayList childCommand() const { return m_childCommand; }

private:
    class Parser;

    std::optional<Command> m_command;
    QMap<Option, QString> m_values;
    QStringList m_operands;
    QByteArrayList m_childCommand;
};

/// How a shell may complete the last word of a command line.
struct Completion
{
    enum Kind {
        Words, ///< one of \c words
        Names, ///< one of the locks that \c listing prints
        Files,
        Program ///< part of another command line, which follows the first \c wordsBefore words, with that of qdistlock
    };
    Kind kind = Words;
    QList<std::pair<QString, QString>> words; ///< and their explanations, which may be empty
    qsizetype wordsBefore = 0;
    Invocation listing; ///< `ls --names`
};

} // namespace Cli
