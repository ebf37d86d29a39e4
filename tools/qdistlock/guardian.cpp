// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "guardian.h"

#include "processtree.h"
#include "unixsignals.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef Q_OS_LINUX
#  include <sys/prctl.h>
#  include <sys/syscall.h>
#endif

using namespace std::chrono_literals;

namespace Cli {

namespace {

/// The first interval between two polls for the end of all processes.
constexpr std::chrono::milliseconds FirstPollInterval = 10ms;
/// A stopped parent leaves its killed children behind as zombies for as long as it is stopped.
constexpr std::chrono::milliseconds LongestPollInterval = 10s;
/// An ordinary process finds the descendants within this time, also on a machine under load.
constexpr std::chrono::milliseconds SearchReserve = 2s;

/// At most one guardian is made in this time: nobody knows how often it will be killed.
constexpr std::chrono::milliseconds ReplaceInterval = 1s;

/// On a machine under load, an ordinary process may get the processor a tenth of a second after its time, in the
/// group of a session with other work more than half a second. Without this right, only the reserve helps.
/// Many guardians that search /proc with it would starve all other processes, so only a search shortly before the
/// lease ends has it.
void setRealTime(bool on)
{
    sched_param parameters = {};
    parameters.sched_priority = on ? ::sched_get_priority_min(SCHED_FIFO) : 0;
    ::sched_setscheduler(0, on ? SCHED_FIFO : SCHED_OTHER, &parameters);
}

/// \a keep: not one of the standard descriptors.
void closeAllBut(int keep)
{
#if defined(Q_OS_LINUX) && defined(SYS_close_range)
    if (::syscall(SYS_close_range, 0, keep - 1, 0) == 0 && ::syscall(SYS_close_range, keep + 1, ~0U, 0) == 0)
        return;
#endif
    rlimit limit = {};
    const bool isKnown = ::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    const int end = isKnown ? int(std::min<rlim_t>(limit.rlim_cur, 1 << 20)) : 65536;
    for (int fd = 0; fd < end; ++fd) {
        if (fd != keep)
            ::close(fd);
    }
}

} // namespace

/// The guardian itself, after fork(). Single-threaded, and without Qt.
struct Guardian::Process
{
    int pipe;
    int timer;
    pid_t parent; ///< the process that started the guardian
    OrphanPolicy policy;
    std::chrono::nanoseconds killAfter;
    Order order;

    /// A process with its group: if its number is given to another one, that has another group.
    struct Member
    {
        pid_t id;
        pid_t group;
    };
    /// The descendants of the guarded process at its renewals. Some of them are not the child's, and once the
    /// guarded process has ended, nobody can tell whose descendants they were.
    std::vector<Member> known = {};
    std::chrono::milliseconds pollInterval = FirstPollInterval;

    bool isUrgent() const { return order.killAt - presentMoment() < SearchReserve; }

    /// -1: no end.
    int pollTimeout() const
    {
        if (timer >= 0 || order.killAt == Never)
            return -1;
        const auto rest = std::chrono::ceil<std::chrono::milliseconds>(order.killAt - presentMoment());
        return int(std::clamp<std::chrono::milliseconds>(rest, 0ms, 1h).count());
    }

    /// Reads all orders; false if the other end is closed.
    bool readOrders()
    {
        for (;;) {
            Order next;
            const ssize_t size = ::read(pipe, &next, sizeof next);
            if (size == sizeof next) {
                if (next.number <= order.number)
                    continue;
                const bool isRenewal = order.child > 0 && next.child > 0 && next.killAt != order.killAt;
                order = next;
                pollInterval = FirstPollInterval;
                if (isRenewal)
                    remember();
                setRealTime(true); // to be woken in time
            } else if (size < 0 && errno == EINTR) {
                continue;
            } else {
                return size < 0 && errno == EAGAIN;
            }
        }
    }

    void remember()
    {
        setRealTime(isUrgent());
        // Those alive are kept: if the guarded process ends during the search, it has no descendants to be found.
        known.erase(std::remove_if(known.begin(), known.end(), [](const Member &member) { return !isAlive(member); }),
                    known.end());
        for (const pid_t id : ProcessTree::descendants(parent)) {
            const pid_t group = ::getpgid(id);
            if (group >= 0 && order.spared != ProcessTree::Everybody && group != order.spared)
                add(id, group, &known);
        }
    }

