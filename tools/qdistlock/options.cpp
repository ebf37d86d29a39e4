// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "options.h"

#include <QDistLock/LockOptions>
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
        {Command::Run, u"run"_s, u"NAME[,NAME…] [--] CMD [ARG…]"_s, 1, 1,
         u"hold a lock while a command runs"_s,
         u"Waits for the lock NAME, runs CMD, and releases the lock when CMD has ended. Options come before NAME: "
         "everything after CMD belongs to CMD. qdistlock run NAME -c STRING passes STRING to $SHELL (or /bin/sh). "
         "Standard input and output are those of CMD; qdistlock prints to standard error only.\n\n"
         "Several names, separated by commas, are acquired with one command if all are free. If they are not, -n "
         "acquires none of them; without -n they are acquired one after the other, in the same order by everybody, so "
         "that two runs never wait for each other.\n\n"
         "With --shared the lock is held by a reader: all readers of NAME run together, but never together with a run "
         "without --shared, a writer. Readers and writers get the lock in the order in which they came, so a reader "
         "waits while a writer waits before it.\n\n"
         "With --limit N at most N runs of NAME work at the same time: the name has N permits, and each run takes one, "
         "or as many as --take says. Nobody overtakes another one that waits for its permits. The first use of the name "
         "sets N on the server, later ones must give the same N, and `qdistlock permits` changes it. A run without "
         "--limit waits until all permits are free, and then works alone.\n\n"
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
         "changes, which then refuses smaller numbers than the greatest it has seen."_s},
        {Command::Hold, u"hold"_s, u"NAME[,NAME…]"_s, 1, 1,
         u"hold a lock until standard input ends"_s,
         u"Waits for the lock NAME, prints one line when it is held, and releases it when standard input or the "
         "parent process ends, or on SIGINT, SIGTERM or SIGHUP. With --pid or --fd it is released when that process "
         "ends, or when that file descriptor has reached its end. Exits with 79 as soon as the lock is lost."_s},
        {Command::Acquire, u"acquire"_s, u"NAME --lease DUR --token-file FILE"_s, 1, 1,
         u"acquire a lock and exit, leaving it held"_s,
         u"Acquires the lock NAME for the time of --lease, prints its fencing token, and exits. Nothing renews the "
         "lock: use `qdistlock renew`. The token that renews and releases it is written to the file of --token-file, "
         "which only its owner can read. That file must not exist: it proves this hold, and `release` removes it. Both "
         "options are required."_s},
        {Command::Renew, u"renew"_s, u"NAME --token-file FILE"_s, 1, 1,
         u"renew a lock taken with acquire"_s,
         u"Lets the lease of the lock NAME begin again, if the lock still belongs to the token in --token-file, which "
         "is required. Exits with 79 if the lock was lost, even if somebody else holds it now."_s},
        {Command::Release, u"release"_s, u"NAME --token-file FILE | NAME --force"_s, 1, 1,
         u"release a lock, or take it away from its holder"_s,
         u"Releases the lock NAME if it belongs to the token of --token-file or --token; exits with 75, and releases "
         "nothing, if somebody else holds it. With --force the lock is taken away, whoever holds it: the holder is "
         "notified, but until it has noticed, two may work at the same time. If readers or holders of permits hold it, "
         "it is taken away from all of them."_s},
        {Command::Permits, u"permits"_s, u"NAME [N]"_s, 1, 2,
         u"print or change how many may work at the same time"_s,
         u"Prints how many permits NAME has on the server, and how many of them are taken; exits with 1 if it has none. "
         "With N, NAME has N permits from now on: --limit must say this number, or server. Nobody loses a permit: if more than N are taken, nobody gets one until enough are "
         "returned. The server keeps the number for 7 days after the last use of the name."_s},
        {Command::List, u"ls"_s, u"[GLOB]"_s, 0, 1,
         u"list the locks that are held"_s,
         u"Lists the locks whose names match GLOB (with *, ? and [a-z]): name, holder, time left of the lease (which a "
         "running holder renews), length of the queue, fencing token. In a pipe the columns are separated by tabs, and "
         "there is no header."_s},
        {Command::Show, u"show"_s, u"NAME…"_s, 1, -1,
         u"show one lock in detail"_s,
         u"Shows who holds each lock NAME, the time left of the lease (which a running holder renews), and who waits "
         "for it. Exits with 1 if one of them is free."_s},
        {Command::Watch, u"watch"_s, u"[GLOB]"_s, 0, 1,
         u"print each change of the locks"_s,
         u"Prints one line for each lock that is held, and then one for each lock that changes, until a signal ends "
         "it. It asks for the locks again and again, so it sees what lasts longer than --interval. Of several holders "
         "in between it sees the last one; the greater fencing token shows that the lock has changed hands.\n\n"
         "On one Redis, Sentinel or Cluster, holders that use QDistLock also report each second. So each hold gets one "
         "more line when it has ended, also one that was not seen: fencing token, how long it lasted, how long its "
         "holder had waited. A holder that does not report any more, because it is stopped or blocks its event loop, "
         "gets a line, too. Some holds are not reported: those of a program that ends in its first seven seconds or "
         "so, or is killed; of one client more than 16 of a lock in a second; in a Cluster, the first of a client.\n\n"
         "With --json, the first object has all locks that are held, as locks; each later one has the lock that has "
         "changed, as lock, or the hold that has ended, as hold."_s},
        {Command::Metrics, u"metrics"_s, u"[GLOB]"_s, 0, 1,
         u"print numbers about the locks, for Prometheus"_s,
         u"Counts the locks that are held and whose names match GLOB: held, waiting clients, holders that are not "
         "connected, locks that never end, locks of other libraries. The locks are counted in groups: order:17 and "
         "order:18 are in the group order:*. The text is OpenMetrics, of gauges only, so that the textfile collector of "
         "Prometheus' node_exporter reads it, too. If the server cannot be asked, the only number is "
         "qdistlock_server_up 0."_s},
        {Command::Doctor, u"doctor"_s, u""_s, 0, 0,
         u"check the server and the rights of its user"_s,
         u"Checks everything that locks need, one line each: ok, info, warn or fail, what, and what to do about it."_s},
        {Command::Completion, u"completion"_s, u"bash|zsh|fish"_s, 1, 1,
         u"print the completions of a shell"_s,
         u"Prints the script with which the shell completes commands, options and names of qdistlock. For the names of "
         "locks it asks the server, for a second at most. In bash: source <(qdistlock completion bash)"_s},
        {Command::Help, u"help"_s, u"[COMMAND]"_s, 0, 1,
         u"explain a command, or all of them"_s,
         u"Prints the same as qdistlock COMMAND --help, or as qdistlock --help."_s},
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
        {O::NonBlock, 'n', u"nonblock"_s, V::None, {}, {},
         u"do not wait: exit with 75 at once if somebody else holds the lock"_s, Acquiring},
        {O::Timeout, 'w', u"timeout"_s, V::Duration, u"DUR"_s, {},
         u"wait at most this long, then exit with 75; without it the wait has no end"_s, Acquiring},
        {O::Shared, 's', u"shared"_s, V::None, {}, {},
         u"hold the lock as a reader: together with others that use --shared, but not with anybody who does not"_s,
         Acquiring},
        {O::Limit, 0, u"limit"_s, V::Permits, u"N"_s, {},
         u"hold the lock together with others that use --limit, at most N at the same time; the N of the first one "
         "counts, and others must give the same; server: the number that the server has, see the command permits"_s,
         Acquiring},
        {O::Take, 0, u"take"_s, V::Number, u"M"_s, {},
         u"with --limit: count as M of the N, 1 to N; the default is 1"_s, Acquiring},
        {O::Lease, 0, u"lease"_s, V::Duration, u"DUR"_s, {},
         u"time to live of the lock on the server if nobody renews it, 10ms to 24h; the default is 30s (acquire: it is "
         "required; renew: that of acquire)"_s, Acquiring | Renew},
        {O::MinHold, 0, u"min-hold"_s, V::Duration, u"DUR"_s, {},
         u"keep the lock for at least this time, even if it is released earlier; not longer than the lease"_s,
         Acquiring},
        {O::NoFair, 0, u"no-fair"_s, V::None, {}, {},
         u"after a release, whoever comes first gets the lock, instead of the first in the queue"_s, Acquiring},
        {O::NoRenew, 0, u"no-renew"_s, V::None, {}, {},
         u"do not renew the lock: --lease limits how long it is held"_s, Run | Hold},

        {O::OnLost, 0, u"on-lost"_s, V::Choice, u"HOW"_s, u"term|kill|warn"_s,
         u"if the lock is lost: term (default) sends SIGTERM and later SIGKILL, kill only SIGKILL, warn only prints a "
         "line"_s,
         Run},
        {O::KillAfter, 0, u"kill-after"_s, V::Duration, u"DUR"_s, {},
         u"time between SIGTERM and SIGKILL, at most a third of the lease; the default is a sixth of the lease, at "
         "most 5s"_s, Run},
        {O::OnLostExec, 0, u"on-lost-exec"_s, V::Program, u"CMD"_s, {},
         u"when the lock is lost, also run CMD with /bin/sh; $QDISTLOCK_LOST is lease-expired, stolen, deleted or "
         "forced-release"_s, Run},
        {O::ConflictExitCode, 'E', u"conflict-exit-code"_s, V::ExitCode, u"N"_s, {},
         u"exit code, instead of 75, if somebody else holds the lock"_s, Acquiring},
        {O::Orphan, 0, u"orphan"_s, V::Choice, u"HOW"_s, u"term|kill|keep"_s,
         u"if qdistlock itself is killed: term (default) and kill end CMD, keep lets it run without the lock"_s, Run},
        {O::Foreground, 0, u"foreground"_s, V::None, {}, {},
         u"leave CMD in the process group of qdistlock; the default if qdistlock has a terminal"_s, Run},
        {O::BackgroundGroup, 0, u"background-group"_s, V::None, {}, {},
         u"give CMD a process group of its own; the default if qdistlock has none"_s, Run},
        {O::PassEnvironment, 0, u"pass-env"_s, V::None, {}, {},
         u"leave QDISTLOCK_PASSWORD, and a password in QDISTLOCK_URL, in the environment of CMD"_s, Run},
        {O::ShellCommand, 'c', u"command"_s, V::Program, u"STRING"_s, {},
         u"after NAME, instead of CMD: pass STRING to $SHELL or /bin/sh"_s, Run},

        {O::Pid, 0, u"pid"_s, V::Number, u"PID"_s, {},
         u"hold the lock until the process PID ends, instead of standard input"_s, Hold},
        {O::Descriptor, 0, u"fd"_s, V::Number, u"N"_s, {},
         u"hold the lock until file descriptor N has reached its end, instead of standard input"_s, Hold},

        {O::TokenFile, 0, u"token-file"_s, V::File, u"FILE"_s, {},
         u"the file with the token that proves who holds the lock; acquire makes it, release removes it"_s,
         Acquire | Renew | Release},
        {O::Token, 0, u"token"_s, V::Text, u"TOKEN"_s, {},
         u"the token itself; other users may see it in the list of processes"_s, Release},
        {O::Force, 0, u"force"_s, V::None, {}, {},
         u"take the lock away, whoever holds it"_s, Release},
        {O::Expect, 0, u"expect"_s, V::Number, u"FENCE"_s, {},
         u"with --force: only if the fencing token of the holder is FENCE, else exit with 75"_s, Release},
        {O::Yes, 'y', u"yes"_s, V::None, {}, {},
         u"with --force: do not ask on the terminal"_s, Release},

        {O::Sort, 0, u"sort"_s, V::Choice, u"KEY"_s, u"name|ttl|queue"_s,
         u"order of the rows: name (default), ttl (the time left) or queue (the longest first)"_s, List},
        {O::Held, 0, u"held"_s, V::None, {}, {},
         u"only locks whose holder is connected"_s, List},
        {O::Stale, 0, u"stale"_s, V::None, {}, {},
         u"only locks whose holder is not connected, or that never expire"_s, List},
        {O::Foreign, 0, u"foreign"_s, V::None, {}, {},
         u"only locks held by another library, or written by hand"_s, List},
        {O::Names, 0, u"names"_s, V::None, {}, {},
         u"print only the names"_s, List},
        {O::Wide, 0, u"wide"_s, V::None, {}, {},
         u"do not cut columns to the width of the terminal"_s, List},

        {O::Interval, 0, u"interval"_s, V::Duration, u"DUR"_s, {},
         u"how often the server is asked; the default is 1s"_s, Watch},

        {O::Server, 0, u"server"_s, V::Text, u"URL"_s, {},
         u"the server: redis://USER:PASSWORD@HOST:PORT/DB (all but HOST may be left out), rediss: for TLS, or "
         "unix:///PATH; without it $QDISTLOCK_URL, or redis://127.0.0.1:6379"_s, AllCommands},
        {O::Prefix, 0, u"prefix"_s, V::Text, u"P"_s, {},
         u"the key on the server is P followed by the name; the default is lock:"_s, AllCommands},
        {O::ConnectTimeout, 0, u"connect-timeout"_s, V::Duration, u"DUR"_s, {},
         u"exit with 69 if the server is not reached within this time; the default is 5s"_s, AllCommands},
        {O::Json, 0, u"json"_s, V::None, {}, {},
         u"print JSON for programs, one object a line; run and metrics print none"_s, AllCommands},
        {O::Quiet, 'q', u"quiet"_s, V::None, {}, {},
         u"print errors only"_s, AllCommands},
        {O::Verbose, 'v', u"verbose"_s, V::None, {}, {},
         u"print what happens, and the log of the library"_s, AllCommands},
        {O::Color, 0, u"color"_s, V::Choice, u"WHEN"_s, u"auto|always|never"_s,
         u"colours: auto (default) is on a terminal, unless $NO_COLOR is set"_s, AllCommands},
        {O::Version, 0, u"version"_s, V::None, {}, {},
         u"print the version and exit"_s, AllCommands},
        {O::Help, 'h', u"help"_s, V::None, {}, {},
         u"print this help and exit, like the command help"_s, AllCommands},
    };
    // clang-format on
    return table;
}

