// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "options.h"

#include <QDistLock/impl/namebytes.h>

#include <QtCore/qstringconverter.h>

#include <algorithm>
#include <cmath>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace Cli {

namespace {

constexpr CommandSet Run = commandBit(Command::Run);
constexpr CommandSet Hold = commandBit(Command::Hold);
constexpr CommandSet Acquire = commandBit(Command::Acquire);
constexpr CommandSet Renew = commandBit(Command::Renew);
constexpr CommandSet Release = commandBit(Command::Release);
constexpr CommandSet List = commandBit(Command::List);
constexpr CommandSet Watch = commandBit(Command::Watch);
constexpr CommandSet Acquiring = Run | Hold | Acquire;

constexpr milliseconds LongestDuration = std::chrono::hours(24 * 366);
constexpr int HelpWidth = 80;
constexpr int HelpIndent = 28;

} // namespace

const QList<CommandInfo> &commands()
{
    // One command per row.
    // clang-format off
    static const QList<CommandInfo> table{
        {Command::Run, "run", "NAME[,NAME…] [--] CMD [ARG…]", 1, 1,
         "hold a lock while a command runs",
         "Waits for the lock NAME, runs CMD, and releases the lock when CMD has ended. Options come before NAME: "
         "everything after CMD belongs to CMD. qdistlock run NAME -c STRING passes STRING to $SHELL (or /bin/sh). "
         "Standard input and output are those of CMD; qdistlock prints to standard error only.\n\n"
         "Several names, separated by commas, are acquired one after the other, in the same order by everybody, so "
         "that two runs never wait for each other.\n\n"
         "The lock is renewed while CMD runs. If it cannot be renewed, CMD and all processes it has started are "
         "ended before anybody else can get the lock: by SIGTERM first, and by SIGKILL before the lease ends on the "
         "server. The same happens if qdistlock itself is killed (see --orphan), but then a process that has left "
         "CMD's process group since the last renewal may be missed; the lock is free when its lease has ended. "
         "A process that cannot be killed goes on without the lock: one that belongs to another user, as after sudo, "
         "and without /proc one that has left the group. qdistlock names it and exits with 79 a second later, "
         "without waiting for its end; a process that the kernel does not end is waited for 10 s. "
         "Signals are passed on to CMD. qdistlock show prints the name of CMD, and the process number of qdistlock, "
         "as the holder.\n\n"
         "A machine that is suspended cannot end CMD in time; therefore CMD can pass $QDISTLOCK_FENCE to what it "
         "changes, which then refuses smaller numbers than the greatest it has seen."},
        {Command::Hold, "hold", "NAME[,NAME…]", 1, 1,
         "hold a lock until standard input ends",
         "Waits for the lock NAME, prints one line when it is held, and releases it when standard input or the "
         "parent process ends, or on SIGINT, SIGTERM or SIGHUP. With --pid or --fd it is released when that process "
         "ends, or when that file descriptor has reached its end. Exits with 79 as soon as the lock is lost."},
        {Command::Acquire, "acquire", "NAME --lease DUR --token-file FILE", 1, 1,
         "acquire a lock and exit, leaving it held",
         "Acquires the lock NAME for the time of --lease, prints its fencing token, and exits. Nothing renews the "
         "lock: use `qdistlock renew`. The token that renews and releases it is written to the file of --token-file, "
         "which only its owner can read. That file must not exist: it proves this hold, and `release` removes it. Both "
         "options are required."},
        {Command::Renew, "renew", "NAME --token-file FILE", 1, 1,
         "renew a lock taken with acquire",
         "Lets the lease of the lock NAME begin again, if the lock still belongs to the token in --token-file, which "
         "is required. Exits with 79 if the lock was lost, even if somebody else holds it now."},
        {Command::Release, "release", "NAME --token-file FILE | NAME --force", 1, 1,
         "release a lock, or take it away from its holder",
         "Releases the lock NAME if it belongs to the token of --token-file or --token; exits with 75, and releases "
         "nothing, if somebody else holds it. With --force the lock is taken away, whoever holds it: the holder is "
         "notified, but until it has noticed, two may work at the same time."},
        {Command::List, "ls", "[GLOB]", 0, 1,
         "list the locks that are held",
         "Lists the locks whose names match GLOB (with *, ? and [a-z]): name, holder, time left of the lease (which a "
         "running holder renews), length of the queue, fencing token. In a pipe the columns are separated by tabs, and "
         "there is no header."},
        {Command::Show, "show", "NAME…", 1, -1,
         "show one lock in detail",
         "Shows who holds each lock NAME, the time left of the lease (which a running holder renews), and who waits "
         "for it. Exits with 1 if one of them is free."},
        {Command::Watch, "watch", "[GLOB]", 0, 1,
         "print each change of the locks",
         "Prints one line for each lock that is held, and then one for each lock that changes, until a signal ends it. "
         "It asks for the locks again and again, so it sees what lasts longer than --interval: of several holders in "
         "between, the last one; the greater fencing token shows that the lock has changed hands. "
         "With --json, the first object has all locks that are held, as locks; each later one has the lock that has "
         "changed, as lock."},
        {Command::Doctor, "doctor", "", 0, 0,
         "check the server and the rights of its user",
         "Checks everything that locks need, one line each: ok, info, warn or fail, what, and what to do about it."},
        {Command::Completion, "completion", "bash|zsh|fish", 1, 1,
         "print the completions of a shell",
         "Prints the script with which the shell completes commands and options of qdistlock. In bash: "
         "source <(qdistlock completion bash)"},
        {Command::Help, "help", "[COMMAND]", 0, 1,
         "explain a command, or all of them",
         "Prints the same as qdistlock COMMAND --help, or as qdistlock --help."},
    };
    // clang-format on
    return table;
}

