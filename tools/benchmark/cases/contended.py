# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT

import bisect
import math
import statistics
import time

from contenders import BEFORE, HIREDIS, INNER, OURS, QT, UNFAIR, WARM_UP
from harness import Contender, Group, Target, number, ratios, rotated, spread, table, with_spread

PROCESSES = 16
# The counted part of a run, without its beginning and its end.
FROM, TO = 0.15, 0.95
# Commands of a turn without contention: acquire and release.
ALONE = 2
# Peers do not report when a request reached the server; after this many µs it certainly has.
ARRIVED_AFTER = 5000


class Crowd:
    """A number of clients, and the processes in which they run."""

    def __init__(self, waiters, processes):
        self.waiters = waiters
        self.processes = processes
        self.each = waiters // processes


def processes(waiters):
    """One process for each client up to PROCESSES: hundreds of Node.js processes would measure the scheduler."""
    return waiters if waiters <= PROCESSES else PROCESSES // 2


def now():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) / 1000


def overtakings(turns):
    """The number of turns granted before that of a client whose request certainly came first.

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
    """The mean number of other requests in progress during a request."""
    edges = sorted([(asked, 1) for asked, _ in turns] + [(queued, -1) for _, queued in turns])
    open_now = pairs = 0
    for _, step in edges:
        if step == 1:
            pairs += open_now
        open_now += step
    return 2 * pairs / len(turns)


def measure(server, group, milliseconds):
    """One run of a crowd, and its figures.

    A turn is one lock + unlock. It is a hand-off when somebody else had the turn before: who takes the
    lock again while the others sleep has passed it to nobody.
    """
    crowd = group.crowd
    begin = now()
    group.begin(milliseconds)
    marks = []
    for part in (FROM, TO):
        time.sleep(max(0, begin / 1e6 + part * milliseconds / 1000 - time.monotonic()))
        before = now()
        commands = server.commands(INNER[group.name])
        marks.append(((before + now()) / 2, commands, server.cpu_seconds()))
    results = group.results()

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
    """The figures of the runs of one contender with one crowd."""
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
    """One lock that W clients acquire all the time, each on separate connections or all in one process."""

    def __init__(self, name, title, waiters, peers, in_process):
        self.name, self.title, self.waiters, self.peers, self.in_process = name, title, waiters, peers, in_process

    def crowd(self, name, waiters):
        return Crowd(waiters, 1 if self.in_process else processes(waiters))

    def run(self, options, server, available):
        names = available.available([OURS, *self.peers])
        figures = {name: {} for name in names}
        for waiters in self.waiters:
            groups = []
            for name in names:
                crowd = self.crowd(name, waiters)
                if crowd:
                    # Only as many clients as the crowd has, because idle connections also cost the server time.
                    where = {"locks": crowd.each} if self.in_process else {"clients": crowd.each}
                    groups.append(Group(name, crowd, available.command(name, "contended", server.url(), **where)))
            for group in groups:
                group.run(WARM_UP.get(group.name, options.warm_up))
            runs = {group.name: [] for group in groups}
            for repetition in range(options.repetitions):
                for group in rotated(groups, repetition):
                    measured = measure(server, group, options.milliseconds)
                    if measured:
                        runs[group.name].append(measured)
            for group in groups:
                group.close()
            for name, many in runs.items():
                figures[name][str(waiters)] = shown(many) if many else None
        if not all(figures[OURS].values()):
            raise SystemExit("bench: not one hand-off")
        where = {waiters: self.crowd(OURS, waiters) for waiters in self.waiters}
        return {
            "unit": "hand-offs/s",
            "where": {
                str(waiters): {"processes": crowd.processes, "clientsInEach": crowd.each}
                for waiters, crowd in where.items()
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
            commands = own["commandsOfHandoffs"]["median"]
            targets.append(Target(f"W = {waiters}: commands a hand-off", commands, at_most=2.1))
            # Counted in turns, not in time, so that pauses of the machine do not matter.
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
        return targets + to_best_peer(figures, at_least=3.5)

    def show(self, result):
        lines = rows(result) + [
            "",
            "A turn is one lock + unlock, a hand-off a turn that somebody else had before; commands are for "
            "each hand-off, CPU for each turn. The target on commands leaves out the two of each turn that "
            "was no hand-off: nobody waited then. A round is the average time of W turns; with a fair lock, a "
            "client waits about one round. Overtakings are turns taken before somebody who was surely there first.",
        ]
        if not self.in_process:
            shared = [
                f"W = {waiters} in {where['processes']} processes of {where['clientsInEach']} clients"
                for waiters, where in result["where"].items()
                if where["clientsInEach"] > 1
            ]
            lines += ["", "; ".join(["One process for each client", *shared]) + "."]
        return lines + to_before(result["contenders"])


def to_best_peer(figures, at_least):
    """The target on hand-offs/s with 64 clients."""
    peers = [
        figures[name]["64"]["rate"]["median"]
        for name in figures
        if name not in (OURS, BEFORE, UNFAIR) and figures[name]["64"]
    ]
    if not peers:
        return []
    ratio = figures[OURS]["64"]["rate"]["median"] / max(peers)
    return [Target("W = 64: hand-offs/s to the best peer's", ratio, at_least=at_least)]


def to_before(figures):
    """Lines: the hand-offs/s of this version divided by those of the one that --before names."""
    if BEFORE not in figures:
        return []
    found = [
        (waiters, ratios(own["rate"]["all"], former["rate"]["all"]))
        for (waiters, own), former in zip(figures[OURS].items(), figures[BEFORE].values())
        if own and former
    ]
    words = [f"{with_spread(ratio)} with W = {waiters}" for waiters, ratio in found]
    return ["", f"Hand-offs/s to those of {BEFORE}, within each repetition: {', '.join(words)}."]


class HandOffCase(ContendedCase):
    """W processes that all acquire one lock, and the time that it takes to pass from one process to another.

    The peers take part with 64 clients, in the few processes in which they are faster.
    """

    # ms; the lock is passed on when the other process has long been waiting and all are asleep, and meanwhile nobody
    # else does anything: the process that released it asks for it again later.
    WORK = 2
    PAUSE = 1

    def __init__(self, waiters, peers):
        super().__init__("hand-off", "Hand-off: one lock, W processes wait for it", waiters, peers, in_process=False)

    def crowd(self, name, waiters):
        if name in (OURS, BEFORE):
            return Crowd(waiters, waiters)
        return super().crowd(name, waiters) if waiters == 64 else None

    def run(self, options, server, available):
        result = super().run(options, server, available)
        times = self.times(options, server, available)
        result["microseconds"] = {name: spread(medians) | {"all": medians} for name, medians in times.items()}
        to_bare = ratios(times[OURS], times[QT])["median"]
        result["targets"].append(Target(f"release() to acquired() to {QT}", to_bare, at_most=1.3))
        return result

    def times(self, options, server, available):
        """For each repetition the median time in µs from release() to acquired(), and from PUBLISH to the message."""
        command = {"url": server.url(), "work": self.WORK}
        pairs = [
            Group(name, Crowd(2, 2), available.command(name, "contended", pause=self.PAUSE, **command))
            for name in available.available([OURS])
        ]
        pairs += [
            Couple(name, *(available.command(name, kind, **command) for kind in ("send", "receive")))
            for name in (QT, HIREDIS)
        ]
        for pair in pairs:
            pair.run(options.warm_up)
        medians = {pair.name: [] for pair in pairs}
        for repetition in range(options.repetitions):
            for pair in rotated(pairs, repetition):
                results = pair.run(options.milliseconds)
                times = results["times"] if isinstance(pair, Couple) else passing_times(results)
                if times:
                    medians[pair.name].append(statistics.median(times))
        for pair in pairs:
            pair.close()
        return {name: values for name, values in medians.items() if values}

    def targets(self, figures):
        targets = []
        for waiters, own in figures[OURS].items():
            commands = own["commandsOfHandoffs"]["median"]
            targets.append(Target(f"W = {waiters}: commands a hand-off", commands, at_most=2.1))
            targets.append(Target(f"W = {waiters}: overtakings", own["overtakings"], at_most=0))
        return targets + to_best_peer(figures, at_least=5)

    def show(self, result):
        times = result["microseconds"]
        bare = [QT, HIREDIS]
        lines = [
            [name, figures["median"], f"{number(figures['min'])} – {number(figures['max'])}"]
            + [with_spread(ratios(figures["all"], times[other]["all"]) if name not in bare else None) for other in bare]
            for name, figures in times.items()
        ]
        return super().show(result) + [
            "",
            "Commands are those that clients sent, counted by the server from 15 to 95 % of each run. The peers' clients "
            f"share {processes(64)} processes.",
            "",
            *table(["", "µs", "lowest – highest"] + [f"to {name}" for name in bare], lines),
            "",
            f"From release() in one process to acquired() in another that waits, the lock kept for {self.WORK} ms, the next "
            f"acquire {self.PAUSE} ms after the release; and from PUBLISH to the message, sent every {self.WORK} ms. Medians "
            "of each run's medians.",
        ]


class Couple:
    """A process that sends messages, and one that receives them."""

    def __init__(self, name, send, receive):
        self.name = name
        self.receiver = Contender(name, receive)
        self.sender = Contender(name, send)

    def run(self, milliseconds):
        self.receiver.begin(milliseconds)
        self.sender.run(milliseconds)
        return self.receiver.result()

    def close(self):
        self.sender.close()
        self.receiver.close()


def passing_times(results):
    """In µs, from release() to acquired() in another process that was in the queue by then."""
    turns = []
    for process, result in enumerate(results):
        released = result.get("released") or [math.inf] * len(result["acquired"])  # older versions do not report it
        queued = result.get("queued") or [asked + ARRIVED_AFTER for asked in result["asked"]]
        order = result.get("fences") or result["acquired"]
        turns += zip(order, released, queued, result["acquired"], [process] * len(released))
    turns.sort()
    return [
        after[3] - turn[1] for turn, after in zip(turns, turns[1:]) if after[4] != turn[4] and after[2] <= turn[1] < math.inf
    ]


def longest_stretch(times, milliseconds):
    """How much longer than average the slowest stretch was, of stretches that take `milliseconds` on average."""
    mean = (times[-1] - times[0]) / (len(times) - 1)
    passes = max(1, round(milliseconds * 1000 / mean))
    return max(to - since for since, to in zip(times, times[passes:])) / (passes * mean)


class OrderCase:
    """A longer run of the fair queue: first come, first served. One process for each client.

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
                self.crowd,
                available.command(OURS, "contended", server.url(), clients=self.crowd.each, work=work),
            )
            for work in (self.WORK, 0)
        }
        bare = Contender(HIREDIS, available.command(HIREDIS, "times", server.url()))
        for group in groups.values():
            group.run(options.warm_up)
        bare.run(options.warm_up)
        milliseconds = options.order_seconds * 1000
        runs = {work: [] for work in groups}
        for _ in range(options.repetitions):
            for work, group in groups.items():
                runs[work].append(measure(server, group, milliseconds))
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
            "waits for no other client. A round is the average time of W turns; the last column shows how many times "
            "longer than average that loop took for the slowest stretch of the same length. Undecided is "
            f"only the order among requests in progress at the same moment, {number(doubt)} others on average.",
        ]