const QList<Explanation> &exitCodeTexts()
{
    static const QList<Explanation> table{
            {u"0"_s, u"success; run: the command has ended with 0"_s},
            {u"1"_s,
             u"show: a lock is free; release: the lock was not held any more; permits: the name has none; doctor: "
             "warnings"_s},
            {u"2"_s, u"doctor: failures"_s},
            {u"64"_s, u"the command line is wrong, or the name or the token file cannot be used"_s},
            {u"69"_s, u"the server was not reached, or refused to work, before the lock was held"_s},
            {u"70"_s,
             u"internal error; run: the system refused a process, so that the command did not start or was ended"_s},
            {u"75"_s,
             u"run, hold, acquire: somebody else holds the lock, or held it for the whole wait (-E changes this "
             "code); release: somebody else holds it and was left alone, also if the question before a lock is taken "
             "away was not answered with y"_s},
            {u"77"_s, u"the server refused the user, the password, the certificate or a right"_s},
            {u"78"_s, u"the URL of the server cannot be used"_s},
            {u"79"_s,
             u"run, hold: the lock was lost while it was held; renew: it was lost before, whether or not somebody "
             "else holds it now"_s},
            {u"126, 127"_s, u"run: the command cannot be executed, or does not exist"_s},
            {u"128+N"_s, u"signal N has ended the command, or the wait for the lock"_s},
            {u"other"_s, u"run: the exit code of the command"_s},
    };
    return table;
}

