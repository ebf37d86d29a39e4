// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "participant.h"

#include <QtCore/qstringlist.h>

#include <memory>
#include <vector>

namespace Chaos {

/// A client that holds several locks together: the one for which it contends, and one to three others of its group,
/// which it draws for every second acquire.
class Company
{
public:
    /// Alone: there are no others. \a contender must outlive the company.
    explicit Company(Participant *contender)
        : m_contender(contender)
    {
    }
    /// With the other locks of the contender's group.
    Company(Participant *contender, const Settings &settings, History *history, InjectedFaults *faults);

    /// Draws the locks of the next acquire. False if they stay those of the last one, as they often do: what that has
    /// left behind would be in the way.
    bool draw();
    /// Those that are acquired or held together, the contender first.
    const std::vector<Participant *> &present() const { return m_present; }

private:
    Participant *const m_contender;
    std::vector<std::unique_ptr<Participant>> m_others; ///< the first one is a lock for which other clients contend
    std::vector<Participant *> m_present{m_contender};
};

} // namespace Chaos
