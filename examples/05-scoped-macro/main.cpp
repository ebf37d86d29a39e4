// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Methods that acquire their lock in the first line, called by worker threads. The threads may block: a thread of the
// library renews the lock while the method runs. Set QDISTLOCK_URL to a Redis server and start this program several
// times: the locks then exclude the other processes, too.

#include <QDistLock/LockRegistry>
#include <QDistLock/QuitOnSignals>
#include <QDistLock/ScopedLock>

#include <QtCore/QCoreApplication>
#include <QtCore/QDebug>
#include <QtCore/QMap>
#include <QtCore/QMutex>
#include <QtCore/QThread>

#include <atomic>
#include <memory>
#include <vector>

using namespace Qt::StringLiterals;

using QDistLock::LockOptions;
using QDistLock::ScopedLock;
using namespace std::chrono_literals;

/// In place of a real database. Each call is thread-safe, but between a read and a write the number may change.
class Database
{
public:
    int lastNumber(const QString &customer)
    {
        const QMutexLocker locker(&m_mutex);
        return m_numbers.value(customer);
    }
    void setLastNumber(const QString &customer, int number)
    {
        const QMutexLocker locker(&m_mutex);
        m_numbers[customer] = number;
    }

private:
    QMutex m_mutex;
    QMap<QString, int> m_numbers;
};

class Invoices
{
public:
    /// The lock makes the numbers unique and without gaps, even if several processes write invoices for the customer.
    int write(const QString &customer)
    {
        // In C++20: QDL_SCOPED_LOCK(u"invoices:%1"_s.arg(customer), .wait = 5s);
        QDL_SCOPED_LOCK(u"invoices:%1"_s.arg(customer), LockOptions().withWait(5s));
        checkCustomer(customer);
        return nextNumber(customer);
    }

    /// Does not wait: returns false if the customer's lock is held by another thread or process.
    bool archive(const QString &customer)
    {
        const ScopedLock lock(u"invoices:%1"_s.arg(customer), LockOptions().withWait(0s));
        return lock && m_database.lastNumber(customer) > 0;
    }

    int lastNumber(const QString &customer) { return m_database.lastNumber(customer); }

private:
    /// Acquires the same lock. In a thread that holds it already, as in write(), this sends nothing to the server.
    void checkCustomer(const QString &customer) { QDL_SCOPED_LOCK(u"invoices:%1"_s.arg(customer)); }

    /// The caller must hold the lock; a debug build checks that.
    int nextNumber(const QString &customer)
    {
        QDL_ASSERT_LOCKED(u"invoices:%1"_s.arg(customer));
        const int number = m_database.lastNumber(customer) + 1;
        QThread::yieldCurrentThread(); // without the lock, another thread would often get the same number here
        m_database.setLastNumber(customer, number);
        return number;
    }

    Database m_database;
};

int main(int argc, char **argv)
{
    QCoreApplication application(argc, argv);
    QDistLock::quitOnSignals();
    if (!qEnvironmentVariableIsSet("QDISTLOCK_URL"))
        QDistLock::LockRegistry::setDefaultServer(QUrl(u"memory:"_s)); // locks inside this process; needs no server

    constexpr int threadCount = 4, invoicesEach = 250;
    const QString customer = u"Bob"_s;
    Invoices invoices;
    std::atomic<int> written = 0;
    int running = threadCount;
    std::vector<std::unique_ptr<QThread>> threads;
    for (int i = 0; i < threadCount; ++i) {
        threads.emplace_back(QThread::create([&] {
            try {
                for (int j = 0; j < invoicesEach && !QThread::currentThread()->isInterruptionRequested(); ++j) {
                    invoices.write(customer);
                    ++written;
                }
            } catch (const QDistLock::LockUnavailable &error) {
                qWarning() << error.what();
            }
        }));
        QObject::connect(threads.back().get(), &QThread::finished, &application, [&running] {
            if (--running == 0)
                QCoreApplication::quit();
        });
        threads.back()->start();
    }
    const int status = application.exec(); // ends with the last thread, or with Ctrl+C
    for (const auto &thread : threads) {
        thread->requestInterruption();
        thread->wait();
    }
    qInfo() << written.load() << "invoices written, the last has number" << invoices.lastNumber(customer);

    if (status != 0)
        return status;

    // While this thread holds the lock, archive() in another thread returns at once.
    bool archived = true;
    QDL_WITH_LOCK(u"invoices:%1"_s.arg(customer))
    {
        const std::unique_ptr<QThread> other(QThread::create([&] { archived = invoices.archive(customer); }));
        other->start();
        other->wait();
        qInfo() << "Archived while another thread holds the lock:" << archived;
    }
    else
    {
        qWarning() << "The lock was not acquired: it is held elsewhere, or the server cannot be reached.";
        return 1;
    }
    return !archived && invoices.lastNumber(customer) == threadCount * invoicesEach ? 0 : 1;
}