const QList<Explanation> &environmentTexts()
{
    static const QList<Explanation> table{
            {u"QDISTLOCK_URL"_s, u"the server, if --server is not given"_s},
            {u"QDISTLOCK_PASSWORD"_s, u"its password, if the URL has none"_s},
            {u"QDISTLOCK_PASSWORD_FILE"_s, u"a file with that password, read at each login"_s},
            {u"QDISTLOCK_IDENTITY"_s,
             u"with the value none, show and ls do not name host, process and program of this command"_s},
            {u"NO_COLOR"_s, u"if set and not empty: no colours"_s},
            {u"SHELL"_s, u"the shell of run … -c"_s},
    };
    return table;
}

const QList<Explanation> &childEnvironmentTexts()
{
    static const QList<Explanation> table{
            {u"QDISTLOCK_NAME"_s, u"the name of the lock; several are separated by commas"_s},
            {u"QDISTLOCK_PLACE"_s, u"the server, without user and password, and the key prefix of the lock"_s},
            {u"QDISTLOCK_FENCE"_s,
             u"its fencing token, greater for each later holder; several in the order of the names"_s},
            {u"QDISTLOCK_HELD"_s, u"1"_s},
            {u"QDISTLOCK_MODE"_s, u"exclusive, or shared with --shared, or permits with --limit"_s},
            {u"QDISTLOCK_SLOT"_s,
             u"with --limit: the number of its permit, from 0, which nobody else has at the same time; several are "
             "separated by commas; not set if there are more than 1024 permits"_s},
            {u"QDISTLOCK_LOST_FD"_s, u"a file descriptor that reaches its end when the lock is lost"_s},
    };
    return table;
}

