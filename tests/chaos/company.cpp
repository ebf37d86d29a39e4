// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "company.h"

namespace Chaos {

Company::Company(Participant *contender, const Settings &settings, History *history, InjectedFaults *faults)
    : m_contender(contender)
{
    const LockSettings &contended = contender->lock();
    for (LockSettings other : settings.locks + settings.companions) {
        if (other.group() != contended.group() || other.name == contended.name)
            continue;
        other.with = contended.name;
        m_others.push_back(std::make_unique<Participant>(settings, other, history, faults));
    }
}

bool Company::draw()
{
    if (m_present.size() > 1 && m_contender->below(2) == 0)
        return false;
    std::vector<Participant *> others;
    // Everybody contends for the first one: who always took it would be in everybody's way.
    for (size_t i = m_contender->below(5) == 0 ? 0 : 1; i < m_others.size(); ++i)
        others.push_back(m_others.at(i).get());
    m_present = {m_contender};
    for (quint64 left = 1 + m_contender->below(3); left > 0 && !others.empty(); --left) {
        const auto drawn = others.begin() + qptrdiff(m_contender->below(others.size()));
        m_present.push_back(*drawn);
        others.erase(drawn);
    }
    return true;
}

} // namespace Chaos
