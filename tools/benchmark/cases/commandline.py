# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT

import os
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import time

from contenders import INNER, OURS
from harness import Target, rotated, spread, table

FLOCK = "flock"
ETCDCTL = "etcdctl lock"
TRUE = "true, without a lock"
PING = "redis-cli ping"
HANDSHAKE = ["client|setname", "client|id"]


class Etcd:
    """A private etcd of one member, in its own folder."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="qdistlock-etcd-")
        self.ports = [free_port(), free_port()]
        client, peer = (f"http://127.0.0.1:{port}" for port in self.ports)
        self.url = client
        self.process = subprocess.Popen(
            ["etcd", "--name", "bench", "--data-dir", os.path.join(self.folder.name, "data"), "--logger", "zap"]
            + ["--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer]
            + ["--initial-advertise-peer-urls", peer, "--initial-cluster", "bench=" + peer, "--log-level", "error"],
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 20
        while not self.answers() and time.monotonic() < deadline:
            time.sleep(0.1)

    def answers(self):
        done = subprocess.run(
            ["etcdctl", "--endpoints", self.url, "endpoint", "health"],
            env=os.environ | {"ETCDCTL_API": "3"},
            capture_output=True,
            check=False,
        )
        return done.returncode == 0

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.folder.cleanup()


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def start(command):
    """As cheap as a program can be started: subprocess.Popen takes longer than `true` lives."""
    nothing = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
    return os.posix_spawnp(command[0], command, os.environ, file_actions=nothing)


def wait(process):
    status = os.waitpid(process, 0)[1]
    if status != 0:
        raise SystemExit(f"bench: a command line has ended with status {os.waitstatus_to_exitcode(status)}")


def memory_of(process, *fields):
    """In MiB. Private_ pages are in one process only; Anonymous ones may be shared with those that were forked."""
    try:
        with open(f"/proc/{process}/smaps_rollup", encoding="ascii") as lines:
            return sum(int(line.split()[1]) for line in lines if line.startswith(fields)) / 1024
    except OSError:
        return 0.0


def guardians():
    """The helper processes of `qdistlock run`, which are nobody's children."""
    found = set()
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/comm", encoding="utf-8") as comm:
                if comm.read().strip() == "qdl-guardian":
                    found.add(int(name))
        except OSError:
            pass
    return found


class CommandLineCase:
    """`qdistlock run`, beside other programs that run a command under a lock."""

    name = "command-line"
    title = "Command line: `true` under a lock, a queue of commands, memory"
    STARTS = 6  # in each repetition
    QUEUE = 20

    def run(self, options, server, available):
        program = options.command_line or shutil.which("qdistlock")
        if not program or not os.path.exists(program):
            raise SystemExit("bench: the case command-line needs --command-line, the program qdistlock")
        os.environ["QDISTLOCK_URL"] = server.url("unix")
        os.environ["ETCDCTL_API"] = "3"
        etcd = Etcd() if shutil.which("etcd") and shutil.which("etcdctl") else None
        if not etcd:
            available.missing[ETCDCTL] = "etcd-server and etcd-client are not installed"
        try:
            with tempfile.TemporaryDirectory(prefix="qdistlock-bench-") as folder:
                lock = {
                    OURS: [program, "run", "bench"],
                    FLOCK: ["flock", os.path.join(folder, "lock")],
                    ETCDCTL: etcd and ["etcdctl", "--endpoints", etcd.url, "lock", "bench"],
                }
                return self.measure(options, server, {name: command for name, command in lock.items() if command})
        finally:
            if etcd:
                etcd.stop()

    def measure(self, options, server, lock):
        commands = {name: command + ["true"] for name, command in lock.items()}
        commands[TRUE] = ["true"]
        commands[PING] = ["redis-cli", "-s", server.socket, "ping"]
        for command in commands.values():
            wait(start(command))
        alone = {name: [] for name in commands}
        sent = []
        for repetition in range(options.repetitions * self.STARTS):
            for name in rotated(list(commands), repetition):
                before = server.commands(INNER[OURS] + HANDSHAKE)
                begin = time.monotonic()
                wait(start(commands[name]))
                alone[name].append((time.monotonic() - begin) * 1000)
                if name == OURS:
                    sent.append(server.commands(INNER[OURS] + HANDSHAKE) - before)
        queued = {name: [] for name in lock}
        for repetition in range(options.repetitions):
            for name in rotated(list(lock), repetition):
                queued[name].append(self.hand_over(lock[name]))
        memory = {name: self.memory(lock[name]) for name in lock}
        true = statistics.median(alone[TRUE])
        hand_over = statistics.median(queued[OURS])
        return {
            "unit": "ms",
            "alone": {name: spread(values) for name, values in alone.items()},
            "handOver": {name: spread(values) for name, values in queued.items()},
            "memory": memory,
            "commands": statistics.median(sent),
            "targets": [
                Target("`qdistlock run x true`, ms", statistics.median(alone[OURS]), at_most=15),
                Target("commands at the server, without the handshakes", statistics.median(sent), at_most=3),
                Target("hand-over beside fork and exec, ms", hand_over - true, at_most=3),
                Target("private memory while the command runs, MiB", memory[OURS], at_most=16),
            ],
        }

    def hand_over(self, lock):
        """ms from the end of one command to that of the next, which waits for the lock meanwhile."""
        with tempfile.TemporaryDirectory(prefix="qdistlock-bench-") as folder:
            fifo = os.path.join(folder, "go")
            os.mkfifo(fifo)
            script = os.path.join(folder, "hold")
            with open(script, "w", encoding="ascii") as file:  # etcdctl takes the options of its child for its own
                file.write(f"read line <{fifo}\n")
            holder = start(lock + ["sh", script])
            with open(fifo, "w", encoding="ascii") as go:  # waits until the command runs
                waiters = [start(lock + ["true"]) for _ in range(self.QUEUE)]
                time.sleep(1.5)  # until all of them wait
                since = time.monotonic()
                print(file=go, flush=True)
                for process in [holder, *waiters]:
                    wait(process)
        return (time.monotonic() - since) * 1000 / (self.QUEUE + 1)

    def memory(self, lock):
        others = guardians()
        process = start(lock + ["sleep", "60"])
        time.sleep(0.5)
        used = memory_of(process, "Private_Clean", "Anonymous") + sum(memory_of(helper, "Private_") for helper in guardians() - others)
        for thread in os.listdir(f"/proc/{process}/task"):
            with open(f"/proc/{process}/task/{thread}/children", encoding="ascii") as children:
                for child in children.read().split():
                    os.kill(int(child), signal.SIGKILL)
        os.waitpid(process, 0)
        return used

    def show(self, result):
        alone, queued, memory = result["alone"], result["handOver"], result["memory"]
        rows = [
            [
                name,
                alone[name]["median"],
                alone[name]["min"],
                alone[name]["max"],
                queued[name]["median"] if name in queued else "",
                memory[name] if name in memory else "",
            ]
            for name in alone
        ]
        head = ["", "`true`, ms", "lowest", "highest", f"in a queue of {self.QUEUE}, ms each", "private memory, MiB"]
        return table(head, rows)
