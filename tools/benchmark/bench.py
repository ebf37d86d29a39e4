#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT
"""Runs the benchmark cases against a private redis-server; prints tables, writes JSON and a plot.

A case compares contenders. Each is a process, or several, that answers every line
`run MILLISECONDS [PARTICIPANTS]` on its standard input with one line of JSON. All contenders of a case
are started first; then they take turns, in rotating order, so that each repetition compares them on the
same machine in the same minute. Ratios are taken within a repetition, and then the median of them.
"""

import argparse
import json
import os
import platform
import signal
import sys
import tempfile
import time

from cases.cluster import ClusterCase
from cases.commandline import CommandLineCase
from cases.contended import ContendedCase, HandOffCase, OrderCase
from cases.engines import EnginesCase
from cases.flood import FloodCase
from cases.held import HeldCase
from cases.lost import LostCase
from cases.monitor import MonitorCase
from cases.pairs import PairsCase
from cases.promotion import PromotionCase
from cases.quorum import PlainCase, QuorumCase
from cases.readers import ReadersCase
from cases.replicas import ReplicasCase
from cases.resharding import ReshardingCase
from cases.scoped import ScopedCase
from cases.semaphores import SemaphoresCase
from cases.sentinel import SentinelCase
from cases.severallocks import SeveralLocksCase
from cases.startup import StartUpCase
from cases.waiters import WaitersCase
from contenders import HIREDIS, QT, REDIS_PY, REDIS_SEMAPHORE, REDLOCK, UNFAIR, Contenders
from harness import Server, Target
from plot import contended_plot


def all_cases():
    bare = [QT, HIREDIS]
    node = [REDIS_SEMAPHORE, REDLOCK]
    pairs = [
        ("in-turn-tcp", "In turn: one lock, TCP loopback", 1, "tcp"),
        ("in-turn-unix", "In turn: one lock, Unix socket", 1, "unix"),
        ("in-flight-16", "16 locks in flight, TCP loopback (hiredis: pipelines)", 16, "tcp"),
        ("in-flight-256-tcp", "256 locks in flight, TCP loopback (hiredis: pipelines)", 256, "tcp"),
        ("in-flight-256-unix", "256 locks in flight, Unix socket (hiredis: pipelines)", 256, "unix"),
        ("in-flight-4096", "4 096 locks in flight, TCP loopback (hiredis: pipelines)", 4096, "tcp"),
    ]
    peers = {"in-turn-tcp": bare + [REDIS_PY] + node, "in-flight-256-tcp": bare + node}
    targets = {
        "in-turn-tcp": {QT: 0.85},
        "in-turn-unix": {QT: 0.85},
        "in-flight-256-tcp": {QT: 0.75},
        "in-flight-4096": {QT: 0.70},
    }
    return [
        *(PairsCase(*case, peers.get(case[0], bare), targets.get(case[0])) for case in pairs),
        ScopedCase(),
        ReadersCase(),
        SemaphoresCase(),
        SeveralLocksCase(),
        HandOffCase([2, 16, 64, 256], [REDIS_PY, *node]),
        ContendedCase(
            "contended",
            "Contended: one lock, W clients on their own connections",
            [2, 16, 64, 256],
            [UNFAIR, REDIS_PY, *node],
            in_process=False,
        ),
        ContendedCase(
            "in-process",
            "Contended: one lock, W waiters in one process",
            [1, 16, 256],
            [UNFAIR, REDIS_PY, *node],
            in_process=True,
        ),
        OrderCase(64),
        WaitersCase(1000),
        HeldCase(10000, targets=True),
        HeldCase(100000, targets=False),
        MonitorCase(),
        MonitorCase(other_keys=500000),
        ClusterCase(),
        ReshardingCase(),
        PromotionCase(),
        LostCase(),
        SentinelCase(),
        ReplicasCase(),
        QuorumCase(),
        PlainCase(),
        EnginesCase(),
        FloodCase(),
        StartUpCase(),
        CommandLineCase(),
    ]


