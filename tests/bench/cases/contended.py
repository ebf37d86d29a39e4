# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT

import bisect
import math
import time

from contenders import HIREDIS, INNER, OURS, REDIS_PY, REDIS_SEMAPHORE, REDLOCK, UNFAIR, WARM_UP
from harness import Contender, Group, Target, number, rotated, spread, table, with_spread

PROCESSES = 16
# What is counted, as a part of the run: neither the crowd's arrival nor its departure.
FROM, TO = 0.15, 0.95
# Commands of a turn that nobody waited for: acquire and release.
ALONE = 2
# Peers do not tell when their request reached the server; by then it surely has, in µs.
ARRIVED_AFTER = 5000


class Crowd:
    """So many clients, and where they live."""

    def __init__(self, waiters, processes):
        self.waiters = waiters
        self.processes = processes
        self.each = waiters // processes


def processes(waiters):
    """A process for each, or for eight: hundreds of Node.js processes would measure the scheduler."""
    return waiters if waiters <= PROCESSES else PROCESSES // 2


def now():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) / 1000


def overtakings(turns):
    """Turns that came before that of somebody who was surely there first.

    A request reached the server between `asked` and `queued`. Who was queued before another even asked
    was there first, whatever the clocks of the clients did in between: no false alarm, and blind only to
    the order of requests that were under way at the same moment. Turns are in the order of service.
    """
    count = 0
    earliest = math.inf
    for asked, queued in reversed(turns):
        if asked > earliest:
            count += 1
        earliest = min(earliest, queued)
    return count


def doubtful(turns):
    """How many other requests were under way at the same moment as one request: the mean."""
    edges = sorted([(asked, 1) for asked, _ in turns] + [(queued, -1) for _, queued in turns])
    open_now = pairs = 0
    for _, step in edges:
        if step == 1:
            pairs += open_now
        open_now += step
    return 2 * pairs / len(turns)


def measure(server, group, crowd, milliseconds):
    """One run of a crowd, and what it shows.

    A turn is one lock + unlock. It is a hand-off when somebody else had the turn before: who takes the
    lock again while the others sleep has passed it to nobody.
    """
    begin = now()
    group.begin(milliseconds, crowd.processes, crowd.each)
    marks = []
    for part in (FROM, TO):
        time.sleep(max(0, begin / 1e6 + part * milliseconds / 1000 - time.monotonic()))
        before = now()
        commands = server.commands(INNER[group.name])
        marks.append(((before + now()) / 2, commands, server.cpu_seconds()))
    results = group.results(crowd.processes)

    (start, commands_before, cpu_before), (end, commands_after, cpu_after) = marks
    turns = []
    for process, result in enumerate(results):
        owners = [(process, client) for client in result["clients"]]
        queued = result.get("queued") or [asked + ARRIVED_AFTER for asked in result["asked"]]
        order = result.get("fences") or result["acquired"]
        turns += zip(order, result["acquired"], result["asked"], queued, owners)
    turns.sort()
    if "fences" in results[0] and any(a[0] == b[0] for a, b in zip(turns, turns[1:])):
        raise SystemExit("bench: two acquisitions with one fencing token")
    counted = handoffs = 0
    for turn, previous in zip(turns[1:], turns):
        if start <= turn[1] < end:
            counted += 1
            handoffs += turn[4] != previous[4] or crowd.waiters == 1
    if handoffs == 0:
        return None
    waits = [
        (turn[2], min(turn[1], end)) for turn in turns if turn[1] >= start and turn[2] < end
    ]
    longest = max(to - since for since, to in waits)
    served = sorted(turn[1] for turn in turns)
    most_turns = max(bisect.bisect_left(served, to) - bisect.bisect(served, since) for since, to in waits)
    cycle = (end - start) / counted
    places = [(turn[2], turn[3]) for turn in turns]
    return {
        "rate": handoffs / (end - start) * 1e6,
        "turnRate": counted / (end - start) * 1e6,
        "commands": (commands_after - commands_before) / handoffs,
        "commandsOfHandoffs": (commands_after - commands_before - ALONE * (counted - handoffs))
        / handoffs,
        "longestWaitMs": longest / 1000,
        "longestWaitInRounds": longest / (crowd.waiters * cycle),
        "longestWaitInTurns": most_turns,
        "roundMs": crowd.waiters * cycle / 1000,
        "overtakings": overtakings(places),
        "turns": len(turns),
        "doubtful": doubtful(places) if "fences" in results[0] else None,
        "clientCpu": sum(result["cpuSeconds"] for result in results) / len(turns) * 1e6,
        "serverCpu": (cpu_after - cpu_before) / counted * 1e6,
    }


