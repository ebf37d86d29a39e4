// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "processtree.h"

#include <QtCore/qsystemdetection.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef Q_OS_LINUX
#  include <sys/prctl.h>
#endif

// Also used in a forked process, which never calls exec(): no Qt objects here, and no locale.

namespace Cli {

namespace {

/// Ends the attempt to kill a process that starts others faster than they are found.
constexpr int MostReadings = 100;

/// The processes that are left out, while they exist.
std::vector<pid_t> leftOut;

bool isLeftOut(pid_t id)
{
    return std::find(leftOut.begin(), leftOut.end(), id) != leftOut.end();
}

/// False without /proc, and if it is that of another PID namespace, where our numbers are those of other processes.
bool hasProc()
{
    static const bool result = [] {
        char id[16] = {};
        return ::readlink("/proc/self", id, sizeof id - 1) > 0 && std::atol(id) == ::getpid();
    }();
    return result;
}

/// The content of a small file in /proc; empty if there is none.
std::vector<char> contentOf(const char *path)
{
    std::vector<char> content;
    const int file = hasProc() ? ::open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return content;
    char part[1024];
    for (ssize_t size; (size = ::read(file, part, sizeof part)) > 0;)
        content.insert(content.end(), part, part + size);
    ::close(file);
    content.push_back('\0');
    return content;
}

/// The entries of \a path that are numbers: processes in /proc, threads in /proc/N/task.
std::vector<pid_t> numbersIn(const char *path)
{
    std::vector<pid_t> numbers;
    DIR *const folder = hasProc() ? ::opendir(path) : nullptr;
    if (!folder)
        return numbers;
    while (const dirent *entry = ::readdir(folder)) {
        if (const long number = std::atol(entry->d_name); number > 0)
            numbers.push_back(pid_t(number));
    }
    ::closedir(folder);
    return numbers;
}

struct Process
{
    char state = 'X';
    pid_t parent = 0;
    pid_t group = 0;

    bool isAlive() const { return state != 'X' && state != 'Z'; }
};

Process processNumber(pid_t id)
{
    char path[64];
    std::snprintf(path, sizeof path, "/proc/%d/stat", int(id));
    const std::vector<char> text = contentOf(path);
    // "12 (name, which may contain anything) S 1 12 …"
    const char *const afterName = text.empty() ? nullptr : std::strrchr(text.data(), ')');
    Process process;
    int parent = 0;
    int group = 0;
    if (afterName && std::sscanf(afterName + 1, " %c %d %d", &process.state, &parent, &group) == 3) {
        process.parent = parent;
        process.group = group;
    }
    return process;
}

/// Where the kernel lists the children of each thread, only a few files have to be read.
bool hasLists()
{
    char path[64];
    std::snprintf(path, sizeof path, "/proc/self/task/%d/children", int(::getpid()));
    static const bool result = ::access(path, R_OK) == 0;
    return result;
}

std::vector<pid_t> listedChildren(pid_t parent)
{
    std::vector<pid_t> children;
    char path[96];
    std::snprintf(path, sizeof path, "/proc/%d/task", int(parent));
    for (const pid_t thread : numbersIn(path)) {
        std::snprintf(path, sizeof path, "/proc/%d/task/%d/children", int(parent), int(thread));
        const std::vector<char> text = contentOf(path);
        const char *rest = text.empty() ? "" : text.data();
        for (char *end = nullptr; const long id = std::strtol(rest, &end, 10); rest = end)
            children.push_back(pid_t(id));
    }
    return children;
}

std::vector<pid_t> searchedChildren(pid_t parent)
{
    std::vector<pid_t> children;
    for (const pid_t id : numbersIn("/proc")) {
        if (processNumber(id).parent == parent)
            children.push_back(id);
    }
    return children;
}

std::vector<pid_t> allChildren(pid_t parent)
{
    return hasLists() ? listedChildren(parent) : searchedChildren(parent);
}

/// But for those that are left out.
std::vector<pid_t> childrenOf(pid_t parent)
{
    std::vector<pid_t> children = allChildren(parent);
    const pid_t self = ::getpid();
    children.erase(
            std::remove_if(children.begin(), children.end(), [self](pid_t id) { return id == self || isLeftOut(id); }),
            children.end());
    return children;
}

} // namespace

bool ProcessTree::canFind()
{
    return hasProc();
}

void ProcessTree::leaveOutPresent()
{
    leftOut = descendants(::getpid());
}

void ProcessTree::leaveOut(pid_t id)
{
    leftOut.push_back(id);
}

void ProcessTree::reaped(pid_t id)
{
    leftOut.erase(std::remove(leftOut.begin(), leftOut.end(), id), leftOut.end());
}

bool ProcessTree::hasChildren()
{
    siginfo_t information = {};
    if (::waitid(P_ALL, 0, &information, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD)
        return false;
    // The list of this process's own children is complete: only this process removes any from it, by reaping them, and
    // an orphan is added to it before its parent can be reaped.
    // If it cannot be read, it is empty, and any child may be the command's.
    const std::vector<pid_t> children = leftOut.empty() ? std::vector<pid_t>() : allChildren(::getpid());
    return children.empty() || !std::all_of(children.begin(), children.end(), isLeftOut);
}

void ProcessTree::adoptOrphans()
{
#ifdef Q_OS_LINUX
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
#endif
}

std::vector<pid_t> ProcessTree::descendants(pid_t ancestor)
{
    // In a process that does not reap them itself.
    leftOut.erase(std::remove_if(leftOut.begin(), leftOut.end(),
                                 [](pid_t id) { return ::kill(id, 0) != 0 && errno == ESRCH; }),
                  leftOut.end());
    std::vector<pid_t> found{ancestor};
    for (size_t i = 0; i < found.size(); ++i) {
        const std::vector<pid_t> children = childrenOf(found[i]);
        found.insert(found.end(), children.begin(), children.end());
    }
    found.erase(found.begin());
    return found;
}

bool ProcessTree::isRunning(pid_t id)
{
    return processNumber(id).state != 'Z' && (::kill(id, 0) == 0 || errno == EPERM);
}

std::vector<pid_t> ProcessTree::groupMembers(pid_t group)
{
    std::vector<pid_t> members;
    for (const pid_t id : numbersIn("/proc")) {
        const Process process = processNumber(id);
        if (process.group == group && process.isAlive())
            members.push_back(id);
    }
    return members;
}

bool ProcessTree::signal(pid_t ancestor, pid_t group, int number, const std::function<pid_t()> &spared)
{
    bool any = group != 0 && ::kill(-group, number) == 0;
    std::vector<pid_t> known;
    // A list lacks the processes that are started meanwhile, and may lack others while a process of it ends. Other
    // signals than SIGKILL might start a process for each one that they end.
    const int readings = number == SIGKILL ? MostReadings : 1;
    bool isNew = true;
    for (int i = 0; i < readings && isNew; ++i) {
        isNew = false;
        const std::vector<pid_t> found = descendants(ancestor);
        const pid_t sparedNow = spared();
        for (const pid_t id : found) {
            if (std::find(known.begin(), known.end(), id) != known.end())
                continue;
            known.push_back(id);
            isNew = true;
            const pid_t groupOfIt = ::getpgid(id);
            if ((group == 0 || groupOfIt != group) && sparedNow != Everybody
                && (sparedNow == 0 || groupOfIt != sparedNow))
                any |= ::kill(id, number) == 0;
        }
    }
    return any;
}

} // namespace Cli
