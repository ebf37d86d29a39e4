# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT
"""Shared by the cases: the server, the contenders, and the evaluation and output of figures."""

import json
import os
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import time


class Redis:
    """A connection to one server."""

    def _use(self, connection):
        self._connection, self._reader = connection, connection.makefile("rb")

    def command(self, *words):
        """A reply of more than one value is not read."""
        encoded = [str(word).encode() for word in words]
        self._connection.sendall(
            b"*%d\r\n" % len(encoded) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in encoded)
        )
        line = self._reader.readline().rstrip()
        if line.startswith(b"-"):
            sys.exit(f"bench: {' '.join(map(str, words))}: {line.decode()}")
        return self._reader.read(int(line[1:]) + 2) if line.startswith(b"$") else line[1:]

    def info(self, section):
        text = self.command("INFO", section).decode()
        return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


class Server(Redis):
    """A private redis-server, on a Unix socket and a free TCP port, without persistence."""

    def __init__(self, folder):
        program = shutil.which("redis-server")
        if not program:
            sys.exit("bench: redis-server is not installed")
        self.socket = os.path.join(folder, "redis.sock")
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # hundreds of contenders, and two pipes to each
        # Redis cannot choose a free port itself, so ports are tried until one is free.
        for port in range(21000, 21100):
            self.process = subprocess.Popen(
                [program, "--port", str(port), "--bind", "127.0.0.1"]
                + ["--unixsocket", self.socket, "--save", "", "--appendonly", "no"]
                + ["--dir", folder, "--loglevel", "warning"],
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
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.connect(self.socket)
                self._use(connection)
                return True
            except OSError:
                connection.close()
                time.sleep(0.02)
        self.stop()
        return False

    def url(self, transport="tcp"):
        return "unix://" + self.socket if transport == "unix" else f"redis://127.0.0.1:{self.port}"

    def cpu_seconds(self):
        """User and system time the server has used so far."""
        used = self.info("cpu")
        return float(used["used_cpu_user"]) + float(used["used_cpu_sys"])

    def commands(self, inner):
        """The number of commands that clients have sent so far.

        Redis also counts the commands inside scripts, in total_commands_processed, too. Those that only the contender's
        scripts call are left out by name. The rest was sent by clients; an EVALSHA or EVAL counts as one command.
        """
        left_out = set(inner) | {"info"}
        count = 0
        for name, values in self.info("commandstats").items():
            command = name.removeprefix("cmdstat_")
            if command not in left_out:
                count += int(values.split("calls=")[1].split(",")[0])
        return count

    def fill(self, keys):
        """Adds keys that no lock has to do with."""
        self.command("EVAL", "for i = 1, ARGV[1] do redis.call('SET', 'other:' .. i, 'x') end return 0", 0, keys)

    def log_slow_commands(self, microseconds):
        """From now on; returns how many commands took longer since the last call."""
        found = int(self.command("SLOWLOG", "LEN"))
        self.command("CONFIG", "SET", "slowlog-log-slower-than", microseconds, "slowlog-max-len", 10000)
        self.command("SLOWLOG", "RESET")
        return found

    def version(self):
        return self.info("server").get("redis_version", "unknown")

    def stop(self):
        self.process.terminate()
        self.process.wait()


class Cluster:
    """A private Redis Cluster, each node a process, as a Server: masters, and then one replica of each if wanted."""

    SLOTS = 16384

    def __init__(self, folder, masters, replicated=False):
        program = shutil.which("redis-server")
        self.nodes = []
        for index in range(2 * masters if replicated else masters):
            path = os.path.join(folder, f"cluster-{masters}-{index}")
            os.mkdir(path)
            port = 21200 + 20 * masters + index
            process = subprocess.Popen(
                [program, "--port", str(port), "--bind", "127.0.0.1", "--cluster-enabled", "yes"]
                + ["--cluster-config-file", "nodes.conf", "--cluster-port", str(port + 400)]
                + ["--save", "", "--appendonly", "no", "--dir", path, "--loglevel", "warning"],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            self.nodes.append(ClusterNode(port, process))
        for index, node in enumerate(self.nodes):
            node.connect()
            node.command("CLUSTER", "SET-CONFIG-EPOCH", index + 1)
            if index < masters:
                first = self.SLOTS * index // masters
                last = self.SLOTS * (index + 1) // masters - 1
                node.command("CLUSTER", "ADDSLOTSRANGE", first, last)
            node.command("CLUSTER", "MEET", "127.0.0.1", self.nodes[0].port, self.nodes[0].port + 400)
        self._wait_for_all(self._is_complete)
        for master, replica in zip(self.nodes, self.nodes[masters:]):
            replica.command("CLUSTER", "REPLICATE", master.id())
        self._wait_for_all(lambda node: self.is_in_step(node) or node in self.nodes[:masters])

    def _wait_for_all(self, condition):
        deadline = time.monotonic() + 30
        while not all(condition(node) for node in self.nodes):
            if time.monotonic() > deadline:
                sys.exit("bench: the nodes of the cluster do not find each other")
            time.sleep(0.05)

    def _is_complete(self, node):
        info = node.command("CLUSTER", "INFO")
        wanted = [f"cluster_known_nodes:{len(self.nodes)}\r", "cluster_state:ok", "cluster_slots_ok:16384"]
        return all(line.encode() in info for line in wanted)

    @staticmethod
    def is_in_step(node):
        """Whether the node is a replica whose data is that of its master."""
        return node.info("replication").get("master_link_status") == "up"

    def redirections(self):
        """How many commands the nodes have refused so far because their slots are moving or elsewhere."""
        errors = [node.info("errorstats") for node in self.nodes]
        return {
            code: sum(int(each.get(f"errorstat_{code}", "count=0").split("=")[1]) for each in errors)
            for code in ("MOVED", "ASK", "TRYAGAIN")
        }

    def url(self):
        first, *others = [f"127.0.0.1:{node.port}" for node in self.nodes]
        return f"redis+cluster://{first}" + ("?" + "&".join("node=" + node for node in others) if others else "")

    def cpu_seconds(self):
        return sum(float(node.info("cpu")[key]) for node in self.nodes for key in ("used_cpu_user", "used_cpu_sys"))

    def commands(self, inner):
        """As Server.commands(), of all nodes."""
        left_out = {f"cmdstat_{name}" for name in inner} | {"cmdstat_info"}
        return sum(
            int(values.split("calls=")[1].split(",")[0])
            for node in self.nodes
            for name, values in node.info("commandstats").items()
            if name not in left_out
        )

    def move(self, is_moving):
        """All slots of all masters are being moved to the next master, or stay. No key is moved."""
        for index, node in enumerate(self.nodes):
            target = self.nodes[(index + 1) % len(self.nodes)]
            first = self.SLOTS * index // len(self.nodes)
            last = self.SLOTS * (index + 1) // len(self.nodes)
            for slot in range(first, last):
                if is_moving:
                    target.command("CLUSTER", "SETSLOT", slot, "IMPORTING", node.id())
                    node.command("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id())
                else:
                    target.command("CLUSTER", "SETSLOT", slot, "STABLE")
                    node.command("CLUSTER", "SETSLOT", slot, "STABLE")

    def stop(self):
        for node in self.nodes:
            node.process.terminate()
            node.process.wait()


class ClusterNode(Redis):
    """One node, and a connection to it."""

    def __init__(self, port, process):
        self.port, self.process = port, process
        self._id = None

    def connect(self):
        deadline = time.monotonic() + 10
        while True:
            try:
                self._use(socket.create_connection(("127.0.0.1", self.port)))
                break
            except OSError:
                if time.monotonic() > deadline:
                    sys.exit("bench: a node of the cluster does not start")
                time.sleep(0.02)

    def id(self):
        if not self._id:
            self._id = self.command("CLUSTER", "MYID").decode().strip()
        return self._id


class Contender:
    """One process that answers each line `run MILLISECONDS [PARTICIPANTS]` with one line of JSON."""

    def __init__(self, name, command):
        self.name = name
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # Lost locks are expected; an error that ends a contender is printed anyway.
            env=os.environ | {"QT_LOGGING_RULES": "qdistlock.lock=false"},
        )

    def begin(self, milliseconds, participants=None):
        words = ["run", milliseconds] + ([] if participants is None else [participants])
        try:
            print(*words, file=self.process.stdin, flush=True)
        except OSError:
            self._failed()

    def result(self):
        try:
            return json.loads(self.process.stdout.readline())
        except ValueError:
            self._failed()

    def run(self, milliseconds, participants=None):
        self.begin(milliseconds, participants)
        return self.result()

    def _failed(self):
        self.process.kill()
        sys.exit(f"bench: {self.name} ended without a result")

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            sys.exit(f"bench: {self.name} did not end within a minute")
        if self.process.returncode != 0:
            sys.exit(f"bench: {self.name} ended with {self.process.returncode}")


class Group:
    """The processes of one contender in which a crowd of clients runs."""

    def __init__(self, name, crowd, command):
        self.name, self.crowd = name, crowd
        self.members = [Contender(name, command) for _ in range(crowd.processes)]

    def begin(self, milliseconds):
        for member in self.members:
            member.begin(milliseconds, self.crowd.each)

    def results(self):
        return [member.result() for member in self.members]

    def run(self, milliseconds):
        self.begin(milliseconds)
        return self.results()

    def close(self):
        for member in self.members:
            member.close()


def rotated(contenders, repetition):
    turn = repetition % len(contenders)
    return contenders[turn:] + contenders[:turn]


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def ratios(ours, theirs):
    """The ratios within each repetition."""
    return spread([our / their for our, their in zip(ours, theirs)])


class Target:
    """A requirement of a case: a value, and its bound."""

    def __init__(self, what, value, at_least=None, at_most=None):
        self.what, self.value, self.at_least, self.at_most = what, value, at_least, at_most
        low, high = at_least is not None, at_most is not None
        self.met = not (low and value < at_least) and not (high and value > at_most)

    def to_json(self):
        bound = {"atLeast": self.at_least} if self.at_least is not None else {"atMost": self.at_most}
        return {"what": self.what, "value": self.value, "met": self.met} | bound

    def __str__(self):
        bound = f"≥ {number(self.at_least)}" if self.at_least is not None else f"≤ {number(self.at_most)}"
        return f"{self.what}: {number(self.value)}, wanted {bound}: {'met' if self.met else 'MISSED'}"


def number(value):
    """A number with as many digits as a reader needs."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if value and abs(value) < 0.01:
        return f"{value:.4f}"
    if abs(value) < 10 and value != int(value):
        return f"{value:.2f}"
    return f"{value:,.1f}" if abs(value) < 100 and value != int(value) else f"{value:,.0f}"


def with_spread(figure):
    if figure is None:
        return "–"
    return f"{number(figure['median'])} ({number(figure['min'])} – {number(figure['max'])})"


def table(head, rows):
    """Lines of a Markdown table, aligned, so that it also reads well as plain text."""
    cells = [head] + [[cell if isinstance(cell, str) else number(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]

    def line(row):
        padded = [row[0].ljust(widths[0])]
        padded += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
        return "| " + " | ".join(padded) + " |"

    rule = ["-" * widths[0]] + ["-" * (width - 1) + ":" for width in widths[1:]]
    return [line(cells[0]), "| " + " | ".join(rule) + " |"] + [line(row) for row in cells[1:]]
