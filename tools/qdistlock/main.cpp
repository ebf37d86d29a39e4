// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "commands.h"
#include "exitcodes.h"
#include "options.h"
#include "output.h"
#include "unixsignals.h"

#include <QDistLock/qdistlockversion.h>

#include <QtCore/qcoreapplication.h>

#include <cstring>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

using namespace Qt::StringLiterals;
using namespace Cli;

namespace {

/// A standard descriptor that is closed would become that of a socket, to which somebody may write. The child of `run`
/// finds it closed, as this program has. Nothing can be written to the one of standard output: what nobody can read was
/// not said.
void fillStandardDescriptors()
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
        if (::fcntl(fd, F_GETFD) < 0)
            ::open("/dev/null",
                   (fd == STDOUT_FILENO ? O_RDONLY : O_RDWR) | O_CLOEXEC); // gets the smallest number that is free
    }
}

/// True if there are as many as the library and `run` need for one server. In the middle of something, each that is
/// missing would be another error.
bool areDescriptorsFree()
{
    constexpr size_t Needed = 16;
    std::vector<int> probes;
    while (probes.size() < Needed) {
        const int fd = ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
        if (fd < 0)
            break;
        probes.push_back(fd);
    }
    for (const int fd : probes)
        ::close(fd);
    return probes.size() == Needed;
}

/// Other users can read the arguments of a process. They see stars instead of a password or token. \a argc: without the
/// arguments of the child.
void hideSecrets(int argc, char **argv)
{
    const auto hide = [](char *from, char *to) {
        if (from && to && from < to)
            std::memset(from, '*', size_t(to - from));
    };
    const auto valueOf = [argc, argv](int i, const char *name) -> char * {
        const size_t size = std::strlen(name);
        if (std::strncmp(argv[i], name, size) != 0)
            return nullptr;
        if (argv[i][size] == '=')
            return argv[i] + size + 1;
        return argv[i][size] == '\0' && i + 1 < argc ? argv[i + 1] : nullptr;
    };
    for (int i = 1; i < argc; ++i) {
        if (char *const server = valueOf(i, "--server")) {
            char *const user = std::strstr(server, "://");
            char *const end = std::strrchr(server, '@');
            hide(user ? user + 3 : nullptr, end);
        }
        if (char *const token = valueOf(i, "--token"))
            hide(token, token + std::strlen(token));
    }
}

/// `help COMMAND` and `COMMAND --help` are the same, `help` and --help as well.
std::optional<Command> explainedCommand(const Invocation &invocation)
{
    const bool isHelp = invocation.command() == Command::Help && !invocation.has(Option::Help);
    return isHelp ? commandNamed(invocation.operands().value(0)) : invocation.command();
}

int run(const Invocation &invocation)
{
    switch (*invocation.command()) {
    case Command::Run:
        return runRun(invocation);
    case Command::Hold:
        return runHold(invocation);
    case Command::Acquire:
        return runAcquire(invocation);
    case Command::Renew:
        return runRenew(invocation);
    case Command::Release:
        return runRelease(invocation);
    case Command::Permits:
        return runPermits(invocation);
    case Command::List:
        return runList(invocation);
    case Command::Show:
        return runShow(invocation);
    case Command::Watch:
        return runWatch(invocation);
    case Command::Metrics:
        return runMetrics(invocation);
    case Command::Doctor:
        return runDoctor(invocation);
    case Command::Completion:
        return runCompletion(invocation);
    case Command::Help:
        break; // by main()
    }
    return InternalError;
}

} // namespace

int main(int argc, char **argv)
{
    fillStandardDescriptors();
    QByteArrayList arguments;
    for (int i = 1; i < argc; ++i)
        arguments += QByteArray(argv[i]);
    if (arguments.value(0) == "__complete") {
        hideSecrets(argc, argv);
        const QCoreApplication application(argc, argv);
        return runComplete(arguments.sliced(1));
    }
    QString error;
    const auto invocation = Invocation::parse(arguments, &error);
    if (!invocation) {
        printUsageError(error);
        return UsageError;
    }
    setUpOutput(*invocation);
    if (invocation->has(Option::Version))
        return printLine(u"qdistlock "_s + QLatin1String(QDISTLOCK_VERSION_STRING)) ? Success : InternalError;
    if (invocation->has(Option::Help) || invocation->command() == Command::Help)
        return printLine(helpText(explainedCommand(*invocation)).trimmed()) ? Success : InternalError;
    hideSecrets(argc - int(invocation->childCommand().size()), argv);
    if (!areDescriptorsFree()) {
        printError(u"too few file descriptors are free; raise their number with `ulimit -n`"_s);
        return InternalError;
    }

    QCoreApplication application(argc, argv);
    QCoreApplication::setApplicationName(u"qdistlock"_s);
    const int code = run(*invocation);
    if (code < 0)
        UnixSignals::endBy(-code);
    return code;
}
