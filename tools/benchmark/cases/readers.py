# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT

import statistics

from contenders import INNER, OURS
from harness import Contender, Target, ratios, rotated, spread, table, with_spread

CLIENTS = 64


class ReadersCase:
    """Readers beside writers: one lock at a time, and 63 readers and a writer that all want one lock again and again."""

    name = "readers"
    title = "Readers and writers, Unix socket"

    def run(self, options, server, available):
        url = server.url("unix")
        writer, reader = (Contender(kind, available.command(OURS, kind, url)) for kind in ("pairs", "readers"))
        rates = {writer.name: [], reader.name: []}
        server_cpu = {writer.name: [], reader.name: []}
        for contender in (writer, reader):
            contender.run(options.warm_up)
        for repetition in range(options.repetitions):
            for contender in rotated([writer, reader], repetition):
                before = server.cpu_seconds()
                result = contender.run(options.milliseconds)
                used = server.cpu_seconds() - before
                rates[contender.name].append(result["operations"] / result["seconds"])
                server_cpu[contender.name].append(used / result["operations"] * 1e6)
        for contender in (writer, reader):
            contender.close()
        mixed = Contender("readwrite", available.command(OURS, "readwrite", url, clients=CLIENTS))
        mixed.run(options.warm_up)
        turns, overtaken, rounds, commands = 0, 0, [], []
        for _ in range(options.repetitions):
            before = server.commands(INNER[OURS])
            result = mixed.run(options.milliseconds)
            commands.append((server.commands(INNER[OURS]) - before) / result["operations"])
            seen = waits_of_the_writer(result)
            turns += result["operations"]
            overtaken += seen["overtaken"]
            rounds.append(seen["rounds"])
        mixed.close()
        slower = ratios(rates["pairs"], rates["readers"])
        return {
            "unit": "lock + unlock pairs/s",
            "rates": {name: spread(values) | {"all": values} for name, values in rates.items()},
            "serverCpuMicrosecondsPerPair": {name: spread(values) for name, values in server_cpu.items()},
            "ratio": slower,
            "mixedTurns": turns,
            "writerOvertakenByReaders": overtaken,
            "writerWaitsRounds": max(rounds),
            "mixedCommandsPerTurn": spread(commands),
            "targets": [
                Target("time of a reader's pair to a writer's", slower["median"], at_most=1.5),
                Target("readers that overtake the waiting writer", overtaken, at_most=0),
                Target("rounds of all readers that the writer waits", max(rounds), at_most=2),
                Target("commands per turn, readers and writer", statistics.median(commands), at_most=3.05),
            ],
        }

    def show(self, result):
        lines = table(
            ["one lock, not contended", "pairs/s", "server CPU µs/pair", "time to that of a writer"],
            [
                [
                    name,
                    result["rates"][kind]["median"],
                    result["serverCpuMicrosecondsPerPair"][kind]["median"],
                    with_spread(result["ratio"] if kind == "readers" else None),
                ]
                for kind, name in (("pairs", "writer"), ("readers", "reader"))
            ],
        )
        return [
            *lines,
            "",
            f"{CLIENTS - 1} readers and a writer, {result['mixedTurns']:,} turns: the writer was overtaken "
            f"{result['writerOvertakenByReaders']} times, and waited for {result['writerWaitsRounds']:.2f} rounds of all "
            f"readers at most; {with_spread(result['mixedCommandsPerTurn'])} commands per turn.",
        ]


def waits_of_the_writer(result):
    """How many readers that came after the writer were served before it, and how many readers' turns it waited."""
    turns = list(zip(*(result[key] for key in ("clients", "asked", "queued", "acquired", "fences"))))
    readers = [turn for turn in turns if turn[0] != CLIENTS]
    overtaken, longest = 0, 0
    for client, asked, queued, acquired, fence in turns:
        if client != CLIENTS:
            continue
        waited = [turn for turn in readers if asked < turn[3] <= acquired]
        longest = max(longest, len(waited))
        # A reader that asked when the writer had its place, and whose token is older all the same.
        overtaken += sum(queued < turn[1] and turn[4] < fence for turn in waited)
    return {"overtaken": overtaken, "rounds": longest / (CLIENTS - 1)}