def shown(runs):
    """Runs of one contender with one crowd → figures."""
    figures = {key: [run[key] for run in runs] for key in runs[0]}
    result = {key: spread(values) for key, values in figures.items() if None not in values}
    result["rate"]["all"] = figures["rate"]
    for key in ("overtakings", "turns"):
        result[key] = sum(figures[key])
    return result


def rows(result):
    head = ["", "W", "hand-offs/s", "lowest – highest", "commands each", "turns/s"]
    head += ["longest wait, ms", "in rounds of W", "overtakings", "client µs", "server µs"]
    lines = []
    for name, crowds in result["contenders"].items():
        for waiters, figures in crowds.items():
            if not figures:
                lines.append([name, waiters] + ["–"] * 9)
                continue
            rate = figures["rate"]
            share = figures["overtakings"] / figures["turns"]
            lines.append(
                [name, waiters, rate["median"], f"{number(rate['min'])} – {number(rate['max'])}"]
                + [f"{figures['commands']['median']:.2f}", figures["turnRate"]["median"]]
                + [figures["longestWaitMs"]["median"]]
                + [figures["longestWaitInRounds"]["median"]]
                + ["0" if share == 0 else f"{100 * share:.2g} %"]
                + [figures[key]["median"] for key in ("clientCpu", "serverCpu")]
            )
    return table(head, lines)


class ContendedCase:
    """One lock that W clients want all the time, each on its own connections or all in one process."""

    def __init__(self, name, title, crowds, peers, in_process):
        self.name, self.title, self.peers, self.in_process = name, title, peers, in_process
        self.crowds = [Crowd(waiters, 1 if in_process else processes(waiters)) for waiters in crowds]

    def run(self, options, server, available):
        names = available.available([OURS, *self.peers])
        runs = {name: {crowd.waiters: [] for crowd in self.crowds} for name in names}
        for crowd in self.crowds:
            # No more clients than the crowd has: those that only stay connected take some of the server's time.
            where = {"locks": crowd.each} if self.in_process else {"clients": crowd.each}
            groups = [
                Group(name, available.command(name, "contended", server.url(), **where), crowd.processes)
                for name in names
            ]
            for group in groups:
                group.begin(WARM_UP.get(group.name, options.warm_up), crowd.processes, crowd.each)
                group.results(crowd.processes)
            for repetition in range(options.repetitions):
                for group in rotated(groups, repetition):
                    figures = measure(server, group, crowd, options.milliseconds)
                    if figures:
                        runs[group.name][crowd.waiters].append(figures)
            for group in groups:
                group.close()
        figures = {
            name: {str(waiters): shown(many) if many else None for waiters, many in crowds.items()}
            for name, crowds in runs.items()
        }
        return {
            "unit": "hand-offs/s",
            "where": {
                str(crowd.waiters): {"processes": crowd.processes, "clientsInEach": crowd.each}
                for crowd in self.crowds
            },
            "contenders": figures,
            "targets": self.targets(figures),
        }

    def targets(self, figures):
        ours = figures[OURS]
        targets = []
        for waiters, own in ours.items():
            if int(waiters) == 1:
                continue
            if not own:
                raise SystemExit(f"bench: not one hand-off with {waiters} clients")
            commands = own["commandsOfHandoffs"]["median"]
            targets.append(Target(f"W = {waiters}: commands a hand-off", commands, at_most=3.1))
            # Counted in turns and not in time, so that pauses of the machine do not count.
            turns_waited = own["longestWaitInTurns"]["median"]
            targets.append(
                Target(f"W = {waiters}: longest wait in turns of others", turns_waited, at_most=int(waiters) + 8)
            )
            targets.append(Target(f"W = {waiters}: overtakings", own["overtakings"], at_most=0))
        if self.in_process:
            return targets
        for waiters in ("64", "256"):
            ratio = ours[waiters]["rate"]["median"] / ours["2"]["rate"]["median"]
            targets.append(Target(f"hand-offs/s at W = {waiters} to W = 2", ratio, at_least=0.75))
        peers = [
            figures[name]["64"]["rate"]
            for name in figures
            if name not in (OURS, UNFAIR) and figures[name]["64"]
        ]
        if peers:
            best = max(peers, key=lambda rate: rate["median"])
            ratio = ours["64"]["rate"]["median"] / best["median"]
            targets.append(Target("W = 64: hand-offs/s to the best peer's", ratio, at_least=3.5))
        return targets

    def show(self, result):
        lines = rows(result) + [
            "",
            "A turn is one lock + unlock, a hand-off a turn that somebody else had before; commands are for "
            "each hand-off, CPU for each turn. The target on commands leaves out the two of each turn that "
            "was no hand-off: nobody waited then. A round is as long as W turns on average: with a fair lock a "
            "wait. Overtakings are turns taken before somebody who was surely there first.",
        ]
        if not self.in_process:
            shared = [
                f"W = {waiters} in {where['processes']} processes of {where['clientsInEach']} clients"
                for waiters, where in result["where"].items()
                if where["clientsInEach"] > 1
            ]
            lines += ["", "One process for each client; " + ", ".join(shared) + "."]
        return lines


