# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT
"""What the cases share: the server, the contenders, and how figures are put together and shown."""

import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
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
        """Commands that clients have sent so far.

        Redis counts the commands inside scripts like any other. So those that the contender's scripts
        call, and its clients do not, are left out by name: what remains is what was sent, EVALSHA and
        EVAL with all they do counting as one.
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
            # Locks that are lost are part of the game; what ends a contender tells its reason anyway.
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
    """Several processes of one contender, which run at the same time."""

    def __init__(self, name, command, processes):
        self.name = name
        self.members = [Contender(name, command) for _ in range(processes)]

    def begin(self, milliseconds, processes, participants):
        for member in self.members[:processes]:
            member.begin(milliseconds, participants)

    def results(self, processes):
        return [member.result() for member in self.members[:processes]]

    def close(self):
        for member in self.members:
            member.close()


def rotated(contenders, repetition):
    turn = repetition % len(contenders)
    return contenders[turn:] + contenders[:turn]


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def ratios(ours, theirs):
    """Within each repetition."""
    return spread([our / their for our, their in zip(ours, theirs)])


class Target:
    """Something a case must show: a value, and the bound it must keep."""

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
    """As many digits as a reader needs."""
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
