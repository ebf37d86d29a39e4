# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT

import os
import tempfile

from contenders import OURS
from harness import Contender, Server, Target, number, ratios, rotated, spread, with_spread

PROCESSES = 10
LOCKS = 1000  # of each
IDLE_MS = 20000
KILLED_MS = 10000
LEASE_MS = 60000
SLOW_US = 1000
ENDLESS_MS = 3600000


class MonitorCase:
    """What a LockMonitorModel costs, and how soon it shows what has happened.

    Two servers with the same locks: one is watched, the other is not. The model runs all the time, so its own
    processor time slows down both alike.
    """

    def __init__(self, other_keys=0):
        self.other_keys = other_keys
        count = PROCESSES * LOCKS
        self.name = f"monitor-beside-{other_keys}" if other_keys else "monitor"
        self.title = f"A monitor of {count:,} locks"
        self.title += f", beside {other_keys:,} other keys" if other_keys else ""

    def run(self, options, server, available):
        with tempfile.TemporaryDirectory(prefix="qdistlock-bench-") as folder:
            servers = []
            try:
                for name in ("watched", "alone"):
                    os.mkdir(os.path.join(folder, name))
                    servers.append(Server(os.path.join(folder, name)))
                return self._measure(options, *servers, available)
            finally:
                for each in servers:
                    each.stop()

    def _measure(self, options, watched, alone, available):
        def start(kind, server, **settings):
            return Contender(OURS, available.command(OURS, kind, server.url(), **settings))

        holders = []
        for server in (watched, alone):
            if self.other_keys:
                server.fill(self.other_keys)
            for _ in range(PROCESSES):
                holder = start("held", server, locks=LOCKS, lease=LEASE_MS)
                holder.run(0)
                holder.begin(ENDLESS_MS)
                holders.append(holder)
        monitor = start("monitor", watched, locks=PROCESSES * LOCKS)
        for server in (watched, alone):
            server.log_slow_commands(SLOW_US)
        known = monitor.run(0)["seconds"]
        monitor.run(IDLE_MS)  # until all clients have reported
        slow_at_first = [server.log_slow_commands(SLOW_US) for server in (watched, alone)]

        before = watched.cpu_seconds() - alone.cpu_seconds()
        idle = monitor.run(IDLE_MS)
        share = 100 * (watched.cpu_seconds() - alone.cpu_seconds() - before) / idle["seconds"]

        pairs = {server: start("pairs", server) for server in (watched, alone)}
        rates = {server: [] for server in pairs}
        for contender in pairs.values():
            contender.run(options.warm_up)
        for repetition in range(4 * options.repetitions):
            monitor.begin(2 * options.milliseconds + 200)
            for server in rotated(list(pairs), repetition):
                result = pairs[server].run(options.milliseconds)
                rates[server].append(result["operations"] / result["seconds"])
            monitor.result()
        slow = [server.log_slow_commands(SLOW_US) for server in (watched, alone)]

        monitor.begin(KILLED_MS)
        holders[0].process.kill()
        killed = monitor.result()
        for contender in (monitor, *pairs.values()):
            contender.close()
        for holder in holders:
            holder.process.kill()
            holder.process.wait()

        others = ratios(rates[watched], rates[alone])
        delays = idle["delays"]
        disconnected = killed.get("disconnectedSeconds", KILLED_MS / 1000)
        targets = [
            Target("server CPU in %", share, at_most=1),
            Target("commands of more than 1 ms", max(0, slow[0] - slow[1]), at_most=0),
            Target("pairs/s of others to those without a monitor", others["median"], at_least=0.98),
            Target("seconds from an acquire to the row", max(delays), at_most=1.2),
            Target("seconds until a killed holder is shown as Disconnected", disconnected, at_most=6),
            Target("longest turn of the event loop in ms", idle["longestTurnMs"], at_most=20),
            Target("heap of a row in bytes", idle["bytesPerRow"], at_most=1024),
        ]
        if self.other_keys:
            targets.append(Target("seconds until all locks are known", known, at_most=150))
        return {
            "otherKeys": self.other_keys,
            "serverCpuPercent": share,
            "slowCommandsUntilKnown": slow_at_first,
            "slowCommands": slow,
            "othersRatio": others,
            "secondsUntilKnown": known,
            "acquireToRowSeconds": spread(delays),
            "killedToDisconnectedSeconds": disconnected,
            "longestTurnMs": idle["longestTurnMs"],
            "bytesPerRow": idle["bytesPerRow"],
            "targets": targets,
        }

    def show(self, result):
        delays, first, later = (
            result[key] for key in ("acquireToRowSeconds", "slowCommandsUntilKnown", "slowCommands")
        )
        return [
            f"All locks known after {number(result['secondsUntilKnown'])} s. After that the monitor takes "
            f"{number(result['serverCpuPercent'])} % of a core of the server; others have "
            f"{with_spread(result['othersRatio'])} times the pairs/s of those on a server without a monitor.",
            f"From an acquire to its row {number(delays['median'])} s (at most {number(delays['max'])}), from the end "
            f"of a process to Disconnected {number(result['killedToDisconnectedSeconds'])} s.",
            f"A row needs {number(result['bytesPerRow'])} bytes of heap; the longest turn of the event loop took "
            f"{number(result['longestTurnMs'])} ms.",
            f"Commands of more than 1 ms, there and without a monitor: {first[0]} and {first[1]} until all clients had "
            f"reported, {later[0]} and {later[1]} after that.",
        ]