def longest_stretch(times, milliseconds):
    """The slowest stretch of loop passes that takes `milliseconds` on average: how many times as long it was."""
    mean = (times[-1] - times[0]) / (len(times) - 1)
    passes = max(1, round(milliseconds * 1000 / mean))
    return max(to - since for since, to in zip(times, times[passes:])) / (passes * mean)


class OrderCase:
    """The fair queue for longer: who comes first is served first. One process for each client.

    With some work under the lock, and with none. The latter does nothing but wake up processes, so that its
    longest wait shows how the machine stumbles. How much it does is shown by a bare loop, which waits for
    nobody and runs in between.
    """

    name = "order"
    WORK = 1  # ms

    def __init__(self, waiters):
        self.crowd = Crowd(waiters, processes=waiters)
        self.title = f"Order of service, {waiters} clients in as many processes"

    def run(self, options, server, available):
        groups = {
            work: Group(
                OURS,
                available.command(OURS, "contended", server.url(), clients=self.crowd.each, work=work),
                self.crowd.processes,
            )
            for work in (self.WORK, 0)
        }
        bare = Contender(HIREDIS, available.command(HIREDIS, "times", server.url()))
        for group in groups.values():
            group.begin(options.warm_up, self.crowd.processes, self.crowd.each)
            group.results(self.crowd.processes)
        bare.run(options.warm_up)
        milliseconds = options.order_seconds * 1000
        runs = {work: [] for work in groups}
        for _ in range(options.repetitions):
            for work, group in groups.items():
                runs[work].append(measure(server, group, self.crowd, milliseconds))
            times = bare.run(milliseconds)["times"]
            for many in runs.values():
                many[-1]["bareLoop"] = longest_stretch(times, many[-1]["roundMs"])
        for group in groups.values():
            group.close()
        bare.close()
        figures = {work: shown(many) for work, many in runs.items()}
        targets = []
        for work, found in figures.items():
            kept = f"lock kept for {work} ms"
            turns_waited = found["longestWaitInTurns"]["median"]
            targets.append(Target(f"{kept}: overtakings", found["overtakings"], at_most=0))
            targets.append(
                Target(f"{kept}: longest wait in turns of others", turns_waited, at_most=self.crowd.waiters + 8)
            )
        return {
            "seconds": options.order_seconds,
            "runs": runs,
            "figures": figures,
            "targets": targets,
        }

    def show(self, result):
        head = ["lock kept for, ms", "run", "turns", "overtakings", "longest wait, ms", "in turns of others"]
        head += ["in rounds of W", f"{HIREDIS}, as long a stretch"]
        keys = ["turns", "overtakings", "longestWaitMs", "longestWaitInTurns", "longestWaitInRounds", "bareLoop"]
        lines = []
        for work, runs in result["runs"].items():
            figures = result["figures"][work]
            lines += [[str(work), str(i)] + [run[key] for key in keys] for i, run in enumerate(runs, 1)]
            lines.append([str(work), "median", "", ""] + [figures[key]["median"] for key in keys[2:]])
        doubt = max(figures["doubtful"]["median"] for figures in result["figures"].values())
        return table(head, lines) + [
            "",
            f"Runs of {result['seconds']} s; after each pair of them as long a run of one {HIREDIS} loop, which "
            "waits for nobody. A round is as long as W turns on average; the last column tells how many times "
            "as long as on average that loop needed for the slowest stretch of the same length. Undecided is "
            f"only the order among requests under way at the same moment, {number(doubt)} others on average.",
        ]
