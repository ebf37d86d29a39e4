# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT

import signal
import statistics
import tempfile

from cases.contended import Crowd, measure, processes
from contenders import OURS, REDLOCK, WARM_UP
from harness import ClusterNode, Contender, Group, Target, ratios, rotated, spread, table, with_spread
from sentinels import HOST, Program


class Nodes:
    """Independent servers, for measure()."""

    def __init__(self, ports):
        self._nodes = [ClusterNode(port, None) for port in ports]
        for node in self._nodes:
            node.connect()

    def cpu_seconds(self):
        return sum(float(node.info("cpu")[key]) for node in self._nodes for key in ("used_cpu_user", "used_cpu_sys"))

    def commands(self, inner):
        left_out = {f"cmdstat_{name}" for name in inner} | {"cmdstat_info"}
        return sum(
            int(values.split("calls=")[1].split(",")[0])
            for node in self._nodes
            for name, values in node.info("commandstats").items()
            if name not in left_out
        )


class QuorumCase:
    """A quorum of three servers: pairs, beside one server alone and with one of three silent; and hand-offs."""

    name = "quorum"
    title = "Quorum of three servers"
    LOCKS = 12  # each server is the arbiter of some
    WAITERS = 64
    NOTICED = 1000  # ms after which the contender has found out that a server is silent

    def run(self, options, server, available):
        with tempfile.TemporaryDirectory(prefix="qdistlock-bench-") as folder:
            nodes = [Program(folder, f"node-{index}", ['save ""']) for index in range(3)]
            try:
                first, *others = [f"{HOST}:{node.port}" for node in nodes]
                quorum = f"redlock://{first}?" + "&".join("node=" + other for other in others) + "&persistent=1"
                urls = {"one server": f"redis://{first}", "quorum": quorum}
                pairs = self._pairs(options, urls, available)
                handoffs = self._handoffs(options, quorum, Nodes([node.port for node in nodes]), available)
                silent = self._silent(options, quorum, nodes[1], available)
            finally:
                for node in nodes:
                    node.signal(signal.SIGCONT)
                    node.kill()
        slower = ratios(pairs["quorum"], pairs["one server"])
        late = ratios(silent["one silent"], silent["all up"])
        targets = [
            Target("uncontended pair, to that of one server", slower["median"], at_most=2.5),
            Target("pair with one server silent, to all up", late["median"], at_most=1.2),
            Target(f"W = {self.WAITERS}: hand-offs/s", statistics.median(handoffs[OURS]), at_least=1000),
        ]
        if REDLOCK in handoffs:
            to_peer = ratios(handoffs[OURS], handoffs[REDLOCK])["median"]
            targets.append(Target(f"W = {self.WAITERS}: hand-offs/s to {REDLOCK}", to_peer, at_least=5))
        medians = pairs | silent
        return {
            "microsecondsPerPair": {name: spread(values) | {"all": values} for name, values in medians.items()},
            "handOffsPerSecond": {name: spread(values) | {"all": values} for name, values in handoffs.items()},
            "targets": targets,
        }

    def _contender(self, name, url, available):
        return Contender(name, available.command(OURS, "turns", url, locks=self.LOCKS))

    def _median(self, options, contender):
        return statistics.median(contender.run(options.milliseconds)["microseconds"])

    def _pairs(self, options, urls, available):
        contenders = [self._contender(name, url, available) for name, url in urls.items()]
        medians = {name: [] for name in urls}
        for contender in contenders:
            contender.run(options.warm_up)
        for repetition in range(options.repetitions):
            for contender in rotated(contenders, repetition):
                medians[contender.name].append(self._median(options, contender))
        for contender in contenders:
            contender.close()
        return medians

    def _silent(self, options, url, node, available):
        """A stopped server accepts what is sent to it, and never answers."""
        medians = {"all up": [], "one silent": []}
        for _ in range(options.repetitions):
            contender = self._contender(OURS, url, available)
            contender.run(options.warm_up)
            medians["all up"].append(self._median(options, contender))
            node.signal(signal.SIGSTOP)
            contender.run(self.NOTICED)
            medians["one silent"].append(self._median(options, contender))
            node.signal(signal.SIGCONT)
            contender.close()
        return medians

    def _handoffs(self, options, url, nodes, available):
        groups = []
        for name in available.available([OURS, REDLOCK]):
            count = self.WAITERS if name == OURS else processes(self.WAITERS)
            crowd = Crowd(self.WAITERS, count)
            groups.append(Group(name, crowd, available.command(name, "contended", url, clients=crowd.each)))
        for group in groups:
            group.run(WARM_UP.get(group.name, options.warm_up))
        rates = {group.name: [] for group in groups}
        for repetition in range(options.repetitions):
            for group in rotated(groups, repetition):
                measured = measure(nodes, group, options.milliseconds)
                rates[group.name].append(measured["rate"] if measured else 0.01)
        for group in groups:
            group.close()
        return rates

    def show(self, result):
        rows = [[name, with_spread(figures)] for name, figures in result["microsecondsPerPair"].items()]
        lines = table(["", "lock + unlock, µs, median"], rows)
        rows = [[name, with_spread(figures)] for name, figures in result["handOffsPerSecond"].items()]
        lines += ["", *table([f"{self.WAITERS} clients of one lock", "hand-offs/s"], rows)]
        peer = result["handOffsPerSecond"].get(REDLOCK)
        return lines if peer else lines + ["", f"{REDLOCK} was not available."]


class PlainCase:
    """One lock in turn on a server whose scripts are used, and on the same one without."""

    name = "plain"
    title = "Without scripts"

    def run(self, options, server, available):
        urls = {"with scripts": server.url(), "without scripts": server.url() + "?scripts=off"}
        contenders = [
            Contender(name, available.command(OURS, "turns", url, locks=1)) for name, url in urls.items()
        ]
        medians = {name: [] for name in urls}
        for contender in contenders:
            contender.run(options.warm_up)
        for repetition in range(options.repetitions):
            for contender in rotated(contenders, repetition):
                times = contender.run(options.milliseconds)["microseconds"]
                medians[contender.name].append(statistics.median(times))
        for contender in contenders:
            contender.close()
        slower = ratios(medians["without scripts"], medians["with scripts"])
        return {
            "microsecondsPerPair": {name: spread(values) | {"all": values} for name, values in medians.items()},
            "targets": [Target("pair without scripts, to with scripts", slower["median"], at_most=2.2)],
        }

    def show(self, result):
        rows = [[name, with_spread(figures)] for name, figures in result["microsecondsPerPair"].items()]
        return table(["", "lock + unlock, µs, median"], rows)
