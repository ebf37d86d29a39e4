// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "metrics/lockevents.h"

#include "base/forksafemutex.h"
#include "base/logging.h"

#include <QDistLock/lockresult.h>

#include <QtCore/qthreadstorage.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <utility>

using namespace Qt::StringLiterals;

namespace QDistLock {

namespace {

using Observers = LockEvents::Observers;

/// The observers of the process. The list is replaced, and never changed: threads are using it.
struct Installed
{
    std::mutex mutex;
    std::shared_ptr<const Observers> observers = std::make_shared<const Observers>();
};

std::mutex &installedMutex();

/// Locks of static storage duration may be released when other static objects are destroyed already.
Installed &installed()
{
    static auto *const made = [] {
        auto *const first = new Installed;
        makeForkSafe<installedMutex>();
        return first;
    }();
    return *made;
}

std::mutex &installedMutex()
{
    return installed().mutex;
}

std::shared_ptr<const Observers> installedObservers()
{
    const std::lock_guard locker(installed().mutex);
    return installed().observers;
}

auto find(const Observers &observers, const LockObserver *observer)
{
    return std::find_if(observers.begin(), observers.end(),
                        [observer](const auto &other) { return other.get() == observer; });
}

bool isInstalled(const LockObserver *observer)
{
    const auto observers = installedObservers();
    return find(*observers, observer) != observers->end();
}

} // namespace

std::atomic<bool> LockEvents::s_areObserved{false};

void LockEvents::report(Function function, const LockEvent &event)
{
    const auto observers = installedObservers();
    if (observers->empty())
        return;
    static auto *const threads = new QThreadStorage<LockEvents *>; // used by static objects, too
    if (!threads->hasLocalData())
        threads->setLocalData(new LockEvents);
    LockEvents *const own = threads->localData();
    own->m_pending.push_back({function, event, observers});
    own->m_postedDelivery.post();
}

/// The thread ends, or the application.
LockEvents::~LockEvents()
{
    while (!m_pending.empty())
        deliver();
}

/// Functions of the application run in here.
void LockEvents::deliver()
{
    // What happens meanwhile waits for the next turn of the event loop.
    for (size_t left = m_pending.size(); left > 0 && !m_pending.empty(); --left) {
        const Pending pending = std::move(m_pending.front());
        m_pending.pop_front();
        if (!m_pending.empty())
            m_postedDelivery.post(); // if an observer runs an event loop, that loop delivers the other events
        for (const std::shared_ptr<LockObserver> &observer : *pending.observers) {
            if (!isInstalled(observer.get()))
                continue; // removed by another one, or by another thread
            QString thrown;
            try {
                (observer.get()->*pending.function)(pending.event);
                continue;
            } catch (const std::exception &exception) {
                thrown = QString::fromUtf8(exception.what());
            } catch (...) {
                thrown = u"not a std::exception"_s;
            }
            qCWarning(
                    lcLock,
                    "Lock %ls: a LockObserver has thrown an exception, which is ignored (%ls); catch it in the observer",
                    qUtf16Printable(Detail::quoted(pending.event.name)), qUtf16Printable(thrown));
        }
    }
}

LockObserver::~LockObserver() = default;

void LockObserver::acquired(const LockEvent &event)
{
    Q_UNUSED(event)
}

void LockObserver::failed(const LockEvent &event)
{
    Q_UNUSED(event)
}

void LockObserver::released(const LockEvent &event)
{
    Q_UNUSED(event)
}

void LockObserver::lost(const LockEvent &event)
{
    Q_UNUSED(event)
}

void LockObserver::renewed(const LockEvent &event)
{
    Q_UNUSED(event)
}

void LockObserver::install(std::shared_ptr<LockObserver> observer)
{
    Installed &all = installed();
    const std::lock_guard locker(all.mutex);
    if (!observer || find(*all.observers, observer.get()) != all.observers->end())
        return;
    Observers observers = *all.observers;
    observers.push_back(std::move(observer));
    all.observers = std::make_shared<const Observers>(std::move(observers));
    LockEvents::s_areObserved = true;
}

void LockObserver::remove(const LockObserver *observer)
{
    std::shared_ptr<const Observers> former; // may destroy the observer, without the mutex
    Installed &all = installed();
    const std::lock_guard locker(all.mutex);
    Observers observers = *all.observers;
    observers.erase(std::remove_if(observers.begin(), observers.end(),
                                   [observer](const auto &other) { return other.get() == observer; }),
                    observers.end());
    LockEvents::s_areObserved = !observers.empty();
    former = std::exchange(all.observers, std::make_shared<const Observers>(std::move(observers)));
}

} // namespace QDistLock
