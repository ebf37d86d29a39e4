// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "form.h"

#include <map>

namespace QDistLock {
class LockRegistry;
}

namespace Chaos {

/// DistributedLock, or MultiLock for a Company, with slots and signals, all locks in one thread.
class SignalsForm : public Form
{
    Q_OBJECT
public:
    SignalsForm(const Settings &settings, History *history, InjectedFaults *faults, bool areTogether = false);
    ~SignalsForm() override;

    void start() override;
    void stop() override;
    void abandon() override;
    void disconnectFromServers() override;

private:
    class Client;
    template<typename Lock>
    class ClientOf;
    void clientFinished();
    std::map<QUrl, std::unique_ptr<QDistLock::LockRegistry>> m_registries;
    std::vector<std::unique_ptr<Client>> m_clients;
};

} // namespace Chaos