const QList<OptionInfo> &options()
{
    using O = Option;
    using V = ValueKind;
    // One option per row.
    // clang-format off
    static const QList<OptionInfo> table{
        {O::NonBlock, 'n', "nonblock", V::None, nullptr, nullptr,
         "do not wait: exit with 75 at once if somebody else holds the lock", Acquiring},
        {O::Timeout, 'w', "timeout", V::Duration, "DUR", nullptr,
         "wait at most this long, then exit with 75; without it the wait has no end", Acquiring},
        {O::Lease, 0, "lease", V::Duration, "DUR", nullptr,
         "time to live of the lock on the server if nobody renews it, 10ms to 24h; the default is 30s (acquire: it is "
         "required; renew: that of acquire)", Acquiring | Renew},
        {O::MinHold, 0, "min-hold", V::Duration, "DUR", nullptr,
         "keep the lock for at least this time, even if it is released earlier; not longer than the lease", Acquiring},
        {O::NoFair, 0, "no-fair", V::None, nullptr, nullptr,
         "after a release, whoever comes first gets the lock, instead of the first in the queue", Acquiring},
        {O::NoRenew, 0, "no-renew", V::None, nullptr, nullptr,
         "do not renew the lock: --lease limits how long it is held", Run | Hold},

        {O::OnLost, 0, "on-lost", V::Choice, "HOW", "term|kill|warn",
         "if the lock is lost: term (default) sends SIGTERM and later SIGKILL, kill only SIGKILL, warn only prints a "
         "line",
         Run},
        {O::KillAfter, 0, "kill-after", V::Duration, "DUR", nullptr,
         "time between SIGTERM and SIGKILL, at most a third of the lease; the default is a sixth of the lease, at most "
         "5s", Run},
        {O::OnLostExec, 0, "on-lost-exec", V::Program, "CMD", nullptr,
         "when the lock is lost, also run CMD with /bin/sh; $QDISTLOCK_LOST is lease-expired, stolen, deleted or "
         "forced-release", Run},
        {O::ConflictExitCode, 'E', "conflict-exit-code", V::ExitCode, "N", nullptr,
         "exit code, instead of 75, if somebody else holds the lock", Acquiring},
        {O::Orphan, 0, "orphan", V::Choice, "HOW", "term|kill|keep",
         "if qdistlock itself is killed: term (default) and kill end CMD, keep lets it run without the lock", Run},
        {O::Foreground, 0, "foreground", V::None, nullptr, nullptr,
         "leave CMD in the process group of qdistlock; the default if qdistlock has a terminal", Run},
        {O::BackgroundGroup, 0, "background-group", V::None, nullptr, nullptr,
         "give CMD a process group of its own; the default if qdistlock has none", Run},
        {O::PassEnvironment, 0, "pass-env", V::None, nullptr, nullptr,
         "leave QDISTLOCK_PASSWORD, and a password in QDISTLOCK_URL, in the environment of CMD", Run},
        {O::ShellCommand, 'c', "command", V::Program, "STRING", nullptr,
         "after NAME, instead of CMD: pass STRING to $SHELL or /bin/sh", Run},

        {O::Pid, 0, "pid", V::Number, "PID", nullptr,
         "hold the lock until the process PID ends, instead of standard input", Hold},
        {O::Descriptor, 0, "fd", V::Number, "N", nullptr,
         "hold the lock until file descriptor N has reached its end, instead of standard input", Hold},

        {O::TokenFile, 0, "token-file", V::File, "FILE", nullptr,
         "the file with the token that proves who holds the lock; acquire makes it, release removes it",
         Acquire | Renew | Release},
        {O::Token, 0, "token", V::Text, "TOKEN", nullptr,
         "the token itself; other users may see it in the list of processes", Release},
        {O::Force, 0, "force", V::None, nullptr, nullptr,
         "take the lock away, whoever holds it", Release},
        {O::Expect, 0, "expect", V::Number, "FENCE", nullptr,
         "with --force: only if the fencing token of the holder is FENCE, else exit with 75", Release},
        {O::Yes, 'y', "yes", V::None, nullptr, nullptr,
         "with --force: do not ask on the terminal", Release},

        {O::Sort, 0, "sort", V::Choice, "KEY", "name|ttl|queue",
         "order of the rows: name (default), ttl (the time left) or queue (the longest first)", List},
        {O::Held, 0, "held", V::None, nullptr, nullptr,
         "only locks whose holder is connected", List},
        {O::Stale, 0, "stale", V::None, nullptr, nullptr,
         "only locks whose holder is not connected, or that never expire", List},
        {O::Foreign, 0, "foreign", V::None, nullptr, nullptr,
         "only locks held by another library, or written by hand", List},
        {O::Names, 0, "names", V::None, nullptr, nullptr,
         "print only the names", List},
        {O::Wide, 0, "wide", V::None, nullptr, nullptr,
         "do not cut columns to the width of the terminal", List},

        {O::Interval, 0, "interval", V::Duration, "DUR", nullptr,
         "how often the server is asked; the default is 1s", Watch},

        {O::Server, 0, "server", V::Text, "URL", nullptr,
         "the server: redis://USER:PASSWORD@HOST:PORT/DB (all but HOST may be left out), rediss: for TLS, or "
         "unix:///PATH; without it $QDISTLOCK_URL, or redis://127.0.0.1:6379", AllCommands},
        {O::Prefix, 0, "prefix", V::Text, "P", nullptr,
         "the key on the server is P followed by the name; the default is lock:", AllCommands},
        {O::ConnectTimeout, 0, "connect-timeout", V::Duration, "DUR", nullptr,
         "exit with 69 if the server is not reached within this time; the default is 5s", AllCommands},
        {O::Json, 0, "json", V::None, nullptr, nullptr,
         "print JSON for programs, one object a line; run prints none", AllCommands},
        {O::Quiet, 'q', "quiet", V::None, nullptr, nullptr,
         "print errors only", AllCommands},
        {O::Verbose, 'v', "verbose", V::None, nullptr, nullptr,
         "print what happens, and the log of the library", AllCommands},
        {O::Color, 0, "color", V::Choice, "WHEN", "auto|always|never",
         "colours: auto (default) is on a terminal, unless $NO_COLOR is set", AllCommands},
        {O::Version, 0, "version", V::None, nullptr, nullptr,
         "print the version and exit", AllCommands},
        {O::Help, 'h', "help", V::None, nullptr, nullptr,
         "print this help and exit, like the command help", AllCommands},
    };
    // clang-format on
    return table;
}

