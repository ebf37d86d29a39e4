// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "participant.h"

#include <QtCore/qobject.h>

#include <memory>
#include <vector>

namespace Chaos {

/// Clients that use one form of the library's interface. They acquire and release their locks again and again.
class Form : public QObject
{
    Q_OBJECT
public:
    static std::unique_ptr<Form> make(const QString &name, const Settings &settings, History *history,
                                      InjectedFaults *faults);

    virtual void start() = 0;
    /// Acquires no more locks, releases those it holds, and emits finished().
    virtual void stop() = 0;
    /// Destroys the locks in whatever state they are; scopes end soon. Emits finished().
    virtual void abandon() = 0;
    virtual void disconnectFromServers() {}
    /// False while processes of the form still have to end after abandon().
    virtual bool isOver() const { return true; }
    /// True if the library's background thread serves this form: it releases the remaining locks when the application
    /// object is destroyed. join() waits for the threads of the form itself.
    virtual bool hasThreads() const { return false; }
    virtual void join() {}

    const std::vector<std::unique_ptr<Participant>> &participants() const { return m_participants; }

Q_SIGNALS:
    void finished();

protected:
    Form(const Settings &settings, History *history, InjectedFaults *faults);
    std::vector<std::unique_ptr<Participant>> m_participants;
};

} // namespace Chaos
