// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "form.h"

namespace Chaos {

/*!
    `qdistlock run`, one process after the other for each lock. Its child, chaossection, is the holder: it believes that
    it holds the lock while it lives, and reports what it does through a pipe.

    A fault that stops or kills this process hits qdistlock, too, but not the child: that is the task of qdistlock.
*/
class RunForm : public Form
{
    Q_OBJECT
public:
    RunForm(const Settings &settings, History *history, InjectedFaults *faults);
    ~RunForm() override;

    void start() override;
    void stop() override;
    void abandon() override;
    bool isOver() const override;

private:
    class Client;
    void clientFinished();

    const Settings m_settings;
    InjectedFaults *const m_faults;
    std::vector<std::unique_ptr<Client>> m_clients;
};

} // namespace Chaos