const QList<Explanation> &exitCodeTexts()
{
    static const QList<Explanation> table{
            {"0", "success; run: the command has ended with 0"},
            {"1", "show: a lock is free; release: nobody held it; doctor: warnings"},
            {"2", "doctor: failures"},
            {"64", "the command line is wrong, or the name or the token file cannot be used"},
            {"69", "the server was not reached, or refused to work, before the lock was held"},
            {"70", "internal error; run: the system refused a process, so that the command did not start or was ended"},
            {"75",
             "run, hold, acquire: somebody else holds the lock, or held it for the whole wait (-E changes this "
             "code); release: somebody else holds it and was left alone, also if the question before a lock is taken "
             "away was not answered with y"},
            {"77", "the server refused the user, the password, the certificate or a right"},
            {"78", "the URL of the server cannot be used"},
            {"79",
             "run, hold: the lock was lost while it was held; renew: it was lost before, whether or not somebody "
             "else holds it now"},
            {"126, 127", "run: the command cannot be executed, or does not exist"},
            {"128+N", "signal N has ended the command, or the wait for the lock"},
            {"other", "run: the exit code of the command"},
    };
    return table;
}

const QList<Explanation> &environmentTexts()
{
    static const QList<Explanation> table{
            {"QDISTLOCK_URL", "the server, if --server is not given"},
            {"QDISTLOCK_PASSWORD", "its password, if the URL has none"},
            {"QDISTLOCK_PASSWORD_FILE", "a file with that password, read at each login"},
            {"QDISTLOCK_IDENTITY",
             "with the value none, show and ls do not name host, process and program of this command"},
            {"NO_COLOR", "if set and not empty: no colours"},
            {"SHELL", "the shell of run … -c"},
    };
    return table;
}

const QList<Explanation> &childEnvironmentTexts()
{
    static const QList<Explanation> table{
            {"QDISTLOCK_NAME", "the name of the lock; several are separated by commas"},
            {"QDISTLOCK_PLACE", "the server, without user and password, and the key prefix of the lock"},
            {"QDISTLOCK_FENCE", "its fencing token, greater for each later holder; several in the order of the names"},
            {"QDISTLOCK_HELD", "1"},
            {"QDISTLOCK_MODE", "exclusive"},
            {"QDISTLOCK_LOST_FD", "a file descriptor that reaches its end when the lock is lost"},
    };
    return table;
}

