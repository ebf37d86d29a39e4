// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "participant.h"

#include <QtCore/qobject.h>

#include <memory>
#include <vector>

namespace Chaos {

/// One of the forms in which an application may use the library, taking locks in turn until stopped.
class Form : public QObject
{
    Q_OBJECT
public:
    static std::unique_ptr<Form> make(const QString &name, const Settings &settings, History *history, Ordeal *ordeal);

    virtual void start() = 0;
    /// Takes no more locks, gives back what it has, and emits finished().
    virtual void stop() = 0;
    /// In the midst of it all: there are no locks any more, or no more than scopes that end soon. Emits
    /// finished().
    virtual void abandon() = 0;
    virtual void disconnectFromServers() { }
    /// The library works for it in the background as long as the application lives; what it leaves when
    /// that goes is given back then. join() waits for the form's own threads to see it.
    virtual bool hasThreads() const { return false; }
    virtual void join() { }

    const std::vector<std::unique_ptr<Participant>> &participants() const { return m_participants; }

Q_SIGNALS:
    void finished();

protected:
    Form(const Settings &settings, History *history, Ordeal *ordeal);
    std::vector<std::unique_ptr<Participant>> m_participants;
};

} // namespace Chaos
