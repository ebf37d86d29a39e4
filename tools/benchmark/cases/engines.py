# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT

import contextlib
import statistics
import tempfile

from cases.contended import Crowd, measure, passing_times, processes
from contenders import BARE_ZOOKEEPER, CURATOR, INNER, KAZOO, OURS, WARM_UP
from ensemble import Ensemble, is_installed
from harness import Cluster, Contender, Group, Target, number, ratios, rotated, spread, table, with_spread
from sentinels import HOST, Link, Program, SentinelSet

REDIS = "one Redis"
SENTINEL = "Sentinel"
CLUSTER = "Cluster"
QUORUM = "quorum (Redlock)"
ENSEMBLE = "ZooKeeper"
ALONE = "ZooKeeper, one server, no disk"
ENGINES = [REDIS, SENTINEL, CLUSTER, QUORUM, ENSEMBLE, ALONE]
BARE_ON_DISK = f"{BARE_ZOOKEEPER}, three servers"


class Redises:
    """Several Redis servers and Sentinels, for measure()."""

    # What servers, replicas and Sentinels send each other.
    OWN = ("info", "ping", "replconf", "publish", "subscribe", "auth")

    def __init__(self, programs):
        self._servers = [Link(program.port) for program in programs if not program.sentinel]
        self._sentinels = [Link(program.port) for program in programs if program.sentinel]
        self._asked = 0

    def _info(self, link, section):
        self._asked += link in self._sentinels
        return dict(line.split(":", 1) for line in link.command("INFO", section).splitlines() if ":" in line)

    def cpu_seconds(self):
        used = [self._info(link, "cpu") for link in self._servers + self._sentinels]
        return sum(float(each[key]) for each in used for key in ("used_cpu_user", "used_cpu_sys"))

    def commands(self, inner):
        left_out = {f"cmdstat_{name}" for name in (*inner, *self.OWN)}
        count = sum(
            int(values.split("calls=")[1].split(",")[0])
            for link in self._servers
            for name, values in self._info(link, "commandstats").items()
            if name not in left_out
        )
        # Sentinels do not count each command. What they send each other is a few a second.
        count += sum(int(self._info(link, "stats")["total_commands_processed"]) for link in self._sentinels)
        return count - self._asked

    def close(self):
        for link in self._servers + self._sentinels:
            link.close()


