// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "locktesting.h"
#include "rows.h"

#include <optional>

namespace LockTesting {

/// A lock with the options of a test, and all that it has emitted.
class TestLock : public DistributedLock
{
public:
    TestLock(LockRegistry *registry, const QString &name, const LockOptions &options = LockTesting::options())
        : DistributedLock(registry, name)
    {
        setOptions(options);
    }

    Spies spies{this};
};

/// Waits for the result of \a future. If there is none, the test fails.
template<typename T>
T awaited(QFuture<T> future)
{
    if (eventually([&future] { return future.isFinished(); }) && future.resultCount() > 0)
        return future.result();
    QTest::qFail("A future without a result", __FILE__, __LINE__);
    return {};
}

/*!
    The fixture of a test program: a registry for each function.

    cleanup() destroys it. So a cleanup() of a test that checks what is left on the server calls this one first.
*/
class LockTest : public QObject
{
    Q_OBJECT

protected:
    virtual QUrl serverUrl() = 0;
    /// Constructed by the first call in a function.
    LockRegistry *registry()
    {
        if (!m_registry)
            m_registry.emplace(serverUrl());
        return &*m_registry;
    }

protected Q_SLOTS:
    void cleanup() { m_registry.reset(); }

private:
    std::optional<LockRegistry> m_registry;
};

/// With a Redis server, which is emptied before each function.
class RedisLockTest : public LockTest
{
    Q_OBJECT

protected:
    QUrl serverUrl() override { return m_server.url(); }

    Support::RedisServer m_server{Support::RedisServer::Options::withTcp()};

protected Q_SLOTS:
    void initTestCase() { QVERIFY2(m_server.start(), qPrintable(m_server.errorString())); }
    void init() { m_server.command({"FLUSHALL"}); }
};

/// Each function runs with a Redis server and with `memory:`.
class RedisAndMemoryTest : public RedisLockTest
{
    Q_OBJECT

protected:
    /// A store for each function: numbers of permits stay as long as the library's own thread has an engine for it.
    QUrl serverUrl() override
    {
        return isMemory() ? QUrl(QLatin1String("memory:") + QLatin1String(QTest::currentTestFunction()))
                          : m_server.url();
    }
    static bool isMemory()
    {
        QFETCH_GLOBAL(bool, memory);
        return memory;
    }

protected Q_SLOTS:
    void initTestCase_data() { Support::addRows<bool>("memory", {{"redis", false}, {"memory", true}}); }
};

/// For a function that needs a server.
#define SKIP_WITHOUT_SERVER() \
  if (isMemory()) \
  QSKIP("The row \"redis\" runs this test. It reads or changes keys of the server with another client, or cuts " \
        "connections to it; with memory: there is no server, because all locks are in this process.")

} // namespace LockTesting