    void run()
    {
        for (;;) {
            if (timer >= 0)
                LeaseTimer::set(timer, order.killAt);
            pollfd events[] = {{pipe, POLLIN, 0}, {timer, POLLIN, 0}};
            ::poll(events, timer >= 0 ? 2 : 1, pollTimeout());
            // First the time, then the orders: one that comes later than its predecessor's moment is too late.
            const Moment now = presentMoment();
            if (!readOrders()) {
                endOrphan();
                return;
            }
            if (order.child > 0 && now >= order.killAt) {
                if (order.group == 0)
                    ::kill(order.child, SIGKILL);
                order.killAt = Never; // unless another order comes meanwhile
                // Orphans are children of the guarded process. Somebody may start another one meanwhile, and the
                // guarded process one that must be spared: it says so before.
                const bool any = ProcessTree::signal(parent, order.group, SIGKILL, [this] {
                    readOrders();
                    return order.spared;
                });
                // Those still there have been killed; the kernel is ending them.
                setRealTime(false);
                if (any && order.killAt == Never)
                    order.killAt = presentMoment() + pollInterval;
                pollInterval = std::min(pollInterval * 2, LongestPollInterval);
            }
        }
    }

    static bool isAlive(const Member &member)
    {
        return ::getpgid(member.id) == member.group && ::kill(member.id, 0) == 0;
    }

    static void add(pid_t id, pid_t group, std::vector<Member> *members)
    {
        const auto isSame = [id](const Member &member) { return member.id == id; };
        if (std::none_of(members->begin(), members->end(), isSame))
            members->push_back({id, group});
    }

    static void signal(const Member &member, int number)
    {
        if (isAlive(member))
            ::kill(member.id, number);
    }

    /// Adds the descendants of those in \a members, and the child's group.
    void complete(std::vector<Member> *members) const
    {
        // The descendants first: once the child has ended, nothing shows whose they were.
        std::vector<pid_t> found;
        for (const Member &member : *members) {
            const std::vector<pid_t> descendants = ProcessTree::descendants(member.id);
            found.insert(found.end(), descendants.begin(), descendants.end());
        }
        if (order.group != 0) {
            const std::vector<pid_t> group = ProcessTree::groupMembers(order.group);
            found.insert(found.end(), group.begin(), group.end());
        }
        for (const pid_t id : found)
            add(id, ::getpgid(id), members);
    }

