// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Explores every interleaving of a few clients with the real scripts of src/engine/redis/scripts, breadth first: a
// small Redis with a controlled clock, clients that behave as LeaseMachine and ServerClock do, and faults.
// docs/protocol.md describes what it checks. Time advances in ticks of 1.5 s, so that the claim time has two of them.

#include "protocolmodel.h"
#include "protocolconfigurations.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>

using namespace ProtocolModel;

namespace {

bool report(const Config &config, const Model::Result &result, double seconds)
{
    std::printf("%-58s %8zu states %9zu steps %6ld script runs, served within %2d ticks, idle %d, %.1f s\n",
                config.name.c_str(), result.states, result.steps, result.scriptRuns, result.slowest, result.idle,
                seconds);
    if (result.violation.empty())
        return true;
    std::printf("  WRONG: %s\n", result.violation.c_str());
    for (const std::string &step : result.trace)
        std::printf("    %s\n", step.c_str());
    return false;
}

} // namespace

/// protocolmodel <folder of the scripts> [check | mutants | thorough] [part of a name]
int main(int argc, char **argv)
{
    const std::string scripts = argc > 1 ? argv[1] : ".";
    const std::string what = argc > 2 ? argv[2] : "check";
    const std::string only = argc > 3 ? argv[3] : "";
    constexpr std::size_t AtMost = 10'000'000;
    auto configs = configurations();
    if (what != "thorough")
        configs.erase(std::remove_if(configs.begin(), configs.end(), [](const Config &c) { return c.thorough; }),
                      configs.end());
    try {
        bool well = true;
        if (what != "mutants") {
            for (const auto *all : {&mutations(), &readerMutations(), &permitMutations(), &twoLockMutations()}) {
                for (const Mutation &mutation : *all)
                    Model({}, {}, scripts, &mutation); // throws if the scripts no longer have its text
            }
            std::size_t states = 0, steps = 0;
            for (const Config &config : configs) {
                if (config.name.find(only) == std::string::npos)
                    continue;
                const auto begin = std::chrono::steady_clock::now();
                const Model::Result result = Model(config, {}, scripts, nullptr).explore(AtMost);
                const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
                well = report(config, result, taken.count()) && well;
                std::fflush(stdout);
                states += result.states, steps += result.steps;
            }
            std::printf("%zu states, %zu steps\n", states, steps);
            return well ? 0 : 1;
        }
        // One of the configurations must find each deliberate error.
        const auto found = [&](const std::string &name, const Behaviour &behaviour, const Mutation *mutation) {
            if (name.find(only) == std::string::npos)
                return;
            for (const Config &config : configs) {
                const Model::Result result = Model(config, behaviour, scripts, mutation).explore(AtMost);
                if (result.violation.empty())
                    continue;
                std::printf("%-62s found in \"%s\" after %zu states: %s\n", name.c_str(), config.name.c_str(),
                            result.states, result.violation.c_str());
                std::fflush(stdout);
                return;
            }
            std::printf("%-62s NOT FOUND\n", name.c_str());
            well = false;
        };
        for (const Mutation &mutation : mutations())
            found(mutation.name, {}, &mutation);
        for (const BehaviourMutation &mutation : behaviourMutations()) {
            Behaviour behaviour;
            behaviour.*mutation.flag = true;
            found(mutation.name, behaviour, nullptr);
        }
        const auto all = configs;
        const auto hunt = [&](const std::vector<Mutation> &mutations, bool (Config::*isConcerned)() const) {
            configs = all;
            configs.erase(std::remove_if(configs.begin(), configs.end(),
                                         [=](const Config &c) { return !(c.*isConcerned)(); }),
                          configs.end());
            for (const Mutation &mutation : mutations)
                found(mutation.name, {}, &mutation);
        };
        hunt(readerMutations(), &Config::hasReaders);
        hunt(permitMutations(), &Config::hasPermits);
        hunt(twoLockMutations(), &Config::hasTwoLocks);
        return well ? 0 : 1;
    } catch (const std::exception &exception) {
        std::fprintf(stderr, "%s\n", exception.what());
        return 2;
    }
}
