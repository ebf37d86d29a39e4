# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT

import statistics

from contenders import HIREDIS, INNER, OURS
from harness import Contender, Target, number, ratios, rotated, spread, table, with_spread


class ScopedCase:
    """One scope after the other in one thread, compared with blocking lock + unlock; and scopes inside a scope."""

    name = "scoped"
    title = "ScopedLock in a separate thread, TCP loopback"

    def run(self, options, server, available):
        url = server.url()
        pairs = [
            Contender(OURS, available.command(OURS, "scoped", url)),
            Contender(HIREDIS, available.command(HIREDIS, "pairs", url)),
        ]
        reentry = Contender(OURS, available.command(OURS, "reentry", url))
        for contender in [*pairs, reentry]:
            contender.run(options.warm_up)
        rates = {contender.name: [] for contender in pairs}
        cpu = {contender.name: [] for contender in pairs}
        commands, nanoseconds, reentry_commands = [], [], []
        for repetition in range(options.repetitions):
            for contender in rotated(pairs, repetition):
                before = server.commands(INNER[OURS])
                result = contender.run(options.milliseconds)
                operations = result["operations"]
                rates[contender.name].append(operations / result["seconds"])
                cpu[contender.name].append(result["cpuSeconds"] / operations * 1e6)
                if contender.name == OURS:
                    commands.append((server.commands(INNER[OURS]) - before) / operations)
            before = server.commands(INNER[OURS])
            result = reentry.run(min(options.milliseconds, 300))
            nanoseconds.append(result["seconds"] / result["operations"] * 1e9)
            reentry_commands.append(server.commands(INNER[OURS]) - before - 2)  # of the outer scope
        for contender in [*pairs, reentry]:
            contender.close()
        ratio = ratios(rates[OURS], rates[HIREDIS])
        return {
            "unit": "scopes/s",
            "rates": {name: spread(values) | {"all": values} for name, values in rates.items()},
            "cpuMicrosecondsPerPair": {name: spread(values) for name, values in cpu.items()},
            "ratio": ratio,
            "commandsPerScope": spread(commands),
            "reentryNanoseconds": spread(nanoseconds),
            "targets": [
                Target("scopes/s to pairs/s of bare hiredis", ratio["median"], at_least=0.6),
                Target("commands per scope", statistics.median(commands), at_most=2),
                Target("nanoseconds to re-enter", statistics.median(nanoseconds), at_most=1000),
                Target("commands to re-enter", max(reentry_commands), at_most=0),
            ],
        }

    def show(self, result):
        lines = table(
            ["", "scopes/s", "lowest – highest", "client CPU µs/scope", "qdistlock to it"],
            [
                [
                    name,
                    rate["median"],
                    f"{number(rate['min'])} – {number(rate['max'])}",
                    result["cpuMicrosecondsPerPair"][name]["median"],
                    with_spread(result["ratio"] if name != OURS else None),
                ]
                for name, rate in result["rates"].items()
            ],
        )
        return [
            *lines,
            "",
            f"A scope inside a scope of the same name: {with_spread(result['reentryNanoseconds'])} ns.",
        ]
