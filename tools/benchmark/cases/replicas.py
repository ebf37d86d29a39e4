# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT

import signal
import statistics
import tempfile

from contenders import OURS
from harness import Contender, Target, number, spread
from sentinels import HOST, Program, ask, eventually


class ReplicasCase:
    """Pairs of a lock without minReplicas, alone and beside a lock whose WAITs run into their time-out."""

    name = "replicas"
    title = "Lock + unlock beside a WAIT that times out"

    def run(self, options, server, available):
        with tempfile.TemporaryDirectory(prefix="qdistlock-bench-") as folder:
            master = Program(folder, "master", ['save ""'])
            replica = Program(folder, "replica", ['save ""', f"replicaof {HOST} {master.port}"])
            try:
                eventually(lambda: len(ask(master.port, "ROLE")[2]) == 1)
                replica.signal(signal.SIGSTOP)  # the master takes it for connected for a minute
                return self._measure(options, f"redis://{HOST}:{master.port}", available)
            finally:
                replica.kill()
                master.kill()

    def _measure(self, options, url, available):
        contender = Contender(OURS, available.command(OURS, "beside-wait", url))
        contender.run(options.warm_up, 1)
        percentiles = {1: [], 2: []}
        pairs = {1: 0, 2: 0}
        for repetition in range(options.repetitions):
            for participants in (1, 2) if repetition % 2 else (2, 1):
                times = contender.run(options.milliseconds, participants)["microseconds"]
                percentiles[participants].append(statistics.quantiles(times, n=100)[-1] / 1000)
                pairs[participants] += len(times)
        contender.close()
        alone, beside = spread(percentiles[1]), spread(percentiles[2])
        difference = statistics.median(b - a for a, b in zip(percentiles[1], percentiles[2]))
        return {
            "pairs": {"alone": pairs[1], "beside": pairs[2]},
            "percentile99Ms": {"alone": alone, "beside": beside},
            "targets": [Target("ms by which the 99th percentile is longer", difference, at_most=2)],
        }

    def show(self, result):
        alone, beside = (result["percentile99Ms"][key] for key in ("alone", "beside"))
        return [
            f"99 % of the pairs within {number(beside['median'])} ms beside it "
            f"({number(beside['min'])} – {number(beside['max'])}), {number(alone['median'])} ms alone "
            f"({number(alone['min'])} – {number(alone['max'])}); {result['pairs']['beside']:,} and "
            f"{result['pairs']['alone']:,} pairs."
        ]
