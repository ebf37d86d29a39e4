// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Code blocks of the pages in docs/ that are compiled, never run.

#include <QDistLock/Annotations>
#include <QDistLock/DistributedLock>
#include <QDistLock/LockMetrics>
#include <QDistLock/LockMonitorModel>
#include <QDistLock/LockObserver>
#include <QDistLock/LockRegistry>
#include <QDistLock/MultiLock>
#include <QDistLock/ReadWriteLock>
#include <QDistLock/ScopedMultiLock>
#include <QDistLock/Semaphore>

#include <QCoreApplication>
#include <QDebug>
#include <QFuture>
#include <QPromise>

#include <functional>
#include <memory>

using namespace QDistLock;
using namespace Qt::StringLiterals;
using namespace std::chrono_literals;

namespace Pages {

struct Ledger
{
    void write(qint64) {}
};

//! [scoped-method]
class Stock
{
public:
    int take(const QString &article)
    {
        QDL_SCOPED_LOCK(u"article:"_s + article, LockOptions().withWait(2s)); // throws LockUnavailable
        return takeFromShelf(article);                                        // under the lock
    }

private:
    int takeFromShelf(const QString &article);
};
//! [scoped-method]

int Stock::takeFromShelf(const QString &)
{
    return 0;
}

void scopes(Ledger &ledger)
{
    // clang-format off
    //! [with-lock]
    QDL_WITH_LOCK("ledger", LockOptions().withWait(0ms)) {
        qInfo("the lock is held");
    } else {
        qInfo("somebody else has it");
    }
    //! [with-lock]
    // clang-format on

    const QList<int> steps;
    //! [check]
    ScopedLock scope("ledger");
    for (int step : steps) {
        scope.check(); // throws LockLost if it was lost, so that nothing more is written
        qInfo() << "step" << step;
        ledger.write(scope.fencingToken()); // the ledger refuses a smaller one
    }
    //! [check]
}

class Button : public QObject
{
    Q_OBJECT

Q_SIGNALS:
    void clicked();
};

struct Orders : QObject
{
    void ship(const QString &) {}
};

void slotsWithKeys(Button *button, Orders *orders, const QString &id)
{
    // clang-format off
    //! [key]
    connectLocked(button, &Button::clicked, orders, [=] { orders->ship(id); }, u"order:"_s + keyText(id));
    //! [key]
    // clang-format on

    //! [reports]
    QObject::connect(LockedCalls::instance(), &LockedCalls::failed, orders,
                     [](const LockedCallInfo &call) { qWarning() << call.method << call.errorString; });
    //! [reports]
}

void invoked(QObject *orders)
{
    //! [invoke]
    invokeLocked(orders, "ship", u"42"_s)
            .then(orders, [](const QVariant &shipped) { qInfo() << shipped; })
            .onFailed(orders, [](const LockUnavailable &failure) { qWarning() << failure.what(); });
    //! [invoke]
}

class Report : public QObject
{
    Q_OBJECT
public:
    QFuture<void> start() { return m_work.future(); }
    void stop() { m_work.finish(); }

private:
    QPromise<void> m_work;
};

void longWork(Report *report)
{
    //! [long-work]
    QObject::connect(LockedCalls::instance(), &LockedCalls::lost, report, [=](const LockedCallInfo &call) {
        if (call.lock == "report:nightly"_L1)
            report->stop(); // its future must finish then, too
    });
    QFuture<void> done = QDistLock::withLock(report, "report:nightly", {}, [=] { return report->start(); });
    //! [long-work]
}

void readersAndWriters(QObject *shop, const std::function<bool()> &isOutdated, const std::function<void()> &update)
{
    //! [readers-and-writers]
    auto *prices = new ReadWriteLock(u"prices"_s, shop);
    QObject::connect(prices->readLock(), &DistributedLock::acquired, shop, [=] {
        // Any number of processes read here at the same time, and nobody writes.
        if (!isOutdated())
            return prices->readLock()->release();
        prices->tryUpgrade().then(shop, [=](const LockResult &result) {
            if (result.isAcquired()) {
                update(); // now nobody else reads or writes
                prices->writeLock()->release();
            } else {
                prices->readLock()->release(); // there are other readers: one of them updates it
            }
        });
    });
    prices->readLock()->acquire();
    //! [readers-and-writers]
}

void semaphores(QObject *fleet, const std::function<void()> &convert, const std::function<void()> &abort)
{
    // clang-format off
    //! [semaphore]
    auto *job = new Semaphore(u"video"_s, 5, fleet); // at most five at the same time, in all processes
    QObject::connect(job, &DistributedLock::acquired, fleet, convert);
    QObject::connect(job, &DistributedLock::lost, fleet, abort); // its permit may be somebody else's now
    QObject::connect(job, &DistributedLock::acquireFailed, fleet, [=] { qWarning().noquote() << job->errorString(); });
    job->acquire(); // release() returns the permit
    //! [semaphore]
    // clang-format on

    const auto train = [](int) {};
    //! [slot]
    auto *device = new Semaphore(u"gpu"_s, 4, fleet);
    QObject::connect(device, &DistributedLock::acquired, fleet, [=] { train(device->slot()); }); // 0, 1, 2 or 3
    device->acquire();
    //! [slot]

    //! [set-permits]
    LockRegistry::instance()->setPermits(u"video"_s, 8).then(fleet, [](const LockReply<int> &before) {
        if (before)
            qInfo() << "8 permits; before:" << before.value; // 0: there was no number yet
        else
            qWarning().noquote() << before.errorString;
    });
    //! [set-permits]
}

void severalLocksInAScope(Ledger &ledger, const QString &from, const QString &to)
{
    // clang-format off
    //! [with-locks]
    QDL_WITH_LOCKS({u"account:"_s + from, u"account:"_s + to}, LockOptions().withWait(2s)) {
        ledger.write(fencingTokenHere(u"account:"_s + from));
        ledger.write(fencingTokenHere(u"account:"_s + to));
    } else {
        qWarning("one of the accounts is in use");
    }
    //! [with-locks]
    // clang-format on
}

void severalLocks(QObject *bank, const std::function<void()> &moveMoney, const std::function<void()> &rollBack)
{
    // clang-format off
    //! [several-locks]
    auto *transfer = new MultiLock({u"account:7"_s, u"account:12"_s}, bank);
    QObject::connect(transfer, &MultiLock::acquired, bank, moveMoney);
    QObject::connect(transfer, &MultiLock::lost, bank, rollBack); // one is enough: the others are released
    QObject::connect(transfer, &MultiLock::acquireFailed, bank, [=] { qWarning() << transfer->errorString(); });
    transfer->acquire(); // release() releases both
    //! [several-locks]
    // clang-format on
}

void requests(QObject *window)
{
    //! [requests]
    LockRegistry *registry = LockRegistry::instance();
    registry->list(u"report:*"_s).then(window, [](const LockReply<QList<LockInfo>> &reply) {
        if (!reply) {
            qWarning().noquote() << reply.errorString;
            return;
        }
        for (const LockInfo &lock : reply.value)
            qInfo().noquote() << lock.name << "is held by" << lock.holder.toString();
    });
    //! [requests]
}

void monitor(QObject *parent)
{
    //! [monitor]
    auto *registry = new LockRegistry(QUrl(u"redis://db1"_s), parent);
    auto *model = new LockMonitorModel(registry, parent); // for QTableView::setModel()
    QObject::connect(model, &LockMonitorModel::problemsChanged, parent, [model] { qWarning() << model->problems(); });
    //! [monitor]
}

void metrics()
{
    //! [metrics]
    const QList<LockStatistics> groups = LockMetrics::snapshot();
    for (const LockStatistics &group : groups)
        qInfo() << group.group << group.acquired << "acquired," << group.lost() << "lost";

    const QByteArray text = LockMetrics::openMetricsText(); // for Prometheus
    //! [metrics]
    qInfo() << text;
}

//! [observer]
class AuditLog : public LockObserver
{
public:
    void acquired(const LockEvent &event) override { qInfo() << "acquired" << event.name << event.fencingToken; }
    void released(const LockEvent &event) override { qInfo() << "released" << event.name << event.fencingToken; }
    void lost(const LockEvent &event) override
    {
        qInfo() << "lost" << event.name << event.fencingToken << event.lossReason;
    }
};
//! [observer]

void observe()
{
    //! [observer]

    LockObserver::install(std::make_shared<AuditLog>()); // at the beginning of main()
    //! [observer]
}

} // namespace Pages

#include "pages.moc"
