// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Distributions build Qt without ThreadSanitizer, which therefore does not see how Qt synchronises threads. These
// functions replace functions of Qt: they report the synchronisation to ThreadSanitizer, nothing more, and call Qt's
// function. Calls inside Qt do not pass through them, but all events do. tst_threadsanitizer shows for each function
// what is recognised and what is still reported.
//
// With a Qt that declares other signatures this file does not compile. With a Qt that calls other functions instead,
// races are reported that are none, but none are hidden.

#include <QtCore/qabstracteventdispatcher.h>
#include <QtCore/qcoreapplication.h>
#include <QtCore/qcoreevent.h>
#include <QtCore/qfutureinterface.h>
#include <QtCore/qfuturewatcher.h>
#include <QtCore/qmutex.h>
#include <QtCore/qscopeguard.h>
#include <QtCore/qsemaphore.h>
#include <QtCore/qthread.h>
#include <QtCore/qthreadpool.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <utility>

#include <dlfcn.h>
#include <link.h>
#include <sanitizer/tsan_interface.h>

extern "C" void AnnotateIgnoreWritesBegin(const char *file, int line);
extern "C" void AnnotateIgnoreWritesEnd(const char *file, int line);

namespace {

/// Qt's function of the same name. This code must not synchronise threads itself, as the guard of a static variable
/// would.
template<auto own>
auto next()
{
    static std::atomic<void *> address{nullptr};
    void *found = address.load(std::memory_order_relaxed);
    auto function = own;
    if (!found) {
        std::memcpy(&found, &function, sizeof found); // the first word of a pointer to a member, too
        Dl_info info;
        if (dladdr(found, &info) == 0 || !info.dli_sname)
            std::abort();
        found = dlsym(RTLD_NEXT, info.dli_sname);
        if (!found)
            std::abort();
        address.store(found, std::memory_order_relaxed);
    }
    std::memcpy(&function, &found, sizeof found);
    return function;
}

} // namespace

// An event is delivered after everything that happened before it was posted. Queued calls, queued slots, deleteLater()
// and finished() of a future watcher are events, which Qt creates with new just before. (Qt then copies the arguments
// of a queued slot; a type whose copy constructor ThreadSanitizer sees would be reported.)

namespace {

/// The address range of the code of Qt.
struct Code
{
    quintptr begin;
    quintptr end;
    bool isCore;
};
constexpr int MostCode = 32;
Code qtCode[MostCode];
int qtCodeCount = 0;

int findQt(dl_phdr_info *info, std::size_t, void *)
{
    if (!std::strstr(info->dlpi_name, "/libQt6"))
        return 0;
    for (int i = 0; i < info->dlpi_phnum && qtCodeCount < MostCode; ++i) {
        const auto &header = info->dlpi_phdr[i];
        if (header.p_type != PT_LOAD || !(header.p_flags & PF_X))
            continue;
        const quintptr begin = info->dlpi_addr + header.p_vaddr;
        qtCode[qtCodeCount++] = {begin, begin + header.p_memsz,
                                 std::strstr(info->dlpi_name, "/libQt6Core.") != nullptr};
    }
    return 0;
}

/// Null if the address is not in Qt.
const Code *codeAt(void *address)
{
    for (int i = 0; i < qtCodeCount; ++i) {
        if (quintptr(address) >= qtCode[i].begin && quintptr(address) < qtCode[i].end)
            return &qtCode[i];
    }
    return nullptr;
}

/// Addresses inside the data that the copies of a future share, apart from those of Qt's mutexes in it.
void *end(void *shared)
{
    return static_cast<char *>(shared) + 1;
}

void *results(void *shared)
{
    return static_cast<char *>(shared) + 2;
}

void *copies(void *shared)
{
    return static_cast<char *>(shared) + 3;
}

/// Exists while Qt allocates for itself, so that ThreadSanitizer ignores the allocation as it ignores its use.
class Unseen
{
public:
    explicit Unseen(bool unseen)
        : m_unseen(unseen)
    {
        if (m_unseen)
            AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
    }
    ~Unseen()
    {
        if (m_unseen)
            AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    }

private:
    Q_DISABLE_COPY_MOVE(Unseen)
    const bool m_unseen;
};

bool delivers(void **parameters)
{
    __tsan_acquire(parameters[1]);
    return false; // Qt delivers it
}

const bool watches = [] {
    dl_iterate_phdr(findQt, nullptr);
    return QInternal::registerCallback(QInternal::EventNotifyCallback, delivers);
}();

} // namespace

