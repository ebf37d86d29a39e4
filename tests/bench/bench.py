#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT
"""Runs the benchmark cases against a private redis-server; prints a table and writes JSON.

A case is a list of contenders. Each is a process that answers every line `run MILLISECONDS` on its
standard input with one line of JSON. All contenders of a case are started first; then they take
turns, in rotating order, so that each repetition compares them on the same machine in the same minute.
Ratios are taken within a repetition, and then the median of them.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time


class Server:
    """A redis-server of our own, on a Unix socket and a free TCP port, nothing kept on disk."""

    def __init__(self, folder):
        program = shutil.which("redis-server")
        if not program:
            sys.exit("bench: redis-server is not installed")
        self.socket = os.path.join(folder, "redis.sock")
        # Redis itself cannot be asked for a free port: tried until one is.
        for port in range(21000, 21100):
            self.process = subprocess.Popen(
                [
                    program,
                    "--port",
                    str(port),
                    "--bind",
                    "127.0.0.1",
                    "--unixsocket",
                    self.socket,
                    "--save",
                    "",
                    "--appendonly",
                    "no",
                    "--dir",
                    folder,
                    "--loglevel",
                    "warning",
                ],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            if self._answers():
                self.port = port
                return
        sys.exit("bench: redis-server does not start")

    def _answers(self):
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and self.process.poll() is None:
            if self.cli("PING") == "PONG":
                return True
            time.sleep(0.02)
        self.stop()
        return False

    def cli(self, *words):
        return subprocess.run(
            ["redis-cli", "-s", self.socket, *words], capture_output=True, text=True
        ).stdout.strip()

    def url(self, transport):
        return "unix://" + self.socket if transport == "unix" else f"redis://127.0.0.1:{self.port}"

    def cpu_seconds(self):
        """User and system time the server has used so far."""
        used = dict(
            line.split(":", 1) for line in self.cli("INFO", "cpu").splitlines() if ":" in line
        )
        return float(used["used_cpu_user"]) + float(used["used_cpu_sys"])

    def version(self):
        for line in self.cli("INFO", "server").splitlines():
            if line.startswith("redis_version:"):
                return line.split(":", 1)[1].strip()
        return "unknown"

    def stop(self):
        self.process.terminate()
        self.process.wait()


class Contender:
    def __init__(self, name, command):
        self.name = name
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, milliseconds):
        try:
            self.process.stdin.write(f"run {milliseconds}\n")
            self.process.stdin.flush()
            return json.loads(self.process.stdout.readline())
        except (OSError, ValueError):
            self.process.kill()
            sys.exit(f"bench: {self.name} ended without a result")

    def close(self):
        self.process.stdin.close()
        if self.process.wait() != 0:
            sys.exit(f"bench: {self.name} ended with {self.process.returncode}")


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


class PairsCase:
    """Lock + unlock pairs per second with so many different locks in flight."""

    OURS = "qdistlock"
    QT = "bare Qt socket"
    HIREDIS = "bare hiredis"

    def __init__(self, name, title, locks, transport, target):
        self.name, self.title, self.locks, self.transport = name, title, locks, transport
        self.target = target  # the least ratio to the bare Qt socket loop; None: shown only

    def run(self, options, server):
        def command(contender):
            return [
                options.program,
                "--server",
                server.url(self.transport),
                "--locks",
                str(self.locks),
                contender,
            ]

        contenders = [
            Contender(self.OURS, command("library-pairs")),
            Contender(self.QT, command("qt-pairs")),
            Contender(self.HIREDIS, command("hiredis-pairs")),
        ]
        rates = {contender.name: [] for contender in contenders}
        cpu = {contender.name: [] for contender in contenders}
        server_cpu = {contender.name: [] for contender in contenders}
        for contender in contenders:
            contender.run(options.warm_up)
        for repetition in range(options.repetitions):
            turn = repetition % len(contenders)
            for contender in contenders[turn:] + contenders[:turn]:
                before = server.cpu_seconds()
                result = contender.run(options.milliseconds)
                server_cpu[contender.name].append(
                    (server.cpu_seconds() - before) / result["operations"] * 1e6
                )
                rates[contender.name].append(result["operations"] / result["seconds"])
                cpu[contender.name].append(result["cpuSeconds"] / result["operations"] * 1e6)
        for contender in contenders:
            contender.close()

        def ratio(peer):
            return spread([ours / theirs for ours, theirs in zip(rates[self.OURS], rates[peer])])

        ratios = {self.QT: ratio(self.QT), self.HIREDIS: ratio(self.HIREDIS)}
        return {
            "case": self.name,
            "title": self.title,
            "locks": self.locks,
            "transport": self.transport,
            "unit": "lock + unlock pairs/s",
            "rates": {name: spread(values) | {"all": values} for name, values in rates.items()},
            "cpuMicrosecondsPerPair": {name: spread(values) for name, values in cpu.items()},
            "serverCpuMicrosecondsPerPair": {
                name: spread(values) for name, values in server_cpu.items()
            },
            "ratios": ratios,
            "target": self.target,
            "met": self.target is None or ratios[self.QT]["median"] >= self.target,
        }

    def show(self, result):
        print(f"\n{result['title']}")
        print(f"  {'':16}{'':10}   {'':19}   {'CPU µs per pair':^17}")
        print(
            f"  {'':16}{'pairs/s':>10}   {'lowest – highest':^19}   {'client':>8} {'server':>8}   qdistlock to it"
        )
        for name, rate in result["rates"].items():
            low_high = f"{rate['min']:,.0f} – {rate['max']:,.0f}"
            cpu = result["cpuMicrosecondsPerPair"][name]["median"]
            server_cpu = result["serverCpuMicrosecondsPerPair"][name]["median"]
            line = f"  {name:16}{rate['median']:>10,.0f}   {low_high:^19}   {cpu:>8.1f} {server_cpu:>8.1f}"
            if name in result["ratios"]:
                ratio = result["ratios"][name]
                line += f"   {ratio['median']:.2f} ({ratio['min']:.2f} – {ratio['max']:.2f})"
                if name == self.QT and self.target is not None:
                    line += f"   wanted ≥ {self.target:.2f}: {'met' if result['met'] else 'MISSED'}"
            print(line)


class MemoryCase:
    """What one DistributedLock costs this process."""

    name = "memory"

    def __init__(self, locks):
        self.locks = locks

    def run(self, options, server):
        # The heap of a process that has done this once is no longer empty: one process each time.
        runs = []
        for _ in range(options.repetitions):
            contender = Contender(
                "qdistlock",
                [
                    options.program,
                    "--server",
                    server.url("tcp"),
                    "--locks",
                    str(self.locks),
                    "library-memory",
                ],
            )
            runs.append(contender.run(0))
            contender.close()
        keys = [key for key in runs[0] if key.endswith("Bytes")]
        return {
            "case": self.name,
            "title": f"Memory of one lock, over {self.locks:,} locks",
            "locks": self.locks,
            "unit": "bytes",
            "bytes": {key: spread([run[key] for run in runs]) for key in keys},
            "met": True,
        }

    def show(self, result):
        print(f"\n{result['title']}")
        for state in ("idle", "held"):
            heap, resident = (
                result["bytes"][state + "HeapBytes"],
                result["bytes"][state + "ResidentBytes"],
            )
            print(
                f"  {state:16}{heap['median']:>10,.0f} bytes of heap   {resident['median']:>8,.0f} bytes resident"
            )


def all_cases():
    return [
        PairsCase("in-turn-tcp", "In turn: one lock, TCP loopback", 1, "tcp", 0.85),
        PairsCase("in-turn-unix", "In turn: one lock, Unix socket", 1, "unix", None),
        PairsCase(
            "in-flight-256-tcp",
            "256 locks in flight, TCP loopback (hiredis: pipelines of 256)",
            256,
            "tcp",
            0.60,
        ),
        PairsCase(
            "in-flight-256-unix",
            "256 locks in flight, Unix socket (hiredis: pipelines of 256)",
            256,
            "unix",
            None,
        ),
        MemoryCase(10000),
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
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True, help="the qdistlock_bench program")
    parser.add_argument("--output", default="bench.json", help="JSON file to write (%(default)s)")
    parser.add_argument(
        "--repetitions", type=int, default=5, help="timed runs of each contender (%(default)s)"
    )
    parser.add_argument(
        "--milliseconds", type=int, default=1000, help="length of one run (%(default)s)"
    )
    parser.add_argument(
        "--warm-up", type=int, default=200, help="length of the run before them (%(default)s)"
    )
    parser.add_argument(
        "--case", action="append", help="only cases whose name begins so; may be repeated"
    )
    parser.add_argument(
        "--check", action="store_true", help="exit status 1 when a wanted ratio is missed"
    )
    options = parser.parse_args()
    cases = [
        case
        for case in all_cases()
        if not options.case or case.name.startswith(tuple(options.case))
    ]
    if not cases or options.repetitions < 1:
        parser.error(
            "nothing to run; the cases are " + ", ".join(case.name for case in all_cases())
        )

    with tempfile.TemporaryDirectory(prefix="qdistlock-bench-") as folder:
        server = Server(folder)
        try:
            about = machine(server)
            print(
                f"{about['processor']}, {about['cores']} cores, {about['system']}, Redis {about['redis']}"
            )
            print(
                f"Median of {options.repetitions} interleaved runs of {options.milliseconds} ms each"
            )
            results = []
            for case in cases:
                results.append(case.run(options, server))
                case.show(results[-1])
                sys.stdout.flush()
        finally:
            server.stop()

    with open(options.output, "w", encoding="utf-8") as file:
        json.dump(
            {
                "machine": about,
                "repetitions": options.repetitions,
                "milliseconds": options.milliseconds,
                "cases": results,
            },
            file,
            indent=2,
            ensure_ascii=False,
        )
        file.write("\n")
    print(f"\nWritten to {options.output}")
    if options.check and not all(result["met"] for result in results):
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