const QList<Explanation> &exampleTexts()
{
    static const QList<Explanation> table{
            {"qdistlock run nightly-report ./report.sh", "waits until nobody else makes the report, and makes it"},
            {"qdistlock run -n backup -c 'pg_dump shop > shop.sql'",
             "does nothing, and exits with 75, if another machine makes the backup"},
            {"5 * * * * qdistlock run -q -n -E 0 --min-hold 20s report /usr/local/bin/report",
             "in the crontab of each machine, after a line QDISTLOCK_URL=redis://locks.example: the first machine "
             "makes the report, the others skip it without an error and without a mail; --min-hold also skips "
             "machines whose clocks are up to 20 seconds late"},
            {"ExecStart=/usr/bin/qdistlock run mailer /usr/bin/mailer",
             "in a systemd service that is enabled on several machines: one of them works, the others wait, and one of "
             "these takes over when the first one is gone"},
            {"ENTRYPOINT [\"qdistlock\", \"run\", \"worker\", \"--\", \"/usr/bin/worker\"]",
             "in a Dockerfile: of all containers, one works; the signals of docker stop are passed on"},
            {"qdistlock acquire deploy:web --lease 10m --token-file /run/deploy.$$",
             "keeps the lock for ten minutes, for the steps of a longer procedure; prints the fencing token"},
            {"qdistlock release deploy:web --token-file /run/deploy.$$", "ends that"},
            {"qdistlock ls 'deploy:*'", "lists who holds which lock"},
            {"qdistlock release deploy:web --force --expect 1735689600000000 --yes",
             "takes the lock away from the holder that was shown with that fencing token, and from nobody else"},
    };
    return table;
}

const CommandInfo &info(Command command)
{
    return *std::find_if(commands().cbegin(), commands().cend(),
                         [command](const CommandInfo &row) { return row.command == command; });
}

std::optional<Command> commandNamed(const QString &name)
{
    for (const CommandInfo &row : commands()) {
        if (name == QLatin1String(row.name))
            return row.command;
    }
    return std::nullopt;
}

const OptionInfo &info(Option option)
{
    return *std::find_if(options().cbegin(), options().cend(),
                         [option](const OptionInfo &row) { return row.option == option; });
}

QStringList OptionInfo::choiceList() const
{
    return choices ? QString::fromUtf8(choices).split(u'|') : QStringList();
}

QString optionSyntax(const OptionInfo &option)
{
    const QString name = u"--"_s + QString::fromUtf8(option.name);
    const QString both = option.shortName ? u"-%1, %2"_s.arg(QLatin1Char(option.shortName)).arg(name) : name;
    return option.valueName ? both + u' ' + QString::fromUtf8(option.valueName) : both;
}

namespace {

/// \a text in lines of HelpWidth columns, the first of which begins at column \a used of \a indent.
QString wrapped(const QString &text, int indent, int used)
{
    QString result(std::max(0, indent - used), u' ');
    int column = std::max(indent, used);
    bool first = true;
    const QStringList words = text.split(u' ', Qt::SkipEmptyParts);
    for (const QString &word : words) {
        if (!first && column + 1 + word.size() > HelpWidth) {
            result += u'\n' + QString(indent, u' ');
            column = indent;
            first = true;
        }
        result += first ? word : u' ' + word;
        column += int(word.size()) + (first ? 0 : 1);
        first = false;
    }
    return result + u'\n';
}

QString helpRow(const QString &left, const QString &right)
{
    const QString head = u"  "_s + left;
    if (head.size() + 2 > HelpIndent)
        return head + u'\n' + wrapped(right, HelpIndent, 0);
    return head + wrapped(right, HelpIndent, int(head.size()));
}

QString helpRow(const OptionInfo &option)
{
    // Long names stand below each other, whether or not there is a short one.
    const QString syntax = optionSyntax(option);
    return helpRow(option.shortName ? syntax : u"    "_s + syntax, QString::fromUtf8(option.help));
}

template<typename Predicate>
QString helpSection(const QString &title, Predicate isShown)
{
    QString text;
    for (const OptionInfo &option : options()) {
        if (isShown(option))
            text += helpRow(option);
    }
    return text.isEmpty() ? text : u'\n' + title + u":\n"_s + text;
}

} // namespace

QString helpText(std::optional<Command> command)
{
    QString text;
    if (command) {
        const CommandInfo &row = info(*command);
        text = u"Usage: qdistlock %1 [OPTION…] %2"_s.arg(QString::fromUtf8(row.name), QString::fromUtf8(row.operands));
        text = text.trimmed() + u'\n';
        const QStringList paragraphs = QString::fromUtf8(row.description).split(u"\n\n"_s);
        for (const QString &paragraph : paragraphs)
            text += u'\n' + wrapped(paragraph, 0, 0);
        text += helpSection(u"Options"_s, [command](const OptionInfo &option) {
            return !option.isGlobal() && option.isFor(*command);
        });
        text += helpSection(u"Options of every command"_s, [](const OptionInfo &option) { return option.isGlobal(); });
        if (*command == Command::Run) {
            text += u"\nThe command finds in its environment:\n"_s;
            for (const Explanation &variable : childEnvironmentTexts())
                text += helpRow(QString::fromUtf8(variable.name), QString::fromUtf8(variable.text));
        }
    } else {
        text = u"Usage: qdistlock [OPTION…] COMMAND …\n\n"_s
                + wrapped(u"Locks that exclude each other on all machines that use the same Redis server."_s, 0, 0)
                + u"\nCommands:\n"_s;
        for (const CommandInfo &row : commands())
            text += helpRow(QString::fromUtf8(row.name), QString::fromUtf8(row.summary));
        text += helpSection(u"Options of every command"_s, [](const OptionInfo &option) { return option.isGlobal(); });
        text += u"\nExamples:\n"
                "  qdistlock run nightly-report ./report.sh --all\n"
                "  qdistlock run -n backup -c 'pg_dump shop > shop.sql'\n"
                "  qdistlock run -w 10m deploy:web make deploy\n"
                "  qdistlock show deploy:web\n"_s;
    }
    text += u"\nDurations: 250ms 2s 5m 1h; a bare number is seconds.\n\nExit codes:\n"_s;
    for (const Explanation &code : exitCodeTexts())
        text += helpRow(QString::fromUtf8(code.name), QString::fromUtf8(code.text));
    if (!command)
        text += u"\nqdistlock help COMMAND explains one command; man qdistlock explains all.\n"_s;
    return text;
}

