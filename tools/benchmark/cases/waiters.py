# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT

from contenders import INNER, OURS, REDIS_SEMAPHORE, REDLOCK
from harness import Contender, Target, number, spread, table

LEASE = 30


class WaitersCase:
    """The cost of many waiters for a lock that is never released."""

    name = "waiters"

    def __init__(self, waiters):
        self.waiters = waiters
        self.title = f"{waiters:,} clients waiting for a lock that is held"

    def run(self, options, server, available):
        many = {"clients": self.waiters}
        one = {"locks": self.waiters}
        contenders = [(OURS, "each with its own connections", many), (OURS, "on one registry", one)]
        contenders += [
            (name, "on one connection", one)
            for name in available.available([REDIS_SEMAPHORE, REDLOCK])
        ]
        # One contender at a time, because its waiters keep waiting after its run.
        results = []
        for name, where, numbers in contenders:
            command = available.command(name, "waiters", server.url(), **numbers)
            contender = Contender(name, command)
            contender.run(1000 if name == OURS else 200)
            slices = options.repetitions
            length = options.hold_seconds * 1000 // slices if name == OURS else 500
            commands, cpu = [], []
            for _ in range(slices):
                before = server.commands(INNER[name])
                result = contender.run(length)
                sent = server.commands(INNER[name]) - before
                commands.append(sent / result["seconds"])
                cpu.append(100 * result["cpuSeconds"] / result["seconds"])
            if name == OURS:
                contender.close()
            else:
                contender.process.kill()  # otherwise its waiters would get the lock first
                contender.process.wait()
            seconds = slices * length / 1000
            results.append(
                {
                    "name": name,
                    "where": where,
                    "seconds": seconds,
                    "commandsPerSecond": spread(commands),
                    "cpuPercent": spread(cpu),
                }
            )
        targets = []
        for result in results[:2]:
            targets.append(
                Target(
                    f"commands/s, {result['where']}",
                    result["commandsPerSecond"]["median"],
                    at_most=self.waiters / LEASE + 5,
                )
            )
            cpu = result["cpuPercent"]["median"]
            targets.append(Target(f"client CPU in %, {result['where']}", cpu, at_most=2))
        return {"waiters": self.waiters, "contenders": results, "targets": targets}

    def show(self, result):
        return table(
            ["", "", "watched, s", "commands/s", "highest", "CPU of the waiters, %", "highest"],
            [
                [one["name"], one["where"], one["seconds"]]
                + [one["commandsPerSecond"][key] for key in ("median", "max")]
                + [one["cpuPercent"][key] for key in ("median", "max")]
                for one in result["contenders"]
            ],
        )