const QList<Explanation> &exampleTexts()
{
    static const QList<Explanation> table{
            {u"qdistlock run nightly-report ./report.sh"_s,
             u"waits until nobody else makes the report, and makes it"_s},
            {u"qdistlock run -n backup -c 'pg_dump shop > shop.sql'"_s,
             u"does nothing, and exits with 75, if another machine makes the backup"_s},
            {u"qdistlock run --shared site -c 'rsync -a /srv/site backup:'"_s,
             u"runs together with other readers of the site, but never while `qdistlock run site` changes it"_s},
            {u"qdistlock run --limit 5 video ./convert.sh film.mov"_s,
             u"converts the film when fewer than five others are converted, on all machines together"_s},
            {u"5 * * * * qdistlock run -q -n -E 0 --min-hold 20s report /usr/local/bin/report"_s,
             u"in the crontab of each machine, after a line QDISTLOCK_URL=redis://locks.example: the first machine "
             "makes the report, the others skip it without an error and without a mail; --min-hold also skips "
             "machines whose clocks are up to 20 seconds late"_s},
            {u"ExecStart=/usr/bin/qdistlock run mailer /usr/bin/mailer"_s,
             u"in a systemd service that is enabled on several machines: one of them works, the others wait, and "
             "one of these takes over when the first one is gone"_s},
            {u"ENTRYPOINT [\"qdistlock\", \"run\", \"worker\", \"--\", \"/usr/bin/worker\"]"_s,
             u"in a Dockerfile: of all containers, one works; the signals of docker stop are passed on"_s},
            {u"qdistlock acquire deploy:web --lease 10m --token-file /run/deploy.$$"_s,
             u"keeps the lock for ten minutes, for the steps of a longer procedure; prints the fencing token"_s},
            {u"qdistlock release deploy:web --token-file /run/deploy.$$"_s, u"ends that"_s},
            {u"qdistlock ls 'deploy:*'"_s, u"lists who holds which lock"_s},
            {u"* * * * * qdistlock metrics > /var/lib/node_exporter/qdistlock.$$; mv /var/lib/node_exporter/qdistlock.$$ /var/lib/node_exporter/qdistlock.prom"_s,
             u"in a crontab: lets the node_exporter of Prometheus say how many locks are held, and how many clients wait"_s},
            {u"qdistlock release deploy:web --force --expect 1735689600000000 --yes"_s,
             u"takes the lock away from the holder that was shown with that fencing token, and from nobody else"_s},
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
        if (name == row.name)
            return row.command;
    }
    return std::nullopt;
}