def machine(server):
    processor = ""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            processor = next(
                (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")),
                "",
            )
    except OSError:
        pass
    return {
        "processor": processor or platform.processor(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "redis": server.version(),
        "loadBefore": os.getloadavg()[0],
    }


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--program", required=True, help="the qdistlock_bench program")
    add("--command-line", metavar="PROGRAM", help="qdistlock, for the case command-line")
    add("--before", metavar="FOLDER", help="build folder of another version of the library, to compare with")
    add("--peers", help="the folder with node_modules of the Node.js peers")
    add("--output", default="bench.json", help="JSON file to write (%(default)s)")
    add("--tables", help="Markdown file to write, the same as is printed")
    add("--plot", help="SVG file to write: hand-offs/s over waiting clients")
    add("--repetitions", type=int, help="timed runs of each contender (5)")
    add("--milliseconds", type=int, help="length of one run (1000)")
    add("--warm-up", type=int, default=300, help="length of the run before them (%(default)s)")
    add("--order-seconds", type=int, help="how long the order of service is watched (60)")
    add("--hold-seconds", type=int, help="how long the waiters wait for a held lock (20)")
    add("--lease-seconds", type=int, help="lease of the many held locks (30)")
    add("--reshard-seconds", type=int, help="how long slots move (60)")
    add("--quick", action="store_true", help="short runs and leases: an impression, not a measurement")
    add("--case", action="append", help="only cases whose name begins so; may be repeated")
    add("--check", action="store_true", help="exit status 1 when a target is missed")
    options = parser.parse_args()
    usual = dict(repetitions=5, milliseconds=1000, order_seconds=60, hold_seconds=20, lease_seconds=30)
    usual["reshard_seconds"] = 60
    quick = dict(repetitions=2, milliseconds=300, order_seconds=3, hold_seconds=3, lease_seconds=3, reshard_seconds=6)
    for name, value in (quick if options.quick else usual).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    options.cases = [
        case
        for case in all_cases()
        if not options.case or case.name.startswith(tuple(options.case))
    ]
    if not options.cases or options.repetitions < 1:
        parser.error(
            "nothing to run; the cases are " + ", ".join(case.name for case in all_cases())
        )
    return options


def main():
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # stops the server, too
    available = Contenders(options)
    lines = []

    def tell(text=""):
        lines.append(text)
        print(text, flush=True)

    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="qdistlock-bench-") as folder:
        server = Server(folder)
        try:
            about = machine(server)
            tell(
                f"{about['processor']}, {about['cores']} cores, {about['system']}, "
                f"Redis {about['redis']}, load {about['loadBefore']:.1f} before."
            )
            tell(
                f"Medians of {options.repetitions} interleaved runs of {options.milliseconds} ms each, "
                "lowest and highest in brackets."
            )
            results = []
            for case in options.cases:
                result = {"case": case.name, "title": case.title}
                result |= case.run(options, server, available)
                tell(f"\n## {case.title}\n")
                for line in case.show(result):
                    tell(line)
                if result["targets"]:
                    tell()
                for target in result["targets"]:
                    tell(f"- {target}")
                results.append(result)
        finally:
            server.stop()
    tell("\n## Not compared\n")
    for name, reason in available.missing.items():
        tell(f"- {name}: {reason}")

    targets = [target for result in results for target in result["targets"]]
    missed = sum(not target.met for target in targets)
    tell(f"\n{len(targets) - missed} of {len(targets)} targets met, in {time.monotonic() - begin:.0f} s.")

    def write(name, text):
        with open(name, "w", encoding="utf-8") as file:
            file.write(text)

    content = {
        "machine": about,
        "repetitions": options.repetitions,
        "milliseconds": options.milliseconds,
        "cases": results,
        "notCompared": available.missing,
    }
    write(
        options.output,
        json.dumps(content, indent=2, ensure_ascii=False, default=Target.to_json) + "\n",
    )
    if options.tables:
        write(options.tables, "\n".join(lines) + "\n")
    contended = [result for result in results if result["case"] == "contended"]
    if options.plot and contended:
        write(options.plot, contended_plot(contended[0], about))
    print(f"Written to {options.output}")
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
