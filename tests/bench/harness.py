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


class Server:
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
                self._reader = self._connection.makefile("rb")
                return
        sys.exit("bench: redis-server does not start")

    def _answers(self):
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and self.process.poll() is None:
            self._connection = socket.socket(socket.AF_UNIX)
            try:
                self._connection.connect(self.socket)
                return True
            except OSError:
                self._connection.close()
                time.sleep(0.02)
        self.stop()
        return False

    def info(self, section):
        self._connection.sendall(b"INFO %s\r\n" % section.encode())
        size = int(self._reader.readline()[1:])
        text = self._reader.read(size + 2).decode()
        return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)

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

    def version(self):
        return self.info("server").get("redis_version", "unknown")

    def stop(self):
        self.process.terminate()
        self.process.wait()


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