std::optional<milliseconds> parseDuration(QStringView text)
{
    const auto isUnit = [](QChar c) { return c >= u'a' && c <= u'z'; };
    const auto unitAt = std::find_if(text.cbegin(), text.cend(), isUnit);
    const QStringView number = text.first(unitAt - text.cbegin());
    const QStringView unit = text.sliced(number.size());
    const bool isPlain = !number.isEmpty() && number.front() != u'.' && number.back() != u'.' && number.count(u'.') <= 1
            && std::all_of(number.cbegin(), number.cend(),
                           [](QChar c) { return (c >= u'0' && c <= u'9') || c == u'.'; });
    if (!isPlain)
        return std::nullopt;
    double factor = 0;
    if (unit.isEmpty() || unit == u"s")
        factor = 1000;
    else if (unit == u"ms")
        factor = 1;
    else if (unit == u"m")
        factor = 60'000;
    else if (unit == u"h")
        factor = 3'600'000;
    // Rounds up, because 0 often has a special meaning and a short time must not become 0. The subtraction allows for
    // floating-point errors: 0.003 * 1000 may be a little more than 3.
    const double value = std::ceil(number.toDouble() * factor - 1e-6);
    if (factor == 0 || !(value <= double(LongestDuration.count())))
        return std::nullopt;
    return milliseconds(qint64(value));
}

QString durationText(milliseconds duration)
{
    const qint64 ms = duration.count();
    if (ms != 0 && ms % 3'600'000 == 0)
        return u"%1h"_s.arg(ms / 3'600'000);
    if (ms != 0 && ms % 60'000 == 0)
        return u"%1m"_s.arg(ms / 60'000);
    if (ms % 1000 == 0)
        return u"%1s"_s.arg(ms / 1000);
    return ms < 1000 ? u"%1ms"_s.arg(ms) : u"%1s"_s.arg(double(ms) / 1000, 0, 'g', 15);
}

/// Reads the arguments from the first to the last; \c error is set at the first that is wrong.
class Invocation::Parser
{
public:
    explicit Parser(const QByteArrayList &arguments)
        : m_arguments(arguments)
    {
    }

    bool parse();
    Completion complete(const QByteArray &typed);
    Invocation result;
    QString error;

private:
    bool isAllowed(const OptionInfo &option) const
    {
        return result.m_command ? option.isFor(*result.m_command) : option.isGlobal();
    }
    bool fail(const QString &text);
    bool parseArgument(const QByteArray &argument);
    bool parseLong(const QByteArray &argument);
    bool parseShort(const QByteArray &argument);
    bool parseOperand(const QByteArray &argument);
    bool parseCommand(const QString &name);
    bool failAtCommand(const QString &name);
    bool parseChild();
    bool setOption(const OptionInfo &option, std::optional<QByteArray> attached);
    bool checkValue(const OptionInfo &option, const QString &value);
    bool checkOperands();
    bool isComplete() const { return result.has(Option::Help) || result.has(Option::Version); }
    std::optional<QString> decode(const QByteArray &text);
    QString unknownOption(const QByteArray &name);

    const QByteArrayList m_arguments;
    qsizetype m_next = 0;
    bool m_optionsEnded = false;
    // for complete()
    bool m_isUnfinished = false;
    const OptionInfo *m_withoutValue = nullptr; ///< its value would be the argument after the last
    qsizetype m_childAt = -1;                   ///< the argument after NAME of `run`
};

namespace {

/// How many letters must be changed, added, removed to make \a b of \a a.
int distance(const QString &a, const QString &b)
{
    QList<int> row(b.size() + 1);
    for (qsizetype j = 0; j <= b.size(); ++j)
        row[j] = int(j);
    for (qsizetype i = 1; i <= a.size(); ++i) {
        int diagonal = row[0];
        row[0] = int(i);
        for (qsizetype j = 1; j <= b.size(); ++j) {
            const int above = row[j];
            row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a.at(i - 1) == b.at(j - 1) ? 0 : 1)});
            diagonal = above;
        }
    }
    return row.last();
}