const OptionInfo &info(Option option)
{
    return *std::find_if(options().cbegin(), options().cend(),
                         [option](const OptionInfo &row) { return row.option == option; });
}

QStringList OptionInfo::forms() const
{
    const QString longForm = u"--"_s + name;
    return shortName ? QStringList{u'-' + QString(QLatin1Char(shortName)), longForm} : QStringList{longForm};
}

QString optionSyntax(const OptionInfo &option)
{
    const QString forms = option.forms().join(u", "_s);
    return option.valueName.isEmpty() ? forms : forms + u' ' + option.valueName;
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
    return helpRow(option.shortName ? syntax : u"    "_s + syntax, option.help);
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
        text = u"Usage: qdistlock %1 [OPTION…] %2"_s.arg(row.name, row.operands);
        text = text.trimmed() + u'\n';
        const QStringList paragraphs = row.description.split(u"\n\n"_s);
        for (const QString &paragraph : paragraphs)
            text += u'\n' + wrapped(paragraph, 0, 0);
        text += helpSection(u"Options"_s, [command](const OptionInfo &option) {
            return !option.isGlobal() && option.isFor(*command);
        });
        text += helpSection(u"Options of every command"_s, [](const OptionInfo &option) { return option.isGlobal(); });
        if (*command == Command::Run) {
            text += u"\nThe command finds in its environment:\n"_s;
            for (const Explanation &variable : childEnvironmentTexts())
                text += helpRow(variable.name, variable.text);
        }
    } else {
        text = u"Usage: qdistlock [OPTION…] COMMAND …\n\n"_s
                + wrapped(u"Locks that exclude each other on all machines that use the same Redis server."_s, 0, 0)
                + u"\nCommands:\n"_s;
        for (const CommandInfo &row : commands())
            text += helpRow(row.name, row.summary);
        text += helpSection(u"Options of every command"_s, [](const OptionInfo &option) { return option.isGlobal(); });
        text += u"\nExamples:\n"
                "  qdistlock run nightly-report ./report.sh --all\n"
                "  qdistlock run -n backup -c 'pg_dump shop > shop.sql'\n"
                "  qdistlock run -w 10m deploy:web make deploy\n"
                "  qdistlock show deploy:web\n"_s;
    }
    text += u"\nDurations: 250ms 2s 5m 1h; a bare number is seconds.\n\nExit codes:\n"_s;
    for (const Explanation &code : exitCodeTexts())
        text += helpRow(code.name, code.text);
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
    const OptionInfo *find(const QByteArray &form);
    bool parseLong(const QByteArray &argument);
    bool parseShort(const QByteArray &argument);
    bool parseOperand(const QByteArray &argument);
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

