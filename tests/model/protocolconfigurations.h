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

/// The model is explored once with each of these: the clients, their leases, and the faults that may happen.
std::vector<Config> configurations();
/// Deliberate errors in the scripts.
const std::vector<Mutation> &mutations();
/// Those that only readers show.
const std::vector<Mutation> &readerMutations();
/// Those that only holders of permits show.
const std::vector<Mutation> &permitMutations();
/// Those that only two locks in one command show.
const std::vector<Mutation> &twoLockMutations();
/// Deliberate errors in the clients.
const std::vector<BehaviourMutation> &behaviourMutations();

} // namespace ProtocolModel