/// The one of \a candidates that \a text was probably meant to be; empty if there is none.
QString nearest(const QString &text, const QStringList &candidates)
{
    QString best;
    int bestDistance = std::max(1, std::min(3, int(text.size()) / 2)) + 1;
    for (const QString &candidate : candidates) {
        const int d = distance(text, candidate);
        if (d < bestDistance) {
            bestDistance = d;
            best = candidate;
        }
    }
    return best;
}

/// \a text for an error message: it may be anything.
QString shown(const QByteArray &text)
{
    QString result;
    const QString decoded = QString::fromUtf8(text.first(std::min<qsizetype>(text.size(), 100)));
    for (const QChar c : decoded)
        result += c.isPrint() ? c : QChar(u'?');
    return result;
}

} // namespace

bool Invocation::Parser::fail(const QString &text)
{
    error = text;
    return false;
}

std::optional<QString> Invocation::Parser::decode(const QByteArray &text)
{
    QStringDecoder decoder(QStringDecoder::Utf8, QStringDecoder::Flag::Stateless);
    QString decoded = decoder(text);
    if (decoder.hasError()) {
        fail(u"\"%1\" is not UTF-8"_s.arg(shown(text)));
        return std::nullopt;
    }
    return decoded;
}

bool Invocation::Parser::parse()
{
    while (m_next < m_arguments.size()) {
        if (!parseArgument(m_arguments.at(m_next++)))
            return false;
    }
    if (isComplete())
        return true;
    if (!result.m_command)
        return fail(u"COMMAND is missing, for example run; see qdistlock --help"_s);
    return checkOperands();
}

bool Invocation::Parser::parseArgument(const QByteArray &argument)
{
    const bool isOption = !m_optionsEnded && argument.size() > 1 && argument.startsWith('-');
    if (!isOption)
        return parseOperand(argument);
    if (argument == "--") {
        m_optionsEnded = true;
        return true;
    }
    return argument.startsWith("--") ? parseLong(argument) : parseShort(argument);
}

QString Invocation::Parser::unknownOption(const QByteArray &name)
{
    const QString text = shown(name);
    for (const OptionInfo &option : options()) {
        if (name != "--" + QByteArray(option.name) && name != QByteArray("-") + option.shortName)
            continue;
        QStringList users;
        for (const CommandInfo &command : commands()) {
            if (option.isFor(command.command))
                users += QString::fromUtf8(command.name);
        }
        return result.m_command
                ? u"%1 is an option of %2; see %3 --help"_s.arg(text, users.join(u", "_s), result.commandText())
                : u"%1 must come after its command (%2)"_s.arg(text, users.join(u", "_s));
    }
    QStringList candidates;
    for (const OptionInfo &option : options()) {
        if (isAllowed(option))
            candidates += u"--"_s + QString::fromUtf8(option.name);
    }
    const QString guess = name.startsWith("--") ? nearest(text, candidates) : QString();
    return u"unknown option %1%2; see %3 --help"_s.arg(
            text, guess.isEmpty() ? QString() : u" (did you mean %1?)"_s.arg(guess), result.commandText());
}

bool Invocation::Parser::parseLong(const QByteArray &argument)
{
    const qsizetype equals = argument.indexOf('=');
    const QByteArray name = argument.first(equals < 0 ? argument.size() : equals);
    for (const OptionInfo &option : options()) {
        if (isAllowed(option) && option.option != Option::ShellCommand && name == "--" + QByteArray(option.name))
            return setOption(option, equals < 0 ? std::nullopt : std::optional(argument.sliced(equals + 1)));
    }
    if (name == "--" + QByteArray(info(Option::ShellCommand).name) && result.m_command == Command::Run)
        return fail(u"%1 comes after NAME: qdistlock run NAME -c STRING"_s.arg(shown(name)));
    return fail(unknownOption(name));
}

bool Invocation::Parser::parseShort(const QByteArray &argument)
{
    for (qsizetype i = 1; i < argument.size(); ++i) {
        const OptionInfo *found = nullptr;
        for (const OptionInfo &option : options()) {
            if (isAllowed(option) && option.shortName == argument.at(i))
                found = &option;
        }
        const QByteArray name = QByteArray("-") + argument.at(i);
        if (!found)
            return fail(unknownOption(name));
        if (found->option == Option::ShellCommand)
            return fail(u"%1 comes after NAME: qdistlock run NAME -c STRING"_s.arg(shown(name)));
        if (found->kind != ValueKind::None) {
            const QByteArray rest = argument.sliced(i + 1);
            return setOption(*found, rest.isEmpty() ? std::nullopt : std::optional(rest));
        }
        if (!setOption(*found, std::nullopt))
            return false;
    }
    return true;
}

