// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "protocolstate.h"
#include "scriptrunner.h"

namespace ProtocolModel {

struct BehaviourMutation
{
    const char *name;
    bool Behaviour::*flag;
};

/// What is explored.
std::vector<Config> configurations();
/// Deliberate errors in the scripts.
const std::vector<Mutation> &mutations();
/// Deliberate errors in the clients.
const std::vector<BehaviourMutation> &behaviourMutations();

} // namespace ProtocolModel