    void endOrphan()
    {
        if (order.child <= 0 || policy == OrphanPolicy::Keep)
            return;
        setRealTime(isUrgent());
        std::vector<Member> members = std::move(known);
        members.push_back({order.child, ::getpgid(order.child)});
        complete(&members);
        setRealTime(true); // to be woken in time
        if (policy == OrphanPolicy::Term) {
            for (const Member &member : members) {
#ifdef Q_OS_LINUX
                if (member.id == order.child)
                    continue; // by PR_SET_PDEATHSIG
#endif
                signal(member, SIGTERM);
            }
            const Moment killAt = std::min(order.killAt, presentMoment() + killAfter);
            while (std::any_of(members.begin(), members.end(), isAlive)) {
                const Moment rest = killAt - presentMoment();
                if (rest <= 0ns)
                    break;
                const auto interval = std::min<std::chrono::nanoseconds>(rest, FirstPollInterval);
                ::poll(nullptr, 0, int(std::chrono::ceil<std::chrono::milliseconds>(interval).count()));
            }
        }
        setRealTime(isUrgent());
        complete(&members);
        if (order.group != 0)
            ::kill(-order.group, SIGKILL);
        for (const Member &member : members)
            signal(member, SIGKILL);
    }
};

Guardian::Guardian()
{
    m_replaceTimer.setSingleShot(true);
    connect(&m_replaceTimer, &QTimer::timeout, this, &Guardian::replace);
}

Guardian::~Guardian()
{
    dismiss();
    if (m_id > 0)
        ::waitpid(m_id, nullptr, 0); // not in dismiss(): others are still waiting for the lock
}

bool Guardian::start(OrphanPolicy policy, std::chrono::nanoseconds killAfter)
{
    m_policy = policy;
    m_killAfter = killAfter;
    return makeProcess();
}

bool Guardian::makeProcess()
{
    int ends[2];
    int idEnds[2];
    if (::pipe(ends) != 0)
        return false;
    if (::pipe(idEnds) != 0) {
        ::close(ends[0]);
        ::close(ends[1]);
        return false;
    }
    for (const int end : {ends[0], ends[1], idEnds[0], idEnds[1]})
        ::fcntl(end, F_SETFD, FD_CLOEXEC);
    // Forked twice, so that it is nobody's child, or that of whoever adopts orphans.
    const pid_t parent = ::getpid();
    std::optional<UnixSignals::Blocked> blocked(std::in_place); // the guardian never unblocks them
    const pid_t first = ::fork();
    if (first == 0) {
        const pid_t second = ::fork();
        if (second != 0)
            ::_exit(second > 0 ? 0 : errno);
        ::setsid();
#ifdef Q_OS_LINUX
        ::prctl(PR_SET_NAME, "qdl-guardian"); // not found by `pkill qdistlock`
#endif
        const pid_t id = ::getpid();
        [[maybe_unused]] const ssize_t written = ::write(idEnds[1], &id, sizeof id);
        closeAllBut(ends[0]);
        setRealTime(true);
        ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
        Process process{ends[0], LeaseTimer::open(), parent, m_policy, m_killAfter, {}};
        process.run();
        ::_exit(0);
    }
    const int error = errno;
    blocked.reset();
    ::close(ends[0]);
    ::close(idEnds[1]);
    int status = 0;
    while (first > 0 && ::waitpid(first, &status, 0) < 0 && errno == EINTR) {
    }
    const bool started = first > 0 && ::read(idEnds[0], &m_id, sizeof m_id) == sizeof m_id;
    ::close(idEnds[0]);
    if (!started) {
        ::close(ends[1]);
        errno = first > 0 && WIFEXITED(status) && WEXITSTATUS(status) != 0 ? WEXITSTATUS(status) : error;
        return false;
    }
    m_pipe = ends[1];
    ::fcntl(m_pipe, F_SETFL, O_NONBLOCK);
    siginfo_t ended = {};
    if (::waitid(P_PID, id_t(m_id), &ended, WEXITED | WNOHANG | WNOWAIT) == 0)
        ProcessTree::leaveOut(m_id); // a child all the same: this process adopts orphans
    m_madeAt = presentMoment();
    // A pipe that nobody can read any more is in error.
    m_endNotifier = std::make_unique<QSocketNotifier>(m_pipe, QSocketNotifier::Exception);
    connect(m_endNotifier.get(), &QSocketNotifier::activated, this, [this] {
        closePipe();
        m_id = 0;
        const auto rest = std::chrono::ceil<std::chrono::milliseconds>(m_madeAt + ReplaceInterval - presentMoment());
        m_replaceTimer.start(std::max<std::chrono::milliseconds>(rest, 0ms));
    });
    return true;
}

void Guardian::replace()
{
    if (!makeProcess()) {
        Q_EMIT failed(errno);
        return;
    }
    send();
    Q_EMIT replaced();
}

void Guardian::closePipe()
{
    m_endNotifier->setEnabled(false);
    m_endNotifier.release()->deleteLater(); // this may be its slot
    ::close(std::exchange(m_pipe, -1));
}

void Guardian::guard(pid_t child, pid_t group)
{
    m_order.child = child;
    m_order.group = group;
    send();
}

void Guardian::spareNext()
{
    m_order.spared = ProcessTree::Everybody;
    send();
}

void Guardian::spare(pid_t group)
{
    m_order.spared = group;
    send();
}

void Guardian::setKillAt(Moment moment)
{
    m_order.killAt = moment;
    if (m_order.child > 0)
        send();
}

bool Guardian::send()
{
    ++m_order.number;
    // The pipe has room for thousands of orders; if it is full, the guardian is stopped.
    return m_pipe >= 0 && (::write(m_pipe, &m_order, sizeof m_order) == sizeof m_order || errno == EAGAIN);
}

void Guardian::dismiss()
{
    m_replaceTimer.stop();
    m_order.child = 0;
    // A moment that has passed would keep it awake, and it runs before this process, which wants to end it.
    m_order.killAt = Never;
    if (m_pipe < 0)
        return;
    if (send())
        ::kill(m_id, SIGKILL);
    closePipe();
}

} // namespace Cli
