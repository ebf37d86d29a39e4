// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// A process with locks that forks:
//   forkworker URL exit|events|new
// The parent holds "held", "brief" and "scoped", says "ready" and forks once a line arrives on standard input. The
// child ends at once ("exit"), tries everything with the locks and registries it inherited ("events"), or makes its own
// registry ("new"). Then the parent checks that it still holds its locks. The exit status is 0 if every check passed; a
// check that failed is written as "FAILED …".

#include <QDistLock/Annotations>
#include <QDistLock/LockInfo>
#include <QDistLock/LockRegistry>
#include <QDistLock/ScopedLock>

#include <QtCore/qcoreapplication.h>
#include <QtCore/qdeadlinetimer.h>
#include <QtCore/qpromise.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using QDistLock::DistributedLock;
using QDistLock::LockAddress;
using QDistLock::LockOptions;
using QDistLock::LockRegistry;
using QDistLock::ScopedLock;

// To LeakSanitizer all is leaked in the child that only its parent's threads referred to.
extern "C" Q_DECL_EXPORT const char *__asan_default_options()
{
    return "detect_leaks=0";
}

namespace {

bool ok = true;

void check(bool condition, const char *text)
{
    if (condition)
        return;
    ok = false;
    std::fprintf(stdout, "FAILED %s\n", text);
    std::fflush(stdout);
}

bool waitFor(const std::function<bool()> &condition)
{
    const QDeadlineTimer deadline(60s);
    while (!condition()) {
        if (deadline.hasExpired())
            return false;
        QCoreApplication::processEvents(QEventLoop::WaitForMoreEvents, 100);
    }
    return true;
}

/// With a lease that no pause of the machine ends.
LockOptions options()
{
    return LockOptions().withLease(10min).withWait(60s);
}

bool names(const QString &text, const QString &word)
{
    return text.contains(word);
}

struct Parent
{
    explicit Parent(const QUrl &server)
        : registry(server)
        , held(&registry, u"held"_s)
        , brief(&registry, u"brief"_s)
        , waiting(&registry, u"foreign"_s)
    {
        held.setOptions(options());
        held.acquire();
        check(waitFor([this] { return held.isHeld(); }), "the parent acquires its lock");
        // It is renewed often. If it is lost because the machine pauses, it is acquired again.
        brief.setOptions(options().withLease(900ms).withWait(LockOptions::Forever));
        QObject::connect(&brief, &DistributedLock::lost, &brief, [this] {
            if (isParent)
                brief.acquire();
        });
        brief.acquire();
        check(waitFor([this] { return brief.isHeld(); }), "the parent acquires its brief lock");
        waiting.setOptions(options().withWait(LockOptions::Forever));
        waiting.acquire();
        check(waitFor([this] { return waiting.queuePosition() == 0; }), "the parent waits");
        scoped = std::make_unique<ScopedLock>(LockAddress(u"scoped"_s).withServer(server), options());
        check(scoped->isHeld(), "the parent acquires its scoped lock");
        QObject::connect(&registry, &LockRegistry::stateChanged, &registry, [this] { ++stateChanges; });
        QObject::connect(&brief, &DistributedLock::renewed, &brief, [this] { ++renewals; });
    }