void *operator new(std::size_t size)
{
    const Code *const caller = codeAt(__builtin_return_address(0));
    void *memory;
    {
        const Unseen unseen(caller);
        memory = std::malloc(size ? size : 1);
    }
    if (!memory)
        throw std::bad_alloc();
    if (caller && caller->isCore)
        __tsan_release(memory);
    return memory;
}

void operator delete(void *memory) noexcept
{
    const Unseen unseen(codeAt(__builtin_return_address(0)));
    std::free(memory);
}

void operator delete(void *memory, std::size_t) noexcept
{
    // If this is the shared data of a future, all copies have released it. Nothing else has this address.
    if (memory)
        __tsan_acquire(copies(memory));
    const Unseen unseen(codeAt(__builtin_return_address(0)));
    std::free(memory);
}

void QCoreApplication::postEvent(QObject *receiver, QEvent *event, int priority)
{
    __tsan_release(event);
    next<&QCoreApplication::postEvent>()(receiver, event, priority);
}

// A functor is destroyed after its last call has ended, because Qt counts its users. The caller of a blocking queued
// call waits for its end.

namespace {

class Functor final : public QtPrivate::QSlotObjectBase
{
public:
    explicit Functor(QSlotObjectBase *slot)
        : QSlotObjectBase(run)
        , m_slot(slot)
    {
    }
    /// Called when the functor has returned.
    void wait() { __tsan_acquire(this); }

private:
    static void run(int which, QSlotObjectBase *self, QObject *receiver, void **arguments, bool *result)
    {
        auto *const functor = static_cast<Functor *>(self);
        switch (which) {
        case QSlotObjectBase::Destroy:
            __tsan_acquire(functor);
            functor->m_slot->destroyIfLastRef();
            delete functor;
            break;
        case QSlotObjectBase::Call:
            functor->m_slot->call(receiver, arguments);
            __tsan_release(functor);
            break;
        case QSlotObjectBase::Compare:
            *result = functor->m_slot->compare(arguments);
            break;
        }
    }

    QSlotObjectBase *const m_slot;
};

} // namespace

bool QMetaObject::invokeMethodImpl(QObject *object, QtPrivate::QSlotObjectBase *slot, Qt::ConnectionType type,
                                   void *result)
{
    auto *const functor = new Functor(slot);
    functor->ref();
    const bool invoked = next<&QMetaObject::invokeMethodImpl>()(object, functor, type, result);
    if (type == Qt::BlockingQueuedConnection)
        functor->wait();
    functor->destroyIfLastRef();
    return invoked;
}

QMetaObject::Connection QObject::connectImpl(const QObject *sender, void **signal, const QObject *receiver, void **slot,
                                             QtPrivate::QSlotObjectBase *slotObject, Qt::ConnectionType type,
                                             const int *types, const QMetaObject *senderMetaObject)
{
    return next<&QObject::connectImpl>()(sender, signal, receiver, slot, new Functor(slotObject), type, types,
                                         senderMetaObject);
}

// When wait() returns true, the thread has ended, and its QThreadStorage data is deleted. Its event dispatcher is
// deleted last.

void QThread::start(Priority priority)
{
    constexpr auto once = Qt::ConnectionType(Qt::DirectConnection | Qt::SingleShotConnection);
    connect(
            this, &QThread::started, this,
            [this] {
                connect(eventDispatcher(), &QObject::destroyed, eventDispatcher(), [this] { __tsan_release(this); });
            },
            once);
    (this->*next<&QThread::start>())(priority);
}

bool QThread::wait(QDeadlineTimer deadline)
{
    const bool ended = (this->*next<static_cast<bool (QThread::*)(QDeadlineTimer)>(&QThread::wait)>())(deadline);
    if (ended)
        __tsan_acquire(this);
    return ended;
}

// A pool calls a function after everything that happened before it was started.