/// 1 to the greatest number; 0 if \a text is something else.
int numberOfPermits(const QString &text)
{
    const bool hasDigits = std::all_of(text.cbegin(), text.cend(), [](QChar c) { return c >= u'0' && c <= u'9'; });
    const int number = text.toInt();
    return hasDigits && number <= QDistLock::LockOptions::MaximumPermits ? number : 0;
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
        if (!option.forms().contains(text))
            continue;
        QStringList users;
        for (const CommandInfo &command : commands()) {
            if (option.isFor(command.command))
                users += command.name;
        }
        return result.m_command
                ? u"%1 is an option of %2; see %3 --help"_s.arg(text, users.join(u", "_s), result.commandText())
                : u"%1 must come after its command (%2)"_s.arg(text, users.join(u", "_s));
    }
    QStringList candidates;
    for (const OptionInfo &option : options()) {
        if (isAllowed(option))
            candidates += option.forms().last();
    }
    const QString guess = name.startsWith("--") ? nearest(text, candidates) : QString();
    return u"unknown option %1%2; see %3 --help"_s.arg(
            text, guess.isEmpty() ? QString() : u" (did you mean %1?)"_s.arg(guess), result.commandText());
}

/// The option that is written as \a form here; null after an error.
const OptionInfo *Invocation::Parser::find(const QByteArray &form)
{
    const QString text = QString::fromUtf8(form);
    const auto found = std::find_if(options().cbegin(), options().cend(), [&](const OptionInfo &option) {
        return isAllowed(option) && option.forms().contains(text);
    });
    if (found == options().cend())
        fail(unknownOption(form));
    else if (found->option == Option::ShellCommand)
        fail(u"%1 comes after NAME: qdistlock run NAME -c STRING"_s.arg(text));
    else
        return &*found;
    return nullptr;
}

bool Invocation::Parser::parseLong(const QByteArray &argument)
{
    const qsizetype equals = argument.indexOf('=');
    const OptionInfo *const option = find(equals < 0 ? argument : argument.first(equals));
    return option && setOption(*option, equals < 0 ? std::nullopt : std::optional(argument.sliced(equals + 1)));
}

bool Invocation::Parser::parseShort(const QByteArray &argument)
{
    for (qsizetype i = 1; i < argument.size(); ++i) {
        const OptionInfo *const option = find(QByteArray("-") + argument.at(i));
        const QByteArray rest = argument.sliced(i + 1);
        if (option && option->kind != ValueKind::None)
            return setOption(*option, rest.isEmpty() ? std::nullopt : std::optional(rest));
        if (!option || !setOption(*option, std::nullopt))
            return false;
    }
    return true;
}

