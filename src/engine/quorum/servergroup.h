// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "engine/quorum/quorumnode.h"

#include <memory>
#include <vector>

namespace QDistLock {

/// The servers of a quorum. Thread: that of its engine.
class ServerGroup
{
public:
    void add(std::unique_ptr<QuorumNode> node) { m_nodes.push_back(std::move(node)); }
    int size() const { return int(m_nodes.size()); }
    int majority() const { return size() / 2 + 1; }
    QuorumNode &at(int index) { return *m_nodes[size_t(index)]; }
    const QuorumNode &at(int index) const { return *m_nodes[size_t(index)]; }
    template<typename Predicate>
    int count(Predicate predicate) const
    {
        int count = 0;
        for (const auto &node : m_nodes)
            count += predicate(*node) ? 1 : 0;
        return count;
    }

    /// Why only \a agreeing servers did what \a what says, as "have granted the lock". \a errors are those of others.
    EngineError tooFew(int agreeing, const QString &what, const QList<EngineError> &errors) const;

private:
    std::vector<std::unique_ptr<QuorumNode>> m_nodes;
};

} // namespace QDistLock
