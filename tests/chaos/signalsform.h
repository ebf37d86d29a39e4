// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "form.h"

#include <map>

namespace QDistLock {
class LockRegistry;
}

namespace Chaos {

/// DistributedLock with its slots and signals, all locks in one thread.
class SignalsForm : public Form
{
    Q_OBJECT
public:
    SignalsForm(const Settings &settings, History *history, InjectedFaults *faults);
    ~SignalsForm() override;

    void start() override;
    void stop() override;
    void abandon() override;
    void disconnectFromServers() override;

private:
    class Client;
    void clientFinished();
    std::map<QUrl, std::unique_ptr<QDistLock::LockRegistry>> m_registries;
    std::vector<std::unique_ptr<Client>> m_clients;
};

} // namespace Chaos
