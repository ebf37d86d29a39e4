// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "engine/lockengine.h"

#include "redis/serverurl.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <utility>

namespace QDistLock {

/// The replies of several nodes to one operation (other than an acquire) on one lock. Thread: that of the engine.
class Round
{
public:
    enum Answer : quint8 { NotAsked, Asked, Late, Done, Gone, Stolen, Failed };
    /// nullopt: wait for more replies, unless isOver().
    using Decision = std::function<std::optional<EngineReply>(const Round &round)>;

    using Update = std::function<void(const Round &round)>;

    /// \a completion is called when \a decision has decided. \a update may be null; it is called after each reply and
    /// when the time is up, also after the decision.
    Round(Decision decision, LockEngine::Completion completion, Update update)
        : m_decision(std::move(decision))
        , m_completion(std::move(completion))
        , m_update(std::move(update))
    {
    }

    void ask(int node) { m_states[size_t(node)].answer = Asked; }
    void replied(int node, const EngineReply &reply)
    {
        State &state = m_states[size_t(node)];
        state.error = reply.error;
        state.answer = reply.status == EngineReply::Done ? Done
                : reply.status == EngineReply::Gone      ? Gone
                : reply.status == EngineReply::Stolen    ? Stolen
                                                         : Failed;
        decide();
    }
    /// No further reply is waited for.
    void timeIsUp()
    {
        for (State &state : m_states)
            state.answer = state.answer == Asked ? Late : state.answer;
        decide();
    }

    Answer answer(int node) const { return m_states[size_t(node)].answer; }
    const EngineError &error(int node) const { return m_states[size_t(node)].error; }
    int count(Answer answer) const
    {
        return int(std::count_if(m_states.cbegin(), m_states.cend(),
                                 [answer](const State &state) { return state.answer == answer; }));
    }
    /// No reply is waited for any more.
    bool isOver() const { return count(Asked) == 0; }
    bool isDecided() const { return !m_completion; }

private:
    struct State
    {
        Answer answer = NotAsked;
        EngineError error = {};
    };

    void decide()
    {
        if (!isDecided()) {
            if (const auto reply = m_decision(*this))
                std::exchange(m_completion, nullptr)(*reply);
        }
        if (m_update)
            m_update(*this);
    }

    std::array<State, QtRedis::ServerUrl::LargestQuorum> m_states;
    const Decision m_decision;
    LockEngine::Completion m_completion;
    const Update m_update;
};

} // namespace QDistLock
