# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT

import random
import statistics
import tempfile
import time

from cases.sentinel import BEAT, LEASE, Member
from contenders import OURS, REDIS_PY
from harness import Cluster, Target, spread, table, with_spread
from sentinels import Monitor, ask, eventually, microseconds

PROMOTIONS = 7


class PromotionCase:
    """The time from the promotion of a replica to the first renewal of a held lock there."""

    name = "promotion"
    title = "Redis Cluster: promotion of a replica"

    def run(self, options, server, available):
        names = available.available([OURS, REDIS_PY])
        promotions = 2 if options.quick else PROMOTIONS
        delays = {name: [] for name in names}
        lost = dict.fromkeys(names, 0)
        with tempfile.TemporaryDirectory(prefix="qdistlock-bench-") as folder:
            cluster = Cluster(folder, 3, replicated=True)
            try:
                for name in names:
                    member = Member(name, name, available, cluster.url())
                    for _ in range(promotions):
                        delay, losses = self._promote(cluster, member)
                        delays[name].append(delay)
                        lost[name] += losses
                    member.close()
            finally:
                cluster.stop()
        return {
            "promotions": promotions,
            "renewalMs": {name: spread(values) | {"all": values} for name, values in delays.items()},
            "lost": lost,
            "targets": [
                Target("ms from the promotion to the first renewal", statistics.median(delays[OURS]), at_most=500),
                Target("held locks lost", lost[OURS], at_most=0),
            ],
        }

    def _promote(self, cluster, member):
        """The ms from the promotion to the member's next renewal, and the locks it lost."""
        replica = self._replica_of(cluster, member.key)
        time.sleep(random.uniform(0, BEAT))  # a client may notice when it renews
        member.collect()
        monitor = Monitor(replica.port)
        promoted = microseconds()
        replica.command("CLUSTER", "FAILOVER", "TAKEOVER")
        time.sleep(BEAT + 2)  # a client that renews at the thirds of its lease only
        result = member.collect()
        monitor.close()
        arrived = self._first_script(monitor, member)
        # A renewal that the former master has confirmed in the meantime does not count.
        renewal = next((when for when in result["renewed"] if when > arrived), microseconds())
        return (renewal - promoted) / 1000, result["lost"]

    @staticmethod
    def _first_script(monitor, member):
        """When a script about the member's lock, which no replication sends, arrived at the server."""
        since_1970 = time.time() * 1e6 - microseconds()
        for _, line in monitor.lines:
            if member.word in line and "] \"EVAL" in line.upper():
                return float(line.split()[0]) * 1e6 - since_1970
        raise SystemExit(f"bench: {member.label} has sent nothing to the new master")

    @staticmethod
    def _replica_of(cluster, key):
        """The replica of the key's master, as soon as its data is the master's."""

        def find():
            slot = int(cluster.nodes[0].command("CLUSTER", "KEYSLOT", key))
            for node in cluster.nodes:
                if not Cluster.is_in_step(node):
                    continue
                master = int(node.info("replication")["master_port"])
                ranges = ask(master, "CLUSTER", "SLOTS")
                if any(first <= slot <= last and owner[1] == master for first, last, owner, *_ in ranges):
                    return node
            return None

        return eventually(find)

    def show(self, result):
        lines = table(
            ["", "first renewal, ms", "locks lost"],
            [[name, with_spread(delay), result["lost"][name]] for name, delay in result["renewalMs"].items()],
        )
        return lines + [
            "",
            f"{result['promotions']} times, CLUSTER FAILOVER TAKEOVER of the replica of a lock's master, at a random "
            f"moment; lease {LEASE / 1000:g} s, renewed at its thirds, by redis-py also each 100 ms after an error. The "
            "time ends when the client has the renewal confirmed.",
        ]
