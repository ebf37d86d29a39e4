// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// The lock over rediss://. What each certificate leads to in detail is tst_tls's.

#include "support/locktest.h"

#include "support/certificates.h"
#include "support/fakeclock.h"
#include "support/registrytime.h"

#include <memory>
#include <vector>

using namespace Qt::StringLiterals;

using namespace LockTesting;
using namespace Support;

class tst_LockTls : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase() { QVERIFY2(m_certificates.isValid(), qPrintable(m_certificates.errorString())); }
    void accepted();
    void refused();
    void manyExclude();
    void manyReleaseInSlots();

private:
    std::unique_ptr<RedisServer> startServer() const;
    Certificates m_certificates;
};

std::unique_ptr<RedisServer> tst_LockTls::startServer() const
{
    auto server = std::make_unique<RedisServer>(RedisServer::Options::withTls(m_certificates));
    if (!server->start())
        qFatal("%s", qPrintable(server->errorString()));
    return server;
}

void tst_LockTls::accepted()
{
    const auto started = startServer();
    RedisServer &server = *started;
    StillRegistry registry(server.tlsUrl());
    TestLock lock(&registry, u"secret"_s, options(30s));
    QVERIFY2(acquireNow(&lock), qPrintable(lock.errorString()));
    QVERIFY(server.exists("lock:secret"));
    registry.pass(10s);
    QVERIFY(eventually([&] { return lock.spies.renewed.size() == 1; }));
    const QByteArray client = server.get("lock:secret").split(':').first();
    QVERIFY(eventually([&] { return server.subscriberCount("lock:client:" + client) == 1; }));
    registry.forceRelease(u"secret"_s);
    QVERIFY(eventually([&] { return lock.spies.lost.size() == 1; }));
    QCOMPARE(lock.spies.reason(), DistributedLock::ForcedRelease);
    QVERIFY(acquireNow(&lock));
    QVERIFY(releaseNow(&lock));
    QVERIFY(!server.exists("lock:secret"));
}

// Each cause has its own text: tst_tls.
void tst_LockTls::refused()
{
    RedisServer::Options serverOptions = RedisServer::Options::withTls(m_certificates);
    serverOptions.certificateFile = m_certificates.selfSigned().certificate;
    serverOptions.keyFile = m_certificates.selfSigned().key;
    Started<RedisServer> server(serverOptions);
    LockRegistry registry(server.tlsUrl());
    TestLock lock(&registry, u"secret"_s, options(30s, LockOptions::Forever));
    QCOMPARE(failureNow(&lock), DistributedLock::AuthenticationError);
    QVERIFY2(lock.errorString().contains(u"self-signed"_s), qPrintable(lock.errorString()));
    QVERIFY(lock.errorString().contains(u"\"secret\""_s));
    QVERIFY(lock.errorString().contains(u"rediss://localhost"_s));
    // Nothing of ours was sent to whoever that is.
    QCOMPARE(server.commandsProcessed("auth") + server.commandsProcessed("client|setname")
                     + server.commandsProcessed("evalsha"),
             0);
    QCOMPARE(registry.state(), LockRegistry::Disconnected);
}

// The answers fill several TLS records, and slots write while they are read. Every other batch of names is
// theirs, so that an answer taken for another one's gives a lock to two.
void tst_LockTls::manyExclude()
{
    constexpr int Workers = 320, Jobs = 8, Batch = 64;
    const auto isTheirs = [](int worker, int job) { return (worker / Batch + job) % 2 == 1; };
    const auto server = startServer();
    const FakeClock clock; // never advances, so neither a lease nor an attempt ends
    LockRegistry theirRegistry(server->url());
    LockRegistry registry(server->tlsUrl());
    for (LockRegistry *each : {&theirRegistry, &registry})
        LockRegistryPrivate::get(each)->setClock(&clock);
    std::vector<std::vector<std::unique_ptr<DistributedLock>>> locks(Workers), theirs(Workers);
    int heldByThem = 0;
    int granted = 0;
    int busy = 0;
    int heldByTwo = 0;
    for (int worker = 0; worker < Workers; ++worker) {
        for (int job = 0; job < Jobs; ++job) {
            const auto make = [name = u"job%1-%2"_s.arg(worker).arg(job)](LockRegistry *owner) {
                auto lock = std::make_unique<TestLock>(owner, name, options(10min));
                return lock;
            };
            theirs[worker].push_back(make(&theirRegistry));
            locks[worker].push_back(make(&registry));
            const DistributedLock *const their = theirs[worker].back().get();
            DistributedLock *const lock = locks[worker].back().get();
            const auto next = [&locks, worker, job] {
                if (job + 1 < Jobs)
                    locks[worker][job + 1]->tryAcquire();
            };
            connect(their, &DistributedLock::acquired, this, [&] { ++heldByThem; });
            connect(lock, &DistributedLock::acquired, this, [&, their, lock, next] {
                ++granted;
                heldByTwo += their->isHeld() && lock->isHeld();
                next();
            });
            connect(lock, &DistributedLock::acquireFailed, this, [&, next](DistributedLock::Error error) {
                busy += error == DistributedLock::BusyError;
                next();
            });
            if (isTheirs(worker, job))
                theirs[worker].back()->acquire();
        }
    }
    QVERIFY(eventually([&] { return heldByThem == Workers * Jobs / 2; }));
    QSignalSpy errors(&registry, &LockRegistry::errorOccurred);
    for (const auto &jobs : locks)
        jobs.front()->tryAcquire();
    const bool ended = eventually([&] { return granted + busy == Workers * Jobs || !errors.isEmpty(); });
    QCOMPARE(heldByTwo, 0);
    QCOMPARE(errors.size(), 0);
    QVERIFY(ended);
    QCOMPARE(granted, Workers * Jobs / 2);
}

void tst_LockTls::manyReleaseInSlots()
{
    constexpr int Locks = 1000;
    const auto server = startServer();
    LockRegistry registry(server->tlsUrl());
    QSignalSpy errors(&registry, &LockRegistry::errorOccurred);
    std::vector<std::unique_ptr<DistributedLock>> locks;
    int acquired = 0;
    int released = 0;
    int lost = 0;
    for (int i = 0; i < Locks; ++i) {
        locks.push_back(std::make_unique<TestLock>(&registry, u"job%1"_s.arg(i)));
        DistributedLock *const lock = locks.back().get();
        connect(lock, &DistributedLock::acquired, this, [&acquired, lock] {
            ++acquired;
            lock->release();
        });
        connect(lock, &DistributedLock::released, this, [&released] { ++released; });
        connect(lock, &DistributedLock::lost, this, [&lost] { ++lost; });
        lock->acquire();
    }
    const bool ended = eventually([&] { return released + lost == Locks || !errors.isEmpty(); });
    QCOMPARE(errors.size(), 0);
    QVERIFY(ended);
    QCOMPARE(acquired, Locks);
    QCOMPARE(released, Locks);
    QCOMPARE(lockKeys(*server), QList<QByteArray>());
}

QTEST_GUILESS_MAIN(tst_LockTls)

#include "tst_locktls.moc"
