// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Methods that lock themselves, called by worker threads. The threads may block: the lock is renewed
// by the library's own thread for as long as the method runs. Set QDISTLOCK_URL to a server and start
// this program several times to lock between processes too.

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

using QDistLock::LockOptions;
using namespace std::chrono_literals;

/// Stands for a database: each access is safe by itself, but what is read may be old when it is written.
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
    /// Numbers have no gaps and none is given twice, whoever writes invoices for the customer elsewhere.
    int write(const QString &customer)
    {
        // In C++20: QDL_SCOPED_LOCK(u"invoices:%1"_s.arg(customer), .wait = 30s);
        QDL_SCOPED_LOCK(QStringLiteral("invoices:%1").arg(customer), LockOptions().withWait(30s));
        checkCustomer(customer);
        return nextNumber(customer);
    }

    /// One look: false while somebody else works for the customer.
    bool archive(const QString &customer)
    {
        QDL_LOCK_OR_RETURN(false, QStringLiteral("invoices:%1").arg(customer), LockOptions().withWait(0s));
        return m_database.lastNumber(customer) > 0;
    }

    int lastNumber(const QString &customer) { return m_database.lastNumber(customer); }

private:
    /// Locks too: inside write() it costs nothing, since the thread has that lock already.
    void checkCustomer(const QString &customer)
    {
        QDL_SCOPED_LOCK(QStringLiteral("invoices:%1").arg(customer));
    }

    /// Relies on its caller to have the lock; a debug build makes sure of that.
    int nextNumber(const QString &customer)
    {
        QDL_ASSERT_LOCKED(QStringLiteral("invoices:%1").arg(customer));
        const int number = m_database.lastNumber(customer) + 1;
        QThread::yieldCurrentThread(); // others get every chance to come between
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
        QDistLock::LockRegistry::setDefaultServer(
                QUrl(QStringLiteral("memory:"))); // nothing to install for a first look

    constexpr int threadCount = 4, invoicesEach = 250;
    const QString customer = QStringLiteral("Bob");
    Invoices invoices;
    std::atomic<int> written = 0;
    std::vector<std::unique_ptr<QThread>> threads;
    for (int i = 0; i < threadCount; ++i) {
        threads.emplace_back(QThread::create([&] {
            try {
                for (int j = 0; j < invoicesEach; ++j) {
                    invoices.write(customer);
                    ++written;
                }
            } catch (const QDistLock::LockUnavailable &error) {
                qWarning() << error.what();
            }
        }));
        threads.back()->start();
    }
    for (const auto &thread : threads)
        thread->wait();
    qInfo() << written.load() << "invoices written, the last has number"
            << invoices.lastNumber(customer);

    // The other way round: somebody else has the lock, and the main thread would not wait.
    bool archived = true;
    QDL_WITH_LOCK(QStringLiteral("invoices:%1").arg(customer)) {
        const std::unique_ptr<QThread> other(
                QThread::create([&] { archived = invoices.archive(customer); }));
        other->start();
        other->wait();
        qInfo() << "Archived while somebody else had the lock:" << archived;
    } else {
        qWarning() << "The server does not answer, or somebody else has the lock";
        return 1;
    }
    return !archived && invoices.lastNumber(customer) == threadCount * invoicesEach ? 0 : 1;
}