namespace {

using Function = std::function<void()>;

/// Qt has moved it, which ThreadSanitizer did not see.
struct Task
{
    Function *const function;

    __attribute__((no_sanitize("thread"))) void operator()() const { run(function); }

    static void run(Function *function)
    {
        __tsan_acquire(function);
        (*function)();
        delete function;
    }
};

} // namespace

void QThreadPool::start(Function function, int priority)
{
    auto *const own = new Function(std::move(function));
    __tsan_release(own);
    (this->*next<static_cast<void (QThreadPool::*)(Function, int)>(&QThreadPool::start)>())(Task{own}, priority);
}

// ThreadSanitizer sees the functions of QMutex, which are in Qt's header, but not these.

bool QRecursiveMutex::tryLock(int timeout) QT_MUTEX_LOCK_NOEXCEPT
{
    const bool locked = (this->*next<&QRecursiveMutex::tryLock>())(timeout);
    if (locked)
        __tsan_acquire(this);
    return locked;
}

void QRecursiveMutex::unlock() noexcept
{
    __tsan_release(this);
    (this->*next<&QRecursiveMutex::unlock>())();
}

// Everything before a release() happens before everything after the matching acquire().

void QSemaphore::release(int n)
{
    __tsan_release(this);
    (this->*next<&QSemaphore::release>())(n);
}

void QSemaphore::acquire(int n)
{
    (this->*next<&QSemaphore::acquire>())(n);
    __tsan_acquire(this);
}

bool QSemaphore::tryAcquire(int n)
{
    const bool acquired = (this->*next<static_cast<bool (QSemaphore::*)(int)>(&QSemaphore::tryAcquire)>())(n);
    if (acquired)
        __tsan_acquire(this);
    return acquired;
}

bool QSemaphore::tryAcquire(int n, int timeout)
{
    const bool acquired = (this->*next<static_cast<bool (QSemaphore::*)(int, int)>(&QSemaphore::tryAcquire)>())(
            n, timeout);
    if (acquired)
        __tsan_acquire(this);
    return acquired;
}

// Everything before a future finishes happens before everything after a call that finds it finished. The last copy that
// has results clears them after all copies that have results have released them, and the shared data is destroyed after
// all copies have released that; Qt counts the two separately.

void QFutureInterfaceBase::reportFinished()
{
    __tsan_release(end(d));
    (this->*next<&QFutureInterfaceBase::reportFinished>())();
}

bool QFutureInterfaceBase::isFinished() const
{
    const bool finished = (this->*next<&QFutureInterfaceBase::isFinished>())();
    if (finished)
        __tsan_acquire(end(d));
    return finished;
}

void QFutureInterfaceBase::waitForFinished()
{
    // Throws the exception of the future, if it has one.
    const auto look = qScopeGuard([this] { isFinished(); });
    (this->*next<&QFutureInterfaceBase::waitForFinished>())();
}

void QFutureInterfaceBase::waitForResult(int index)
{
    const auto look = qScopeGuard([this] { isFinished(); });
    (this->*next<&QFutureInterfaceBase::waitForResult>())(index);
}

void QFutureWatcherBase::connectOutputInterface()
{
    (this->*next<&QFutureWatcherBase::connectOutputInterface>())();
    futureInterface().isFinished(); // else an event will tell
}

bool QFutureInterfaceBase::derefT() const noexcept
{
    void *const shared = d; // which may go
    __tsan_release(results(shared));
    const bool isShared = (this->*next<&QFutureInterfaceBase::derefT>())();
    if (!isShared)
        __tsan_acquire(results(shared));
    return isShared;
}

QFutureInterfaceBase::~QFutureInterfaceBase()
{
    if (d)
        __tsan_release(copies(d));
    // next() cannot find it: a destructor has no address.
    static std::atomic<void *> address{nullptr};
    void *found = address.load(std::memory_order_relaxed);
    if (!found) {
        found = dlsym(RTLD_NEXT, "_ZN20QFutureInterfaceBaseD2Ev");
        if (!found)
            std::abort();
        address.store(found, std::memory_order_relaxed);
    }
    reinterpret_cast<void (*)(QFutureInterfaceBase *)>(found)(this);
}
