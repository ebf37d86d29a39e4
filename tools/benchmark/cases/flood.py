# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT

from contenders import OURS
from harness import Contender, Target, number, table


class FloodCase:
    """50 000 emissions a second for a lock that somebody else holds, each with a wait of 2 s."""

    name = "flood"
    title = "Flood: 50 000 calls a second for a lock that is held, each waits for 2 s"
    UNLIMITED = 1_000_000
    CROWDS = {
        "maxQueued=10000": (10_000, 1),
        "maxQueued=10000, behind 100 000 that wait for ever": (10_000, 2),
        "no limit": (UNLIMITED, 1),
        "no limit, behind 100 000 that wait for ever": (UNLIMITED, 2),
    }

    def run(self, options, server, available):
        crowds = {}
        targets = []
        for name, (most, clients) in self.CROWDS.items():
            contender = Contender(
                OURS, available.command(OURS, "flood", server.url(), clients=clients, locks=most)
            )
            figures = contender.run(10_000 if not options.quick else 3000)
            contender.close()
            crowds[name] = figures
            targets += [
                Target(f"{name}: latest end after its deadline, ms", figures["latestMs"], at_most=100),
                Target(f"{name}: longest turn of the event loop, ms of CPU", figures["longestTurnMs"], at_most=10),
                Target(f"{name}: warnings", figures["warnings"], at_most=2 if most < self.UNLIMITED else 1),
            ]
        targets.append(
            Target("maxQueued=10000: memory, MiB", crowds["maxQueued=10000"]["mebibytes"], at_most=16)
        )
        return {"crowds": crowds, "targets": targets}

    def show(self, result):
        head = ["", "calls/s", "refused at once", "timed out", "latest end, ms after its deadline"]
        head += ["longest turn, ms of CPU", "memory, MiB", "warnings", "client CPU µs/call"]
        rows = [
            [name, figures["operations"] / figures["seconds"], figures["refused"], figures["ended"]]
            + [number(figures[key]) for key in ("latestMs", "longestTurnMs", "mebibytes", "warnings")]
            + [1e6 * figures["cpuSeconds"] / figures["operations"]]
            for name, figures in result["crowds"].items()
        ]
        return table(head, rows)
