# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT

import os
import statistics
import tempfile
import time

from cases.contended import Crowd
from contenders import OURS, REDIS_PY, REDLOCK, WARM_UP
from harness import Cluster, Contender, Group, Target, rotated, table
from sentinels import Link

LOCKS = 64  # in as many slots
CLIENTS = 8
LEASE = 3000  # ms, of our locks; the peers, which do not renew, have 30 s
WORK = 50  # ms; each eighth lock is held a hundred times as long
PAUSE = 50
IN_TRANSIT = 0.025  # s before the first key of a slot is moved, and again before the others are


class Mover:
    """Moves the slots of the locks, each to the next master and on, and their keys."""

    def __init__(self, cluster):
        self.moves = self.busy_keys = 0
        self._nodes = cluster.nodes
        self._links = [Link(node.port, 10) for node in cluster.nodes]
        # All contenders name their locks with these hash tags.
        self.slots = [self._links[0].command("CLUSTER", "KEYSLOT", f"{{{index}}}") for index in range(LOCKS)]
        self._owners = {slot: slot * len(cluster.nodes) // Cluster.SLOTS for slot in self.slots}

    def _ends(self, slot):
        source = self._owners[slot]
        return source, (source + 1) % len(self._nodes)

    def _set(self, index, slot, *words):
        reply = self._links[index].command("CLUSTER", "SETSLOT", slot, *words)
        if reply != "OK":
            raise SystemExit(f"bench: SETSLOT {slot} {words[0]}: {reply}")

    def begin(self, slot):
        source, target = self._ends(slot)
        self._set(target, slot, "IMPORTING", self._nodes[source].id())
        self._set(source, slot, "MIGRATING", self._nodes[target].id())

    def move_keys(self, slot, count):
        """Moves at most this many keys, and returns whether there were any."""
        source, target = self._ends(slot)
        keys = self._links[source].command("CLUSTER", "GETKEYSINSLOT", slot, count)
        if not keys:
            return False
        command = ["MIGRATE", "127.0.0.1", self._nodes[target].port, "", 0, 5000]
        reply = self._links[source].command(*command, "KEYS", *keys)
        if "BUSYKEY" in reply:
            self.busy_keys += 1
            reply = self._links[source].command(*command, "REPLACE", "KEYS", *keys)
        if reply not in ("OK", "NOKEY"):
            raise SystemExit(f"bench: MIGRATE: {reply}")
        return True

    def end(self, slot):
        while self.move_keys(slot, 100):
            pass
        source, target = self._ends(slot)
        for index in (target, source):
            self._set(index, slot, "NODE", self._nodes[target].id())
        self._owners[slot] = target
        self.moves += 1

    def move_until(self, end):
        """One slot after the other."""
        while True:
            for slot in self.slots:
                if time.monotonic() >= end:
                    return
                self.begin(slot)
                time.sleep(IN_TRANSIT)
                self.move_keys(slot, 1)
                time.sleep(IN_TRANSIT)
                self.end(slot)

    def close(self):
        for link in self._links:
            link.close()


class ReshardingCase:
    """Locks whose slots move: how long a pair takes in the meantime, and what 8 clients notice of one minute of it."""

    name = "resharding"
    title = "Redis Cluster: locks whose slots move"

    def run(self, options, server, available):
        names = available.available([OURS, REDIS_PY, REDLOCK])
        with tempfile.TemporaryDirectory(prefix="qdistlock-bench-") as folder:
            cluster = Cluster(folder, 3)
            try:
                turns = self._turns(options, cluster, available, names)
            finally:
                cluster.stop()
        resharding = {}
        for name in names:
            # A slot that has moved leaves nothing behind for the next contender.
            with tempfile.TemporaryDirectory(prefix="qdistlock-bench-") as folder:
                cluster = Cluster(folder, 3)
                try:
                    resharding[name] = self._resharding(options, cluster, available, name, folder)
                finally:
                    cluster.stop()
        ours = resharding[OURS]
        return {
            "turns": turns,
            "seconds": options.reshard_seconds,
            "resharding": resharding,
            "targets": [
                Target("lock + unlock while the slots move, 99 %, ms", turns[OURS]["moving"]["p99"], at_most=10),
                Target("errors while the slots move", turns[OURS]["moving"]["errors"], at_most=0),
                Target("resharding: overlaps", ours["overlaps"], at_most=0),
                Target("resharding: holds lost", ours["lost"], at_most=0),
                Target("resharding: BUSYKEY errors", ours["busyKeys"], at_most=0),
                Target("resharding: redirected commands a slot and client", ours["redirected"], at_most=2),
            ],
        }

    # One client, one lock in turn

    def _turns(self, options, cluster, available, names):
        contenders = [Contender(name, available.command(name, "turns", cluster.url(), locks=LOCKS)) for name in names]
        for contender in contenders:
            contender.run(max(options.warm_up, WARM_UP.get(contender.name, 0)))
        mover = Mover(cluster)
        still = self._times(options, contenders)
        # What our locks leave behind, the counters of the fencing tokens, stays with the old master.
        for slot in mover.slots:
            mover.begin(slot)
        moving = self._times(options, contenders)
        mover.close()
        for contender in contenders:
            contender.close()
        return {name: {"still": still[name], "moving": moving[name]} for name in names}

    def _times(self, options, contenders):
        times = {contender.name: [] for contender in contenders}
        errors = {contender.name: 0 for contender in contenders}
        for repetition in range(options.repetitions):
            for contender in rotated(contenders, repetition):
                result = contender.run(options.milliseconds)
                times[contender.name] += result["microseconds"]
                errors[contender.name] += result["errors"]
        return {name: self._figures(times[name], errors[name]) for name in times}

    @staticmethod
    def _figures(times, errors):
        percentiles = statistics.quantiles(times, n=100)
        return {
            "pairs": len(times),
            "p50": percentiles[49] / 1000,
            "p99": percentiles[98] / 1000,
            "max": max(times) / 1000,
            "errors": errors,
        }

    # Resharding

    def _resharding(self, options, cluster, available, name, folder):
        witness = os.path.join(folder, "witness")
        os.mkdir(witness)
        lease = {"lease": LEASE} if name == OURS else {}
        command = available.command(name, "resharding", cluster.url(), locks=LOCKS, work=WORK, pause=PAUSE,
                                    witness=witness, **lease)
        group = Group(name, Crowd(CLIENTS, CLIENTS), command)
        group.run(max(options.warm_up, WARM_UP.get(name, 0)))
        mover = Mover(cluster)
        before = cluster.redirections()
        group.begin(1000 * options.reshard_seconds)
        mover.move_until(time.monotonic() + options.reshard_seconds)
        results = group.results()
        redirected = {
            code: (count - before[code]) / mover.moves / CLIENTS for code, count in cluster.redirections().items()
        }
        group.close()
        mover.close()
        total = {key: sum(result[key] for result in results) for key in ("operations", "overlaps", "lost", "errors")}
        return total | {
            "slotsMoved": mover.moves,
            "busyKeys": mover.busy_keys,
            "redirected": sum(redirected.values()),
            "redirectedBy": redirected,
        }

    def show(self, result):
        lines = table(
            ["lock + unlock, ms", "50 %", "99 %", "slots moving: 50 %", "99 %", "longest", "errors"],
            [
                [name, still["p50"], still["p99"], moving["p50"], moving["p99"], moving["max"], moving["errors"]]
                for name, (still, moving) in ((name, both.values()) for name, both in result["turns"].items())
            ],
        )
        columns = ["operations", "slotsMoved", "overlaps", "lost", "busyKeys", "errors", "redirected"]
        lines += [""] + table(
            ["resharding", "acquired", "slots moved", "overlaps", "lost", "BUSYKEY", "errors", "redirected",
             "MOVED", "ASK", "TRYAGAIN"],
            [
                [name, *(figures[column] for column in columns), *figures["redirectedBy"].values()]
                for name, figures in result["resharding"].items()
            ],
        )
        return lines + [
            "",
            f"First, one client acquires and releases {LOCKS} locks in turn, while every slot is MIGRATING at one master "
            f"and IMPORTING at another. Then the slots really move for {result['seconds']} s: one after the other, with "
            f"their keys, {2000 * IN_TRANSIT:.0f} ms each. Meanwhile {CLIENTS} clients use the {LOCKS} locks. They hold a "
            f"lock for {WORK} ms, and every eighth lock for {WORK / 10:g} s. Our locks have a lease of {LEASE / 1000:g} s "
            "and are renewed; those of the peers have a lease of 30 s. Overlap: a holder found the folder of another "
            "holder in the file system. Lost: the library reported the loss, or the client found it when it released "
            "the lock. Redirected: the number of MOVED, ASK and TRYAGAIN replies, divided by the slots moved and by the "
            "clients; the last three columns count each kind alone.",
        ]
