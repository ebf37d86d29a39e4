# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT

from contenders import OURS
from harness import Contender, Target, number, ratios, rotated, spread, table, with_spread


class PairsCase:
    """Lock + unlock pairs per second with several different locks in flight from one process."""

    def __init__(self, name, title, locks, transport, peers, targets=None):
        self.name, self.title, self.locks, self.transport = name, title, locks, transport
        self.peers = peers
        self.targets = targets or {}  # the minimal ratio to a peer

    def run(self, options, server, available):
        url = server.url(self.transport)
        contenders = [
            Contender(name, available.command(name, "pairs", url, locks=self.locks))
            for name in available.available([OURS, *self.peers])
        ]
        rates = {contender.name: [] for contender in contenders}
        cpu = {contender.name: [] for contender in contenders}
        server_cpu = {contender.name: [] for contender in contenders}
        for contender in contenders:
            contender.run(options.warm_up)
        for repetition in range(options.repetitions):
            for contender in rotated(contenders, repetition):
                before = server.cpu_seconds()
                result = contender.run(options.milliseconds)
                used = server.cpu_seconds() - before
                operations = result["operations"]
                server_cpu[contender.name].append(used / operations * 1e6)
                rates[contender.name].append(operations / result["seconds"])
                cpu[contender.name].append(result["cpuSeconds"] / operations * 1e6)
        for contender in contenders:
            contender.close()

        to_peers = {name: ratios(rates[OURS], rates[name]) for name in rates if name != OURS}
        return {
            "locks": self.locks,
            "transport": self.transport,
            "unit": "lock + unlock pairs/s",
            "rates": {name: spread(values) | {"all": values} for name, values in rates.items()},
            "cpuMicrosecondsPerPair": {name: spread(values) for name, values in cpu.items()},
            "serverCpuMicrosecondsPerPair": {
                name: spread(values) for name, values in server_cpu.items()
            },
            "ratios": to_peers,
            "targets": [
                Target(f"pairs/s to those of {name}", to_peers[name]["median"], at_least=bound)
                for name, bound in self.targets.items()
            ],
        }

    def show(self, result):
        head = ["", "pairs/s", "lowest – highest", "client CPU µs/pair", "server CPU µs/pair"]
        return table(
            head + ["qdistlock to it"],
            [
                [
                    name,
                    rate["median"],
                    f"{number(rate['min'])} – {number(rate['max'])}",
                    result["cpuMicrosecondsPerPair"][name]["median"],
                    result["serverCpuMicrosecondsPerPair"][name]["median"],
                    with_spread(result["ratios"].get(name)),
                ]
                for name, rate in result["rates"].items()
            ],
        )
