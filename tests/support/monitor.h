// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QDistLock/LockMonitorModel>
#include <QDistLock/LockRegistry>

#include <QtTest/qabstractitemmodeltester.h>

namespace LockTesting {

/// A LockMonitorModel and its registry. A QAbstractItemModelTester checks the model all the time.
template<typename Registry = QDistLock::LockRegistry>
class Monitor
{
public:
    explicit Monitor(const QUrl &server)
        : registry(server)
    {
        model.setInterval(std::chrono::milliseconds(100));
        model.setRegistry(&registry);
    }

    QStringList names() const
    {
        QStringList names;
        for (int row = 0; row < model.rowCount(); ++row)
            names += model.index(row).data(QDistLock::LockMonitorModel::Name).toString();
        return names;
    }
    /// Invalid if the lock has no row.
    QVariant data(const QString &name, QDistLock::LockMonitorModel::Role role) const
    {
        return model.rowOf(name) < 0 ? QVariant() : model.index(model.rowOf(name)).data(role);
    }
    /// -1 if the lock has no row.
    int status(const QString &name) const
    {
        const QVariant status = data(name, QDistLock::LockMonitorModel::Status);
        return status.isValid() ? status.value<QDistLock::LockMonitorModel::LockStatus>() : -1;
    }
    QString holder(const QString &name) const { return data(name, QDistLock::LockMonitorModel::Holder).toString(); }
    bool hasProblem(const QString &text) const { return model.problems().join(u'\n').contains(text); }

    Registry registry;
    QDistLock::LockMonitorModel model;

private:
    QAbstractItemModelTester m_tester{&model, QAbstractItemModelTester::FailureReportingMode::QtTest};
};

} // namespace LockTesting