bool Invocation::Parser::setOption(const OptionInfo &option, std::optional<QByteArray> attached)
{
    const QString name = u"--"_s + QString::fromUtf8(option.name);
    if (option.kind == ValueKind::None) {
        if (attached)
            return fail(u"%1 takes no value"_s.arg(name));
        result.m_values.insert(option.option, QString());
        return true;
    }
    if (!attached) {
        if (m_next == m_arguments.size()) {
            m_withoutValue = &option;
            return fail(u"%1 needs a value: %1 %2"_s.arg(name, QString::fromUtf8(option.valueName)));
        }
        attached = m_arguments.at(m_next++);
    }
    const auto value = decode(*attached);
    if (!value || (!m_isUnfinished && !checkValue(option, *value))) // which may be a variable of the shell
        return false;
    result.m_values.insert(option.option, *value);
    return true;
}

bool Invocation::Parser::checkValue(const OptionInfo &option, const QString &value)
{
    const QString name = u"--"_s + QString::fromUtf8(option.name);
    const QString text = shown(value.toUtf8());
    bool isNumber = false;
    const qint64 number = value.toLongLong(&isNumber);
    isNumber = isNumber && value.at(0).isDigit();
    switch (option.kind) {
    case ValueKind::Duration:
        if (!parseDuration(value)) {
            return fail(
                    u"%1: \"%2\" is not a duration; write 250ms, 2s, 5m, 1h or a number of seconds, at most a year"_s
                            .arg(name, text));
        }
        return true;
    case ValueKind::Number:
        return isNumber || fail(u"%1: \"%2\" is not a number"_s.arg(name, text));
    case ValueKind::ExitCode:
        return (isNumber && number <= 255) || fail(u"%1: \"%2\" is not an exit code; write 0 to 255"_s.arg(name, text));
    case ValueKind::Choice:
        return option.choiceList().contains(value)
                || fail(u"%1: \"%2\" is not one of %3"_s.arg(name, text, option.choiceList().join(u", "_s)));
    case ValueKind::File:
    case ValueKind::Program:
        return !value.isEmpty() || fail(u"%1: the value is empty"_s.arg(name));
    case ValueKind::Text:
    case ValueKind::None:
        break;
    }
    return true;
}

bool Invocation::Parser::parseOperand(const QByteArray &argument)
{
    const QString text = QDistLock::Detail::nameText(argument);
    if (!result.m_command)
        return parseCommand(text);
    const Command command = *result.m_command;
    if (command != Command::Run && command != Command::Hold) {
        if (command == Command::Acquire && text.contains(u','))
            return fail(u"NAME is one name, without commas; acquire each lock by its own command"_s);
        result.m_operands += text;
        return true;
    }
    if (!result.m_operands.isEmpty())
        return fail(u"\"%1\" is one operand too many; see %2 --help"_s.arg(shown(argument), result.commandText()));
    result.m_operands = text.split(u',');
    for (const QString &name : std::as_const(result.m_operands)) {
        if (name.isEmpty())
            return fail(u"a name is empty; write NAME or NAME,NAME"_s);
        if (result.m_operands.count(name) > 1)
            return fail(u"the name \"%1\" is given twice; name each lock once"_s.arg(shown(name.toUtf8())));
    }
    return command == Command::Hold || parseChild();
}

bool Invocation::Parser::parseCommand(const QString &name)
{
    result.m_command = commandNamed(name);
    return result.m_command || failAtCommand(name);
}

bool Invocation::Parser::failAtCommand(const QString &name)
{
    QStringList names;
    for (const CommandInfo &row : commands())
        names += QString::fromUtf8(row.name);
    const QString guess = nearest(name, names);
    return fail(u"unknown command \"%1\"%2; see qdistlock --help"_s.arg(
            shown(name.toUtf8()), guess.isEmpty() ? QString() : u" (did you mean %1?)"_s.arg(guess)));
}

/// What follows NAME is the command, byte by byte.
bool Invocation::Parser::parseChild()
{
    QByteArrayList rest = m_arguments.sliced(m_next);
    m_childAt = m_next;
    m_next = m_arguments.size();
    const bool isLiteral = !rest.isEmpty() && rest.first() == "--";
    if (isLiteral)
        rest.removeFirst();
    if (rest.isEmpty() || rest.first().isEmpty())
        return isComplete() || fail(u"CMD is missing after NAME; write qdistlock run NAME [--] CMD [ARG…]"_s);
    const QByteArray longName = "--" + QByteArray(info(Option::ShellCommand).name);
    if (!isLiteral && rest.first().startsWith(longName + '='))
        rest = {longName, rest.first().sliced(longName.size() + 1)};
    if (!isLiteral && (rest.first() == "-c" || rest.first() == longName)) {
        if (rest.size() != 2)
            return fail(u"-c needs exactly one STRING, in quotation marks"_s);
        result.m_values.insert(Option::ShellCommand, QString());
        result.m_childCommand = {rest.last()};
        return true;
    }
    if (!isLiteral && rest.first().startsWith('-')) {
        return fail(
                u"%1 comes after NAME; write options before NAME, and -- before a CMD that begins with a dash"_s.arg(
                        shown(rest.first())));
    }
    result.m_childCommand = rest;
    return true;
}

