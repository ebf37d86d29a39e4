# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT

import time

from contenders import HIREDIS, OURS, QT, REDIS_PY, REDIS_SEMAPHORE, REDLOCK
from harness import Contender, rotated, spread, table


class StartUpCase:
    """The time from starting a program to its first lock acquired and released."""

    name = "start-up"
    title = "Start-up: a new process, its first lock + unlock"
    STARTS = 3  # in each repetition

    def run(self, options, server, available):
        names = available.available([OURS, QT, HIREDIS, REDIS_PY, REDIS_SEMAPHORE, REDLOCK])
        milliseconds = {name: [] for name in names}
        for repetition in range(options.repetitions * self.STARTS):
            for name in rotated(names, repetition):
                command = available.command(name, "pairs", server.url())
                start = time.monotonic()
                contender = Contender(name, command)
                contender.run(0)
                milliseconds[name].append((time.monotonic() - start) * 1000)
                contender.close()
        return {
            "unit": "ms",
            "milliseconds": {name: spread(values) for name, values in milliseconds.items()},
            "targets": [],
        }

    def show(self, result):
        return table(
            ["", "ms", "lowest", "highest"],
            [
                [name, figures["median"], figures["min"], figures["max"]]
                for name, figures in result["milliseconds"].items()
            ],
        )
