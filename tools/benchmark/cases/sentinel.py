# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT

import random
import signal
import statistics
import tempfile
import time

from contenders import OURS, REDIS_PY
from harness import Contender, Target, number, spread, table, with_spread
from sentinels import PASSWORD, SERVICE, Link, Monitor, SentinelSet, ask, microseconds

DOWN_AFTER = 1000  # ms
LEASE = 9000
FAIL_OVERS = 7
WAITERS = 64
LOCKS = (100, 1000)
BEAT = LEASE / 3000  # s


class Member:
    """A contender whose runs follow each other without a gap, see LibrarySentinel."""

    def __init__(self, label, name, available, url, locks=1, waiters=0):
        self.label, self.locks = label, locks
        command = available.command(name, "sentinel", url, clients=1 + waiters, locks=locks, lease=LEASE)
        self._contender = Contender(name, command)
        self.word = f"bench:sentinel:{self._contender.process.pid}:0"  # in each command about its first lock
        self.key = self.word if name == REDIS_PY else f"lock:{self.word}"
        self._contender.begin(0)
        self.wait_until_held()

    def wait_until_held(self):
        while self.collect()["held"] < self.locks:
            time.sleep(0.1)

    def collect(self):
        """Ends the present run, and begins the next."""
        self._contender.begin(0)
        return self._contender.result()

    def close(self):
        self._contender.close()


