# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT

import statistics

from contenders import INNER, OURS, REDLOCK, WARM_UP
from harness import Contender, Target, ratios, rotated, spread, table, with_spread

LOCKS = 8
ONE_BY_ONE = "one by one"


class SeveralLocksCase:
    """Eight free locks, all acquired and all released."""

    name = "several-locks"
    title = f"{LOCKS} free locks together, TCP loopback"

    def run(self, options, server, available):
        url = server.url()
        contenders = [
            Contender(OURS, available.command(OURS, "together", url, locks=LOCKS)),
            Contender(ONE_BY_ONE, available.command(OURS, "one-by-one", url, locks=LOCKS)),
        ]
        inner = {OURS: INNER[OURS], ONE_BY_ONE: INNER[OURS]}
        if REDLOCK in available.available([REDLOCK]):
            contenders.append(Contender(REDLOCK, available.command(REDLOCK, "together", url, locks=LOCKS)))
            inner[REDLOCK] = INNER[REDLOCK]
        rates = {contender.name: [] for contender in contenders}
        commands = {contender.name: [] for contender in contenders}
        for contender in contenders:
            contender.run(max(options.warm_up, WARM_UP.get(contender.name, 0)))
        for repetition in range(options.repetitions):
            for contender in rotated(contenders, repetition):
                before = server.commands(inner[contender.name])
                result = contender.run(options.milliseconds)
                used = server.commands(inner[contender.name]) - before
                commands[contender.name].append(used / result["operations"])
                rates[contender.name].append(result["operations"] / result["seconds"])
        for contender in contenders:
            contender.close()
        return {
            "unit": "turns/s: all locks acquired and released",
            "rates": {name: spread(values) | {"all": values} for name, values in rates.items()},
            "commandsPerTurn": {name: spread(values) for name, values in commands.items()},
            "ratios": {name: ratios(rates[OURS], values) for name, values in rates.items() if name != OURS},
            "targets": [
                Target("commands to acquire and release all", statistics.median(commands[OURS]), at_most=2.05),
            ],
        }

    def show(self, result):
        return table(
            ["", "turns/s", "commands/turn", "qdistlock to it"],
            [
                [
                    name,
                    values["median"],
                    with_spread(result["commandsPerTurn"][name]),
                    with_spread(result["ratios"].get(name)),
                ]
                for name, values in result["rates"].items()
            ],
        )
