// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "company.h"
#include "form.h"

#include <atomic>
#include <thread>

namespace Chaos {

/// Scopes in threads that block, one thread for each lock: QDL_SCOPED_LOCK on the default server (that of the first
/// lock), ScopedLock on any other server; or ScopedMultiLock, with a Company.
class ScopedForm : public Form
{
    Q_OBJECT
public:
    ScopedForm(const Settings &settings, History *history, InjectedFaults *faults, bool areTogether = false);
    ~ScopedForm() override;

    void start() override;
    void stop() override;
    void abandon() override;
    bool hasThreads() const override { return true; }
    void join() override;

private:
    /// \a company is null if the participant holds its lock alone.
    void run(Participant *participant, Company *company);
    void takeTurn(Participant *participant);
    void takeTurn(Company *company);

    std::vector<std::unique_ptr<Company>> m_companies; ///< of the participants, or none
    std::vector<std::thread> m_threads;
    std::atomic<bool> m_stopping{false};
    std::atomic<int> m_running{0};
};

} // namespace Chaos