bool Invocation::Parser::setOption(const OptionInfo &option, std::optional<QByteArray> attached)
{
    const QString name = option.forms().last();
    if (option.kind == ValueKind::None) {
        if (attached)
            return fail(u"%1 takes no value"_s.arg(name));
        result.m_values.insert(option.option, QString());
        return true;
    }
    if (!attached) {
        if (m_next == m_arguments.size()) {
            m_withoutValue = &option;
            return fail(u"%1 needs a value: %1 %2"_s.arg(name, option.valueName));
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
    const QString name = option.forms().last();
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
    case ValueKind::Permits:
        return numberOfPermits(value) > 0 || value == u"server"
                || fail(u"%1: \"%2\" is not a number of permits; write 1 to %3, or server"_s.arg(
                        name, text, QString::number(QDistLock::LockOptions::MaximumPermits)));
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
    if (!result.m_command) {
        result.m_command = commandNamed(text);
        return result.m_command || failAtCommand(text);
    }
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

bool Invocation::Parser::failAtCommand(const QString &name)
{
    QStringList names;
    for (const CommandInfo &row : commands())
        names += row.name;
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
    const QByteArray longName = info(Option::ShellCommand).forms().last().toLatin1();
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
    if (result.m_operands.size() < row.minimumOperands) {
        const QString what = *result.m_command == Command::Completion ? u"the shell is missing; write"_s
                : *result.m_command == Command::Run
                ? u"NAME and CMD are missing: which lock, and what must run under it? Write"_s
                : u"NAME is missing: which lock? Write"_s;
        return fail(u"%1 %2 %3"_s.arg(what, result.commandText(), row.operands));
    }
    const bool isListed = *result.m_command == Command::Run || *result.m_command == Command::Hold;
    if (!isListed && row.maximumOperands >= 0 && result.m_operands.size() > row.maximumOperands) {
        return fail(u"\"%1\" is one operand too many; see %2 --help"_s.arg(
                shown(result.m_operands.at(row.maximumOperands).toUtf8()), result.commandText()));
    }
    if (const QString number = result.m_operands.value(1);
        result.m_command == Command::Permits && !number.isEmpty() && numberOfPermits(number) == 0) {
        return fail(u"\"%1\" is not a number of permits; write 1 to %2"_s.arg(
                shown(number.toUtf8()), QString::number(QDistLock::LockOptions::MaximumPermits)));
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
    QString head; // "--sort="
    const bool isOption = error.isEmpty() && !m_optionsEnded && typed.startsWith('-');
    if (const qsizetype equals = typed.indexOf('='); isOption && equals > 0) {
        head = QString::fromUtf8(typed.first(equals + 1));
        parseLong(typed.first(equals));
    }
    if (m_withoutValue) {
        completion.kind = m_withoutValue->kind == ValueKind::File ? Completion::Files : Completion::Words;
        for (const QString &choice : m_withoutValue->choiceList())
            completion.words.append({head + choice, QString()});
        return completion;
    }
    if (!error.isEmpty() || !head.isEmpty())
        return completion;
    if (isOption) {
        for (const OptionInfo &option : options()) {
            if (!isAllowed(option) || option.option == Option::ShellCommand)
                continue; // its place is after NAME
            for (const QString &form : option.forms())
                completion.words.append({form, option.help});
        }
        return completion;
    }
    const CommandInfo *const command = result.m_command ? &info(*result.m_command) : nullptr;
    const qsizetype operands = result.m_operands.size();
    const bool isNumber = command && command->command == Command::Permits && operands == 1;
    if (isNumber || (command && command->maximumOperands >= 0 && operands >= command->maximumOperands))
        return completion;
    if (!command || command->command == Command::Help) {
        for (const CommandInfo &row : commands())
            completion.words.append({row.name, row.summary});
    } else if (command->command == Command::Completion) {
        for (const QString &shell : command->operands.split(u'|'))
            completion.words.append({shell, QString()});
    } else {
        completion.kind = Completion::Names;
        QMap<Option, QString> &values = completion.listing.m_values;
        values = {{Option::ConnectTimeout, u"1s"_s}, {Option::Names, {}}, {Option::Quiet, {}}};
        for (const Option option : {Option::Server, Option::Prefix}) {
            if (result.has(option))
                values.insert(option, result.text(option));
        }
        completion.listing.m_command = Command::List;
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
    return m_command ? u"qdistlock "_s + info(*m_command).name : u"qdistlock"_s;
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
