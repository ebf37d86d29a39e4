# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT

import statistics

from contenders import INNER, OURS, REDIS_SEMAPHORE, WARM_UP
from harness import Contender, Target, ratios, rotated, spread, table, with_spread

CLIENTS = 64
PERMITS = 5
EXCLUSIVE = "exclusive"


class SemaphoresCase:
    """Permits of a semaphore: one at a time, and many clients that want one of a few permits again and again."""

    name = "semaphores"
    title = "Semaphores, TCP loopback"

    def run(self, options, server, available):
        url = server.url()
        ours = Contender(OURS, available.command(OURS, "pairs", url, permits=PERMITS))
        alone = [Contender(EXCLUSIVE, available.command(OURS, "pairs", url)), ours]
        crowds = [Contender(OURS, available.command(OURS, "contended", url, clients=CLIENTS, permits=PERMITS))]
        if REDIS_SEMAPHORE in available.available([REDIS_SEMAPHORE]):
            for group, kind, clients in ((alone, "pairs", 1), (crowds, "contended", CLIENTS)):
                command = available.command(REDIS_SEMAPHORE, kind, url, clients=clients, permits=PERMITS)
                group.append(Contender(REDIS_SEMAPHORE, command))
        rates = {contender.name: [] for contender in alone}
        commands = {contender.name: [] for contender in crowds}
        for contender in alone + crowds:
            contender.run(max(options.warm_up, WARM_UP.get(contender.name, 0)))
        for repetition in range(options.repetitions):
            for contender in rotated(alone, repetition):
                result = contender.run(options.milliseconds)
                rates[contender.name].append(result["operations"] / result["seconds"])
            for contender in rotated(crowds, repetition):
                before = server.commands(INNER[contender.name])
                result = contender.run(options.milliseconds)
                commands[contender.name].append(
                    (server.commands(INNER[contender.name]) - before) / result["operations"]
                )
        for contender in alone + crowds:
            contender.close()
        slower = ratios(rates[EXCLUSIVE], rates[OURS])
        return {
            "unit": "lock + unlock pairs/s",
            "rates": {name: spread(values) | {"all": values} for name, values in rates.items()},
            "ratio": slower,
            "commandsPerTurn": {name: spread(values) for name, values in commands.items()},
            "targets": [
                Target("time of a permit's pair to that of an exclusive lock", slower["median"], at_most=1.5),
                Target("commands per turn, many clients", statistics.median(commands[OURS]), at_most=3.05),
            ],
        }

    def show(self, result):
        rates, commands = result["rates"], result["commandsPerTurn"]
        title = f"commands/turn, {CLIENTS} clients and {PERMITS} permits"
        lines = table(
            ["one at a time", "pairs/s", title],
            [
                [name, values["median"], with_spread(commands[name]) if name in commands else "–"]
                for name, values in rates.items()
            ],
        )
        return [
            *lines,
            "",
            f"A permit takes {with_spread(result['ratio'])} times as long as an exclusive lock.",
        ]
