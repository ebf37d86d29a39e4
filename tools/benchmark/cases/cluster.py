# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT

import tempfile

from cases.contended import Crowd, measure, processes
from contenders import OURS
from harness import Cluster, Contender, Group, Target, number, ratios, rotated, spread, table, with_spread

WAITERS = 64
IN_FLIGHT = 256
HELD = 10000
ONE_SERVER = "one server"
MOVING = "three masters, all slots moving"


class ClusterCase:
    """Redis Cluster beside one server: pairs of 256 locks, hand-offs with 64 waiters, 10 000 held locks."""

    name = "cluster"
    title = "Redis Cluster: one master and three, beside one server"

    def run(self, options, server, available):
        with tempfile.TemporaryDirectory(prefix="qdistlock-bench-") as folder:
            clusters = {}
            try:
                clusters["one master"] = Cluster(folder, 1)
                clusters["three masters"] = Cluster(folder, 3)
                servers = {ONE_SERVER: server} | clusters
                pairs = self.pairs(options, servers, available)
                moving = self.moving(options, clusters["three masters"], available)
                hand_offs = self.hand_offs(options, servers, available)
                held = self.held(options, clusters["three masters"], available)
            finally:
                for cluster in clusters.values():
                    cluster.stop()
        pairs[MOVING] = moving
        to_one = ratios(hand_offs["three masters"]["rates"], hand_offs[ONE_SERVER]["rates"])
        return {
            "pairs": {name: figures | {"rates": spread(figures["rates"])} for name, figures in pairs.items()},
            "handOffs": {name: figures | {"rates": spread(figures["rates"])} for name, figures in hand_offs.items()},
            "handOffsToOneServer": to_one,
            "threeMastersToOne": ratios(pairs["three masters"]["rates"], pairs["one master"]["rates"]),
            "held": held,
            "targets": [
                Target("hand-offs/s to those of one server, W = 64", to_one["median"], at_least=0.8),
                Target("commands a hand-off", hand_offs["three masters"]["commands"], at_most=3.1),
                Target("10,000 held locks: client CPU in %", held["cpuPercent"]["median"], at_most=1),
            ],
        }

    def pairs(self, options, servers, available):
        contenders = {
            name: Contender(name, available.command(OURS, "pairs", one.url(), locks=IN_FLIGHT))
            for name, one in servers.items()
        }
        figures = {name: {"rates": [], "serverCpu": [], "clientCpu": []} for name in servers}
        for contender in contenders.values():
            contender.run(options.warm_up)
        for repetition in range(options.repetitions):
            for name in rotated(list(servers), repetition):
                self.measure_pairs(options, contenders[name], servers[name], figures[name])
        for contender in contenders.values():
            contender.close()
        return figures

    def measure_pairs(self, options, contender, server, figures):
        before = server.cpu_seconds()
        result = contender.run(options.milliseconds)
        operations = result["operations"]
        figures["rates"].append(operations / result["seconds"])
        figures["serverCpu"].append((server.cpu_seconds() - before) / operations * 1e6)
        figures["clientCpu"].append(result["cpuSeconds"] / operations * 1e6)

    def moving(self, options, cluster, available):
        """Pairs while each slot moves, with keys at two nodes from the first acquisition on."""
        cluster.move(True)
        contender = Contender(MOVING, available.command(OURS, "pairs", cluster.url(), locks=IN_FLIGHT))
        figures = {"rates": [], "serverCpu": [], "clientCpu": []}
        contender.run(options.warm_up)
        for _ in range(options.repetitions):
            self.measure_pairs(options, contender, cluster, figures)
        contender.close()
        cluster.move(False)
        return figures

    def hand_offs(self, options, servers, available):
        crowd = Crowd(WAITERS, processes(WAITERS))
        groups = {
            name: Group(OURS, crowd, available.command(OURS, "contended", one.url(), clients=crowd.each))
            for name, one in servers.items()
        }
        runs = {name: [] for name in servers}
        for group in groups.values():
            group.run(options.warm_up)
        for repetition in range(options.repetitions):
            for name in rotated(list(servers), repetition):
                measured = measure(servers[name], groups[name], options.milliseconds)
                if measured:
                    runs[name].append(measured)
        for group in groups.values():
            group.close()
        if not all(runs.values()):
            raise SystemExit("bench: not one hand-off")
        return {
            name: {
                "rates": [run["rate"] for run in many],
                "commands": spread([run["commandsOfHandoffs"] for run in many])["median"],
                "overtakings": sum(run["overtakings"] for run in many),
            }
            for name, many in runs.items()
        }

    def held(self, options, cluster, available):
        lease = 1000 * options.lease_seconds
        contender = Contender(OURS, available.command(OURS, "held", cluster.url(), locks=HELD, lease=lease))
        contender.run(0)
        contender.run(lease // 6)
        cpu, server_cpu = [], []
        for _ in range(options.repetitions):
            before = cluster.cpu_seconds()
            result = contender.run(lease // 3)
            server_cpu.append(100 * (cluster.cpu_seconds() - before) / result["seconds"])
            cpu.append(100 * result["cpuSeconds"] / result["seconds"])
        contender.close()
        return {"leaseSeconds": lease // 1000, "cpuPercent": spread(cpu), "serverCpuPercent": spread(server_cpu)}

    def show(self, result):
        lines = table(
            ["256 locks in flight", "pairs/s", "lowest – highest", "client CPU µs/pair", "servers' CPU µs/pair"],
            [
                [
                    name,
                    figures["rates"]["median"],
                    f"{number(figures['rates']['min'])} – {number(figures['rates']['max'])}",
                    spread(figures["clientCpu"])["median"],
                    spread(figures["serverCpu"])["median"],
                ]
                for name, figures in result["pairs"].items()
            ],
        )
        lines += [""] + table(
            ["one lock, 64 waiters", "hand-offs/s", "lowest – highest", "commands each", "overtakings"],
            [
                [
                    name,
                    figures["rates"]["median"],
                    f"{number(figures['rates']['min'])} – {number(figures['rates']['max'])}",
                    f"{figures['commands']:.2f}",
                    str(figures["overtakings"]),
                ]
                for name, figures in result["handOffs"].items()
            ],
        )
        held = result["held"]
        return lines + [
            "",
            f"Three masters to one, pairs/s: {with_spread(result['threeMastersToOne'])}. 10,000 held locks with a lease "
            f"of {held['leaseSeconds']} s: CPU of the client {number(held['cpuPercent']['median'])} %, of the three "
            f"servers together {number(held['serverCpuPercent']['median'])} %.",
        ]
