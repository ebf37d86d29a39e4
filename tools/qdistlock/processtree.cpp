// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "processtree.h"

#include <QtCore/qsystemdetection.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#ifdef Q_OS_LINUX
#  include <sys/prctl.h>
#endif

// Also used in a forked process, which never calls exec(): no Qt objects here, and no locale.

namespace Cli {

namespace {

struct Process
{
    pid_t id;
    pid_t parent;
    pid_t group;
};

/// All processes but zombies; empty where there is no /proc.
std::vector<Process> allProcesses()
{
    std::vector<Process> processes;
    DIR *const folder = ::opendir("/proc");
    if (!folder)
        return processes;
    while (const dirent *entry = ::readdir(folder)) {
        char *end = nullptr;
        const long id = std::strtol(entry->d_name, &end, 10);
        if (id <= 0 || *end != '\0')
            continue;
        char path[64];
        std::snprintf(path, sizeof path, "/proc/%ld/stat", id);
        const int file = ::open(path, O_RDONLY | O_CLOEXEC);
        if (file < 0)
            continue;
        char text[512];
        const ssize_t size = ::read(file, text, sizeof text - 1);
        ::close(file);
        if (size <= 0)
            continue;
        text[size] = '\0';
        // "12 (name, which may contain anything) S 1 12 …"
        const char *const afterName = std::strrchr(text, ')');
        char state = 0;
        long parent = 0;
        long group = 0;
        if (!afterName || std::sscanf(afterName + 1, " %c %ld %ld", &state, &parent, &group) != 3)
            continue;
        if (state != 'Z' && state != 'X')
            processes.push_back({pid_t(id), pid_t(parent), pid_t(group)});
    }
    ::closedir(folder);
    return processes;
}

std::vector<Process> members(const ProcessTree::Selection &selection, const std::vector<Process> &processes)
{
    std::vector<Process> found;
    const auto contains = [&found](pid_t id) {
        return std::any_of(found.begin(), found.end(), [id](const Process &process) { return process.id == id; });
    };
    // The order of /proc is no help: a child may have a smaller number than its parent.
    for (bool isGrowing = true; isGrowing;) {
        isGrowing = false;
        for (const Process &process : processes) {
            const bool isMember = process.id == selection.root || process.parent == selection.root
                    || (selection.group != 0 && process.group == selection.group) || contains(process.parent);
            const bool isOther = process.id == ::getpid() || (selection.spared != 0 && process.id == selection.spared);
            if (isMember && !isOther && !contains(process.id)) {
                found.push_back(process);
                isGrowing = true;
            }
        }
    }
    return found;
}

} // namespace

void ProcessTree::adoptOrphans()
{
#ifdef Q_OS_LINUX
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
#endif
}

bool ProcessTree::isAlive(const Selection &selection)
{
    const std::vector<Process> processes = allProcesses();
    if (processes.empty())
        return selection.group != 0 && ::kill(-selection.group, 0) == 0;
    return !members(selection, processes).empty();
}

void ProcessTree::signal(const Selection &selection, int number, pid_t exceptFor)
{
    // The signal may end the processes by which the others are found; those are then children of this process, if it
    // adopts them. Reading /proc takes milliseconds, so the group comes first if possible.
    const bool toGroup = selection.group != 0 && exceptFor == 0;
    const bool groupFirst = toGroup && selection.root == ::getpid();
    if (groupFirst)
        ::kill(-selection.group, number);
    const std::vector<Process> found = members(selection, allProcesses());
    if (toGroup && !groupFirst)
        ::kill(-selection.group, number);
    for (const Process &process : found) {
        if (process.id != exceptFor && !(toGroup && process.group == selection.group))
            ::kill(process.id, number);
    }
}

} // namespace Cli