    LockRegistry registry;
    DistributedLock held;
    DistributedLock brief;
    DistributedLock waiting;
    std::unique_ptr<ScopedLock> scoped;
    bool isParent = true;
    int stateChanges = 0;
    int renewals = 0;
};

void useInherited(Parent *parent, const QUrl &server)
{
    check(!parent->held.isHeld(), "the child does not hold the parent's lock");
    check(parent->held.remainingTime() == 0ns, "nor has it any time left");
    check(!parent->scoped->isHeld(), "the child does not hold the parent's scoped lock");

    DistributedLock other(&parent->registry, u"other"_s);
    int failed = 0;
    for (DistributedLock *lock : {&parent->held, &other}) {
        QObject::connect(lock, &DistributedLock::acquireFailed, lock, [&failed] { ++failed; });
        QObject::connect(lock, &DistributedLock::acquired, lock, [] { check(false, "nothing is acquired"); });
        lock->acquire();
    }
    check(waitFor([&failed] { return failed == 2; }), "acquires in the child end");
    check(names(other.errorString(), u"fork"_s), "the error names fork()");
    const auto info = parent->registry.inspect(u"held"_s);
    check(waitFor([&info] { return info.isFinished(); }), "inspect() in the child ends");
    check(names(info.result().errorString, u"fork"_s), "its error names fork()");

    const ScopedLock scoped(LockAddress(u"scoped"_s).withServer(server), options());
    check(!scoped && names(scoped.result().errorString, u"fork"_s), "a scoped lock in the child fails");
    auto call = QDistLock::withLock(LockAddress(u"called"_s).withServer(server), options(), [] { return 1; });
    check(waitFor([&call] { return call.isFinished(); }), "withLock() in the child ends");
    parent->held.release();
    parent->brief.release();
    parent->waiting.cancel();
    // Timers of renewals and of the deadline run out meanwhile.
    waitFor([parent] { return parent->brief.state() == DistributedLock::Unlocked; });
    parent->scoped->release();
}

void useNew(const QUrl &server)
{
    LockRegistry registry(server);
    DistributedLock lock(&registry, u"child"_s);
    lock.setOptions(options());
    lock.acquire();
    check(waitFor([&lock] { return lock.isHeld(); }), "the child acquires through its own registry");
    DistributedLock excluded(&registry, u"held"_s);
    int failed = 0;
    QObject::connect(&excluded, &DistributedLock::acquireFailed, &excluded, [&failed] { ++failed; });
    excluded.tryAcquire();
    check(waitFor([&failed] { return failed == 1; }) && excluded.error() == DistributedLock::BusyError,
          "the parent's lock excludes the child");
    check(names(excluded.errorString(), u", pid %1, "_s.arg(::getppid())), "the error names the parent's process");
    const auto info = registry.inspect(u"child"_s);
    check(waitFor([&info] { return info.isFinished(); }) && info.result().holder.pid == ::getpid(),
          "the child's lock is held by its own process");
    DistributedLock byDefault(u"child:default"_s);
    byDefault.acquire();
    check(waitFor([&byDefault] { return byDefault.isHeld(); }), "the child acquires through the default registry");
    const auto released = lock.releaseAsync();
    const auto releasedToo = byDefault.releaseAsync();
    check(waitFor([&] { return released.isFinished() && releasedToo.isFinished(); }), "the child releases");
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 3)
        return 64;
    auto application = std::make_unique<QCoreApplication>(argc, argv);
    const QUrl server(QString::fromLocal8Bit(argv[1]));
    const QByteArray mode(argv[2]);
    LockRegistry::setDefaultServer(server);
    {
        DistributedLock byDefault(u"parent:default"_s);
        byDefault.acquire();
        check(waitFor([&byDefault] { return byDefault.isHeld(); }), "the parent has a default registry");
    }
    auto parent = std::make_unique<Parent>(server);
    if (!ok)
        return 1;

    std::puts("ready");
    std::fflush(stdout);
    pollfd input{STDIN_FILENO, POLLIN, 0};
    check(waitFor([&input] { return ::poll(&input, 1, 0) == 1; }), "a line arrives");

    const pid_t child = ::fork();
    if (child == 0) {
        parent->isParent = false;
        ::alarm(60); // against a child that never ends
        if (mode == "events")
            useInherited(parent.get(), server);
        else if (mode == "new")
            useNew(server);
        if (mode != "exit")
            parent.reset();
        // Qt waits for the threads that resolve host names, and the child has none of them.
        if (server.host() == QLatin1String("localhost"))
            ::_exit(ok ? 0 : 1);
        if (mode != "exit")
            application.reset();
        std::exit(ok ? 0 : 1);
    }
    int status = 0;
    bool ended = false;
    check(waitFor([&] { return ended = ::waitpid(child, &status, WNOHANG) == child; }), "the child ends");
    check(ended && WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child succeeds");
    const int before = parent->renewals;
    check(waitFor([&] { return parent->renewals >= before + 2; }), "the parent's brief lock is renewed");
    check(parent->stateChanges == 0, "the parent's connection is as it was");
    check(parent->held.isHeld(), "the parent holds its lock");
    check(parent->scoped->release(), "the parent holds its scoped lock");
    check(parent->waiting.queuePosition() == 0, "the parent waits as before");
    return ok ? 0 : 1;
}