bool Invocation::Parser::checkOperands()
{
    const CommandInfo &row = info(*result.m_command);
    const qsizetype minimum = *result.m_command == Command::Run || *result.m_command == Command::Hold
            ? std::max<qsizetype>(1, result.m_operands.size())
            : row.minimumOperands;
    if (result.m_operands.size() < minimum) {
        const QString what = *result.m_command == Command::Completion ? u"the shell is missing; write"_s
                : *result.m_command == Command::Run
                ? u"NAME and CMD are missing: which lock, and what must run under it? Write"_s
                : u"NAME is missing: which lock? Write"_s;
        return fail(u"%1 %2 %3"_s.arg(what, result.commandText(), QString::fromUtf8(row.operands)));
    }
    const bool isListed = *result.m_command == Command::Run || *result.m_command == Command::Hold;
    if (!isListed && row.maximumOperands >= 0 && result.m_operands.size() > row.maximumOperands) {
        return fail(u"\"%1\" is one operand too many; see %2 --help"_s.arg(
                shown(result.m_operands.at(row.maximumOperands).toUtf8()), result.commandText()));
    }
    for (const QString &operand : std::as_const(result.m_operands)) {
        if (operand.isEmpty())
            return fail(u"a name is empty; see %1 --help"_s.arg(result.commandText()));
        if (result.m_command == Command::Help && !commandNamed(operand))
            return failAtCommand(operand);
    }
    return true;
}

Completion Invocation::Parser::complete(const QByteArray &typed)
{
    m_isUnfinished = true;
    while (m_next < m_arguments.size() && parseArgument(m_arguments.at(m_next++))) {
    }
    Completion completion;
    if (m_childAt >= 0) {
        const QByteArray first = m_arguments.value(m_childAt);
        const bool isMarked = first == "--" || first == "-c" || first == "--command";
        completion.kind = Completion::Program;
        completion.wordsBefore = 1 + m_childAt + (isMarked ? 1 : 0);
        return completion;
    }
    QString head;
    const bool isOption = error.isEmpty() && !m_optionsEnded && typed.startsWith('-');
    if (const qsizetype equals = typed.indexOf('='); isOption && equals > 0) {
        head = QString::fromUtf8(typed.first(equals + 1));
        parseLong(typed.first(equals));
    }
    const auto addCommands = [&completion] {
        for (const CommandInfo &row : commands())
            completion.words.append({QString::fromUtf8(row.name), QString::fromUtf8(row.summary)});
    };
    if (m_withoutValue) {
        if (m_withoutValue->kind == ValueKind::File)
            completion.kind = Completion::Files;
        for (const QString &choice : m_withoutValue->choiceList())
            completion.words.append({head + choice, QString()});
    } else if (!error.isEmpty() || !head.isEmpty()) {
        // nothing can follow
    } else if (isOption) {
        for (const OptionInfo &option : options()) {
            if (!isAllowed(option) || option.option == Option::ShellCommand)
                continue; // its place is after NAME
            if (option.shortName)
                completion.words.append(
                        {u'-' + QString(QLatin1Char(option.shortName)), QString::fromUtf8(option.help)});
            completion.words.append({u"--"_s + QString::fromUtf8(option.name), QString::fromUtf8(option.help)});
        }
    } else if (!result.m_command) {
        addCommands();
    } else if (const CommandInfo &row = info(*result.m_command);
               row.maximumOperands < 0 || result.m_operands.size() < row.maximumOperands) {
        if (row.command == Command::Help) {
            addCommands();
        } else if (row.command == Command::Completion) {
            for (const QString &shell : QString::fromUtf8(row.operands).split(u'|'))
                completion.words.append({shell, QString()});
        } else {
            completion.kind = Completion::Names;
            Invocation &listing = completion.listing;
            listing.m_command = Command::List;
            for (const Option option : {Option::Server, Option::Prefix}) {
                if (result.has(option))
                    listing.m_values.insert(option, result.text(option));
            }
            listing.m_values.insert(Option::ConnectTimeout, u"1s"_s);
            listing.m_values.insert(Option::Names, QString());
            listing.m_values.insert(Option::Quiet, QString());
        }
    }
    return completion;
}

Completion Invocation::complete(const QByteArrayList &words)
{
    return words.isEmpty() ? Completion() : Parser(words.first(words.size() - 1)).complete(words.last());
}

std::optional<Invocation> Invocation::parse(const QByteArrayList &arguments, QString *error)
{
    Parser parser(arguments);
    if (parser.parse())
        return parser.result;
    *error = parser.result.commandText() + u": "_s + parser.error;
    return std::nullopt;
}

QString Invocation::commandText() const
{
    return m_command ? u"qdistlock "_s + QString::fromUtf8(info(*m_command).name) : u"qdistlock"_s;
}

std::optional<milliseconds> Invocation::duration(Option option) const
{
    return has(option) ? parseDuration(text(option)) : std::nullopt;
}

std::optional<qint64> Invocation::number(Option option) const
{
    return has(option) ? std::optional(text(option).toLongLong()) : std::nullopt;
}

} // namespace Cli
