# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT

import statistics

from contenders import OURS
from harness import Contender, Target, number


class LostCase:
    """The time from the deletion of a lock's key to lost(), which the next renewal causes."""

    name = "lost"
    title = "Time from DEL to lost()"
    LEASE = 3000
    LOCKS = 200

    def run(self, options, server, available):
        command = available.command(
            OURS, "lost", server.url(), locks=self.LOCKS, lease=self.LEASE
        )
        contender = Contender(OURS, command)
        times = []
        for _ in range(options.repetitions):
            times += contender.run(2 * self.LEASE // 3)["milliseconds"]
        contender.close()
        times.sort()
        twentieths = statistics.quantiles(times, n=20)
        beat = self.LEASE / 3
        return {
            "leaseMs": self.LEASE,
            "losses": len(times),
            "median": statistics.median(times),
            "percentile5": twentieths[0],
            "percentile95": twentieths[-1],
            "max": times[-1],
            "targets": [Target("longest, in renewal intervals", times[-1] / beat, at_most=1.1)],
        }

    def show(self, result):
        return [
            f"Lease {result['leaseMs'] / 1000:g} s, renewed every {result['leaseMs'] / 3000:g} s, "
            f"{result['losses']} locks, each deleted at a random moment: median "
            f"{number(result['median'])} ms, 5 % within {number(result['percentile5'])} ms, "
            f"95 % within {number(result['percentile95'])} ms, all within {number(result['max'])} ms."
        ]