class EnginesCase:
    """One Redis, Sentinel, Cluster, a quorum and ZooKeeper in one run; and other clients of ZooKeeper."""

    name = "engines"
    title = "One Redis, Sentinel, Cluster, a quorum, ZooKeeper"
    PEERS = [BARE_ZOOKEEPER, KAZOO, CURATOR]
    WAITERS = 64
    # ms; as in HandOffCase, but long enough for the others to be in the queue of an ensemble on disk.
    WORK = 20
    PAUSE = 1
    SHARED_WORK = 5  # ms, of the other library
    HELD = 10000
    LEASE = 30  # s, as long as a session

    def run(self, options, server, available):
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="qdistlock-bench-"))
            servers = self.start(folder, server, stack, available)
            pairs = self.pairs(options, servers, available)
            hand_overs = self.hand_overs(options, servers, available)
            hand_offs = self.hand_offs(options, servers, available)
            shared, held = {}, None
            if ENSEMBLE in servers:
                shared = self.shared(options, servers[ALONE][1], available)
                held = self.held(options, servers[ENSEMBLE][1], available)
        return {
            "pairs": {name: {key: spread(values) for key, values in each.items()} for name, each in pairs.items()},
            "handOverMicroseconds": {name: spread(values) for name, values in hand_overs.items()},
            "handOffs": hand_offs,
            "ratios": self.ratios(pairs),
            "shared": shared,
            "held": held,
            "targets": self.targets(pairs, shared, held),
        }

    @staticmethod
    def ratios(pairs):
        """Of our pairs/s to those of other clients, on the same servers."""
        return {
            name: ratios(pairs[ENSEMBLE if name == BARE_ON_DISK else ALONE]["rate"], each["rate"])
            for name, each in pairs.items()
            if name not in ENGINES
        }

    def start(self, folder, server, stack, available):
        """For each engine its URL, and its servers, which count."""
        sentinels = SentinelSet(folder, down_after=5000)
        stack.callback(sentinels.stop)
        cluster = Cluster(folder, 3)
        stack.callback(cluster.stop)
        nodes = [Program(folder, f"node-{index}", ['save ""']) for index in range(3)]
        for node in nodes:
            stack.callback(node.kill)
        first, *others = [f"{HOST}:{node.port}" for node in nodes]
        quorum = f"redlock://{first}?" + "&".join("node=" + other for other in others) + "&persistent=1"
        servers = {
            REDIS: (server.url(), server),
            SENTINEL: (sentinels.url(), Redises(sentinels.servers + sentinels.sentinels)),
            CLUSTER: (cluster.url(), cluster),
            QUORUM: (quorum, Redises(nodes)),
        }
        for name in (SENTINEL, QUORUM):
            stack.callback(servers[name][1].close)
        if not is_installed():
            available.missing[ENSEMBLE] = "java or zookeeper is not installed"
            return servers
        for name, size in ((ENSEMBLE, 3), (ALONE, 1)):
            ensemble = Ensemble(folder, size, on_disk=size > 1)
            stack.callback(ensemble.stop)
            servers[name] = (ensemble.url(), ensemble)
        return servers

    def contenders(self, servers, available, peers):
        """Name, library, URL and servers: ours on each engine, and other clients of ZooKeeper."""
        found = [(name, OURS, *where) for name, where in servers.items()]
        if ALONE in servers:
            found += [(name, name, *servers[ALONE]) for name in available.available(peers)]
            if BARE_ZOOKEEPER in available.available(peers):
                found.append((BARE_ON_DISK, BARE_ZOOKEEPER, *servers[ENSEMBLE]))
        return found

    def pairs(self, options, servers, available):
        """One lock in turn."""
        contenders = [
            (Contender(name, available.command(library, "pairs", url)), library, one)
            for name, library, url, one in self.contenders(servers, available, self.PEERS)
        ]
        figures = {contender.name: {} for contender, _, _ in contenders}
        for contender, library, _ in contenders:
            contender.run(WARM_UP.get(library, options.warm_up))
        for repetition in range(options.repetitions):
            for contender, library, one in rotated(contenders, repetition):
                writes = one.writes() if isinstance(one, Ensemble) else 0
                commands, cpu = one.commands(INNER.get(library, [])), one.cpu_seconds()
                result = contender.run(options.milliseconds)
                pairs = result["operations"]
                measured = {
                    "rate": pairs / result["seconds"],
                    "microseconds": result["seconds"] / pairs * 1e6,
                    "clientCpu": result["cpuSeconds"] / pairs * 1e6,
                    "serverCpu": (one.cpu_seconds() - cpu) / pairs * 1e6,
                    "requests": (one.commands(INNER.get(library, [])) - commands) / pairs,
                }
                if isinstance(one, Ensemble):
                    measured["writes"] = (one.writes() - writes) / pairs
                for key, value in measured.items():
                    figures[contender.name].setdefault(key, []).append(value)
        for contender, _, _ in contenders:
            contender.close()
        return figures

    def hand_overs(self, options, servers, available):
        """For each repetition the median time in µs from release() to acquired() in another process."""
        groups = [
            (name, library, Group(library, Crowd(2, 2), available.command(
                library, "contended", url, work=self.WORK, pause=self.PAUSE)))
            for name, library, url, _ in self.contenders(servers, available, [KAZOO, CURATOR])
        ]
        for _, library, group in groups:
            group.run(WARM_UP.get(library, options.warm_up))
        medians = {name: [] for name, _, _ in groups}
        for repetition in range(options.repetitions):
            for name, _, group in rotated(groups, repetition):
                times = passing_times(group.run(options.milliseconds))
                if times:
                    medians[name].append(statistics.median(times))
        for _, _, group in groups:
            group.close()
        return {name: values for name, values in medians.items() if values}

    def hand_offs(self, options, servers, available):
        """One lock that many clients want."""
        crowd = Crowd(self.WAITERS, processes(self.WAITERS))
        groups = {
            name: Group(OURS, crowd, available.command(OURS, "contended", url, clients=crowd.each))
            for name, (url, _) in servers.items()
        }
        for group in groups.values():
            group.run(options.warm_up)
        runs = {name: [] for name in servers}
        for repetition in range(options.repetitions):
            for name in rotated(list(servers), repetition):
                measured = measure(servers[name][1], groups[name], options.milliseconds)
                if measured:
                    runs[name].append(measured)
        for group in groups.values():
            group.close()
        return {
            name: {
                "rate": spread([run["rate"] for run in many]),
                "requests": spread([run["commandsOfHandoffs"] for run in many]),
                "overtakings": sum(run["overtakings"] for run in many),
            }
            for name, many in runs.items()
            if many
        }

    def shared(self, options, ensemble, available):
        """One path that our clients and those of another library lock: acquisitions of both, and overlaps."""
        figures = {}
        for peer in available.available([KAZOO, CURATOR]):
            with tempfile.TemporaryDirectory(prefix="qdistlock-bench-") as witness:
                where = {"url": ensemble.url(), "pause": self.PAUSE, "witness": witness}
                contenders = [
                    Contender(name, available.command(name, "resharding", work=work, **where))
                    for name, work in [(OURS, 0), (peer, self.SHARED_WORK)] * 2
                ]
                for contender in contenders:
                    contender.begin(options.repetitions * options.milliseconds)
                results = [contender.result() for contender in contenders]
                for contender in contenders:
                    contender.close()
            figures[peer] = {
                "ours": sum(result["operations"] for result in results[::2]),
                "theirs": sum(result["operations"] for result in results[1::2]),
            } | {key: sum(result[key] for result in results) for key in ("overlaps", "lost", "errors")}
        return figures

    def held(self, options, ensemble, available):
        """Many locks held in one session."""
        lease = 1000 * self.LEASE
        url = ensemble.url(session=self.LEASE)
        contender = Contender(OURS, available.command(OURS, "held", url, locks=self.HELD, lease=lease))
        empty = ensemble.data_bytes()
        memory = contender.run(0)
        data = (ensemble.data_bytes() - empty) / self.HELD
        contender.run(lease)  # until the first renewals are over
        writes, requests, cpu = ensemble.writes(), ensemble.commands(None), ensemble.cpu_seconds()
        result = contender.run(lease * options.repetitions // 2)
        seconds, renewals = result["seconds"], result["renewals"]
        figures = {
            "memory": memory,
            "dataBytes": data,
            "beatSeconds": seconds / renewals,
            "writes": (ensemble.writes() - writes) / renewals,
            "requests": (ensemble.commands(None) - requests) / renewals,
            "serverCpuPercent": 100 * (ensemble.cpu_seconds() - cpu) / seconds,
            "cpuPercent": 100 * result["cpuSeconds"] / seconds,
        }
        contender.close()
        return figures

    def targets(self, pairs, shared, held):
        targets = []
        if BARE_ON_DISK in pairs:
            to_bare = self.ratios(pairs)[BARE_ON_DISK]["median"]
            targets.append(Target(f"ZooKeeper: pairs/s to those of the {BARE_ON_DISK}", to_bare, at_least=0.8))
        for name, figures in shared.items():
            targets.append(Target(f"overlaps with {name} on one path", figures["overlaps"], at_most=0))
        if ENSEMBLE in pairs:
            writes = statistics.median(pairs[ENSEMBLE]["writes"])
            targets.append(Target("ZooKeeper: writes for lock + unlock", writes, at_most=2.01))
            targets.append(Target(f"ZooKeeper, {self.HELD:,} held locks: writes a beat", held["writes"], at_most=1.1))
        return targets

    def show(self, result):
        hand_overs, hand_offs = result["handOverMicroseconds"], result["handOffs"]
        lines = []
        for name, pairs in result["pairs"].items():
            if name not in ENGINES:
                continue
            crowd = hand_offs.get(name)
            lines.append(
                [name, pairs["microseconds"]["median"], pairs["rate"]["median"]]
                + [pairs[key]["median"] for key in ("requests", "clientCpu", "serverCpu")]
                + [hand_overs[name]["median"] if name in hand_overs else None]
                + ([crowd["rate"]["median"], crowd["requests"]["median"]] if crowd else [None, None])
            )
        head = ["", "lock + unlock, µs", "pairs/s", "requests each", "client CPU µs", "servers' CPU µs"]
        head += ["hand-over, µs", f"hand-offs/s, W = {self.WAITERS}", "requests each"]
        text = table(head, lines) + [
            "",
            "Lock + unlock by one client in turn. Requests are those that clients sent to all servers. Hand-over: from "
            f"release() in one process to acquired() in another, which waits; the lock kept for {self.WORK} ms. "
            f"Hand-offs: one lock that {self.WAITERS} clients want all the time.",
            "",
            "All on this machine: one server; a master, two replicas and three Sentinels; a cluster of three masters; "
            "three servers; three servers of ZooKeeper. Redis keeps nothing on disk; ZooKeeper has each write on the "
            "disks of a majority before it answers.",
        ]
        if not result["held"]:
            return text
        peers = [
            [
                f"{OURS}, three servers" if name == ENSEMBLE else OURS if name == ALONE else name,
                with_spread(result["pairs"][name]["rate"]),
                with_spread(result["ratios"].get(name)),
                *(result["pairs"][name][key]["median"] for key in ("requests", "writes", "clientCpu", "serverCpu")),
                hand_overs[name]["median"] if name in hand_overs else None,
            ]
            for name in [ENSEMBLE, BARE_ON_DISK, ALONE, *self.PEERS]
            if name in result["pairs"]
        ]
        head = ["ZooKeeper", "pairs/s", f"{OURS} to it", "requests each", "writes each"]
        head += ["client CPU µs", "servers' CPU µs", "hand-over, µs"]
        held, memory = result["held"], result["held"]["memory"]
        return text + [
            "",
            *table(head, peers),
            "",
            "Of three servers with their disks, or else of one that does not wait for its disk, so that the clients' "
            f"processor time decides. {BARE_ZOOKEEPER[0].upper()}{BARE_ZOOKEEPER[1:]}: libzookeeper_st with poll(); it "
            "creates an ephemeral sequential node, lists the nodes, and deletes it.",
            "",
            "One path, locked by two processes with this library and two with another: "
            + "; ".join(
                f"{number(each['ours'])} times by {OURS}, {number(each['theirs'])} times by {name}, {each['overlaps']} "
                "overlaps"
                for name, each in result["shared"].items()
            )
            + ".",
            "",
            f"{self.HELD:,} locks held in one session of three servers, lease {self.LEASE} s, each renewed every "
            f"{number(held['beatSeconds'])} s: in this time {number(held['writes'])} writes and "
            f"{number(held['requests'])} requests for all of them; CPU of the client {number(held['cpuPercent'])} %, "
            f"of the three servers together {number(held['serverCpuPercent'])} %. "
            f"A held lock takes {number(memory['heldHeapBytes'])} bytes of heap in the client, and "
            f"{number(held['dataBytes'])} bytes of paths and data at each server.",
        ]