class SentinelCase:
    """Fail-overs: how soon a held lock is renewed at the new master, and what the event loop has to do for it."""

    name = "sentinel"
    title = "Fail-overs of a master with three Sentinels"

    def run(self, options, server, available):
        with tempfile.TemporaryDirectory(prefix="qdistlock-bench-") as folder:
            service = SentinelSet(folder, DOWN_AFTER)
            try:
                fail_overs = 2 if options.quick else FAIL_OVERS
                result = self._renewals(service, available, fail_overs)
                loops, target = self._loops(service, server, available, options.quick)
                result["targets"].append(target)
                return result | loops
            finally:
                service.stop()

    # Renewals after a fail-over, and at the old master

    def _renewals(self, service, available, fail_overs):
        names = available.available([OURS, REDIS_PY])
        members = [Member(name, name, available, service.url()) for name in names]
        delays = {member.label: [] for member in members}
        lost = {member.label: 0 for member in members}
        for _ in range(fail_overs):
            for name, (delay, losses) in self._fail_over(service, members).items():
                delays[name].append(delay)
                lost[name] += losses
        stopped = self._old_master(service, members, self._stop_master)
        hidden = self._old_master(service, members, self._hide_master)
        for member in members:
            member.close()
        targets = [
            Target("ms from +switch-master to the first renewal", statistics.median(delays[OURS]), at_most=300),
            Target("held locks lost", lost[OURS], at_most=0),
            Target("commands at the old master, stopped and continued", stopped[OURS], at_most=0),
            Target("commands at the old master, hidden from its Sentinels", hidden[OURS], at_most=0),
        ]
        return {
            "failOvers": fail_overs,
            "renewalMs": {name: spread(values) | {"all": values} for name, values in delays.items()},
            "lost": lost,
            "atOldMaster": {"stopped": stopped, "hidden": hidden},
            "targets": targets,
        }

    def _fail_over(self, service, members):
        """For each member: the ms from the first +switch-master to its next renewal, and the locks it lost."""
        victim = service.master()
        before = len(service.switches)
        time.sleep(random.uniform(0, BEAT))  # a client may notice when it renews
        for member in members:
            member.collect()
        killed = microseconds()
        victim.kill()
        switched, port = service.wait_for_switch(before)
        time.sleep(BEAT + 2)  # a client that renews at the thirds of its lease only
        found = {}
        for member in members:
            result = member.collect()
            renewal = next((when for when in result["renewed"] if when > killed), microseconds())
            # The last renewal that the former master has replicated is older than that.
            if result["renewed"] and ask(port, "PTTL", member.key) < LEASE - 1000 * (BEAT + 1):
                raise SystemExit(f"bench: {member.label} renewed a lock, and the new master does not know of it")
            found[member.label] = ((renewal - switched) / 1000, result["lost"])
        victim.start()
        service.wait_until_healthy()
        return found

    def _old_master(self, service, members, replace):
        """The commands of each member at a master that was replaced and continues."""
        monitor = Monitor(service.master().port)
        old, heal = replace(service)
        # What lay in its sockets before is executed in these turns of its event loop.
        for _ in range(3):
            ask(old.port, "PING")
        begin = len(monitor.lines)
        time.sleep(2 * BEAT)
        counts = {member.label: monitor.count(member.word, begin) for member in members}
        monitor.close()
        heal()
        service.wait_until_healthy()
        time.sleep(2 * BEAT)  # a lock that was renewed only there is lost
        for member in members:
            member.wait_until_held()
        return counts

    def _stop_master(self, service):
        old, before = service.master(), len(service.switches)
        old.signal(signal.SIGSTOP)
        service.wait_for_switch(before)
        old.signal(signal.SIGCONT)
        return old, lambda: None

    def _hide_master(self, service):
        before = len(service.switches)
        old = service.hide_master()
        service.wait_for_switch(before)
        return old, lambda: service.heal(old)

    # The event loop

    def _loops(self, service, server, available, quick):
        members = [
            Member(f"{locks:,} held, {WAITERS} waiting", OURS, available, service.url(), locks, WAITERS)
            for locks in LOCKS
        ]
        plain = Member(f"{LOCKS[-1]:,} held, {WAITERS} waiting, one server", OURS, available, server.url(),
                       LOCKS[-1], WAITERS)
        longest = {}

        def measure(phase, seconds=0):
            time.sleep(seconds)
            longest[phase] = {member.label: member.collect()["longestTurn"] for member in [*members, plain]}

        measure("begin")
        measure("idle", 2 * BEAT)
        worst = {member.label: 0 for member in [*members, plain]}
        for _ in range(1 if quick else 3):
            self._disturb(service, server)
            measure("fail-over")
            worst = {label: max(turn, worst[label]) for label, turn in longest["fail-over"].items()}
        longest["fail-over"] = worst
        service.signal_sentinels(signal.SIGSTOP)
        measure("Sentinels stopped", 2 * BEAT)
        service.signal_sentinels(signal.SIGCONT)
        service.wait_until_healthy()
        measure("Sentinels continue")
        for member in [*members, plain]:
            member.close()
        longest.pop("begin")
        names = self._names(service, available)
        turns = [turn for phase in longest.values() for label, turn in phase.items() if label != plain.label]
        target = Target("longest turn of the event loop, ms", max([*turns, *names.values()]), at_most=10)
        return {"longestTurnMs": longest, "namesLongestTurnMs": names}, target

    def _disturb(self, service, server):
        """A fail-over; and all connections to the plain server end."""
        victim, before = service.master(), len(service.switches)
        victim.kill()
        link = Link(server.port)
        link.command("CLIENT", "KILL", "TYPE", "normal")
        link.close()
        service.wait_for_switch(before)
        time.sleep(2)
        victim.start()
        service.wait_until_healthy()

    def _names(self, service, available):
        """Sentinels given by names, of which one does not resolve."""
        first, second = (sentinel.port for sentinel in service.sentinels[:2])
        longest = {}
        others = {"localhost": f"localhost:{second}", "a name that does not resolve": "sentinel.invalid"}
        for label, other in others.items():
            url = f"redis+sentinel://:{PASSWORD}@localhost:{first}/{SERVICE}?node={other}"
            member = Member(label, OURS, available, url)
            time.sleep(BEAT)
            longest[label] = member.collect()["longestTurn"]
            member.close()
        return longest

    def show(self, result):
        old = result["atOldMaster"]
        lines = table(
            ["", "first renewal, ms", "locks lost", "at the old master, stopped", "hidden"],
            [
                [name, with_spread(delay), result["lost"][name], old["stopped"][name], old["hidden"][name]]
                for name, delay in result["renewalMs"].items()
            ],
        )
        phases = result["longestTurnMs"]
        lines += ["", "Longest turn of the event loop, ms of work:", ""]
        lines += table(
            ["", *phases],
            [[label, *(phase[label] for phase in phases.values())] for label in phases["idle"]],
        )
        names = ", ".join(f"{label} {number(turn)} ms" for label, turn in result["namesLongestTurnMs"].items())
        return lines + [
            "",
            f"With Sentinels given by name: {names}.",
            "",
            f"{result['failOvers']} fail-overs by SIGKILL, down-after-milliseconds {DOWN_AFTER}, lease "
            f"{LEASE / 1000:g} s, renewed at its thirds, by redis-py also each 100 ms after an error (socket_timeout "
            "0.1). The first renewal counts from the first +switch-master of a Sentinel to the moment at which the "
            "client has it confirmed; it may come before. Then the commands of the holder at a master that was "
            "replaced: one that was stopped and continues, and one that its Sentinels cannot reach, both for "
            f"{2 * BEAT:g} s; what was sent to it before +switch-master does not count. One server: its connections "
            "are ended when the others have a fail-over.",
        ]
