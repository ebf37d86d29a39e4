# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT

from contenders import INNER, OURS
from harness import Contender, Target, number, spread


class HeldCase:
    """The cost of holding many locks at the same time: renewals, processor and memory."""

    def __init__(self, locks, targets):
        self.name = f"held-{locks}"
        self.title = f"{locks:,} held locks of one registry"
        self.locks = locks
        self.has_targets = targets

    def run(self, options, server, available):
        # A short lease would end before all locks are acquired.
        lease = 1000 * max(options.lease_seconds, self.locks // 10000)
        beat = lease // 3  # the interval of renewals
        command = available.command(OURS, "held", server.url(), locks=self.locks, lease=lease)
        contender = Contender(OURS, command)
        memory = contender.run(0)
        contender.run(beat // 2)  # so that each run has one beat in its middle
        commands, cpu, server_cpu = [], [], []
        for _ in range(options.repetitions):
            before, cpu_before = server.commands(INNER[OURS]), server.cpu_seconds()
            result = contender.run(beat)
            commands.append(server.commands(INNER[OURS]) - before)
            server_cpu.append(100 * (server.cpu_seconds() - cpu_before) / result["seconds"])
            cpu.append(100 * result["cpuSeconds"] / result["seconds"])
        contender.close()
        targets = []
        if self.has_targets:
            scale = self.locks / 10000
            targets = [
                Target("renewal commands a beat", spread(commands)["median"], at_most=20 * scale),
                Target("heap of a held lock in bytes", memory["heldHeapBytes"], at_most=2048),
            ]
            # A shorter lease needs more renewals.
            if options.lease_seconds >= 30:
                targets.append(Target("client CPU in %", spread(cpu)["median"], at_most=3 * scale))
        return {
            "locks": self.locks,
            "leaseSeconds": lease // 1000,
            "commandsPerBeat": spread(commands),
            "cpuPercent": spread(cpu),
            "serverCpuPercent": spread(server_cpu),
            "memory": memory,
            "targets": targets,
        }

    def show(self, result):
        commands, cpu = result["commandsPerBeat"], result["cpuPercent"]
        memory = result["memory"]
        lease = result["leaseSeconds"]
        return [
            f"Lease {lease} s, a beat every {lease / 3:.3g} s: {number(commands['median'])} commands a beat "
            f"(at most {number(commands['max'])}); CPU of the client {number(cpu['median'])} % "
            f"(at most {number(cpu['max'])} %), of the server "
            f"{number(result['serverCpuPercent']['median'])} %.",
            f"Memory of one lock: never used {number(memory['idleHeapBytes'])} bytes of heap, "
            f"held {number(memory['heldHeapBytes'])} ({number(memory['heldResidentBytes'])} resident).",
        ]
