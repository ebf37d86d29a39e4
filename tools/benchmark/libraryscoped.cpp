// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "contender.h"

#include <QDistLock/LockRegistry>
#include <QDistLock/ScopedLock>

#include <QtCore/qcoreapplication.h>

using namespace Qt::StringLiterals;

namespace Bench {
namespace {

using QDistLock::ScopedLock;

QString scopedName()
{
    return u"bench:scoped:%1"_s.arg(QCoreApplication::applicationPid());
}

void need(const ScopedLock &lock)
{
    if (!lock)
        fail(u"qdistlock: "_s + lock.result().errorString);
}

/// One scope after the other, in a thread without an event loop.
class LibraryScoped : public Contender
{
public:
    QJsonObject run(std::chrono::milliseconds duration, int) override
    {
        const double limit = std::chrono::duration<double>(duration).count();
        const QString name = scopedName();
        const Stopwatch stopwatch;
        qint64 pairs = 0;
        do {
            const ScopedLock lock(name);
            need(lock);
            ++pairs;
        } while (stopwatch.seconds() < limit);
        ScopedLock last(name); // acquired after the last release has been executed
        need(last);
        last.release();
        return stopwatch.finish(pairs + 1).toJson();
    }
};

/// Scopes inside a scope of the same name.
class LibraryReentry : public Contender
{
public:
    QJsonObject run(std::chrono::milliseconds duration, int) override
    {
        const double limit = std::chrono::duration<double>(duration).count();
        const QString name = scopedName();
        ScopedLock outer(name);
        need(outer);
        const Stopwatch stopwatch;
        qint64 reentries = 0;
        do {
            for (int i = 0; i < 1000; ++i)
                need(ScopedLock(name));
            reentries += 1000;
        } while (stopwatch.seconds() < limit);
        const QJsonObject result = stopwatch.finish(reentries).toJson();
        outer.release();
        return result;
    }
};

} // namespace

std::unique_ptr<Contender> makeLibraryScoped(const Setup &setup)
{
    QDistLock::LockRegistry::setDefaultServer(setup.server);
    return std::make_unique<LibraryScoped>();
}

std::unique_ptr<Contender> makeLibraryReentry(const Setup &setup)
{
    QDistLock::LockRegistry::setDefaultServer(setup.server);
    return std::make_unique<LibraryReentry>();
}

} // namespace Bench
