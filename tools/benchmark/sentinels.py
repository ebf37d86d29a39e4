# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT
"""Real servers with replicas and Sentinels, and what they say."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

SERVICE = "mymaster"
HOST = "127.0.0.1"
PASSWORD = "bench"  # of the servers, so that a user who was locked out has no rights


def microseconds():
    return time.monotonic_ns() // 1000


def eventually(condition, seconds=60):
    """Waits until the condition is true; ends the program if it never is."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            sys.exit("bench: the servers or Sentinels did not do in time what they should")
        time.sleep(0.01)


def free_port():
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]


class Link:
    """One connection; blocks, with a time-out."""

    def __init__(self, port, timeout=2):
        self._socket = socket.create_connection((HOST, port), timeout)
        self._reader = self._socket.makefile("rb")
        self.command("AUTH", PASSWORD)  # refused by those without a password

    def send(self, *words):
        encoded = [str(word).encode() for word in words]
        lines = b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in encoded)
        self._socket.sendall(b"*%d\r\n" % len(encoded) + lines)

    def read(self):
        line = self._reader.readline().rstrip(b"\r\n")
        kind, text = line[:1], line[1:].decode()
        if kind == b"$":
            return None if text == "-1" else self._reader.read(int(text) + 2)[:-2].decode()
        if kind == b"*":
            return [self.read() for _ in range(int(text))]
        if kind == b":":
            return int(text)
        if kind in (b"+", b"-"):
            return text
        raise OSError("the connection was closed")

    def command(self, *words):
        self.send(*words)
        return self.read()

    def listen(self, heard):
        """Calls heard(reply, µs) in a thread for everything that comes, until the connection ends."""
        self._socket.settimeout(None)

        def work():
            try:
                while True:
                    reply = self.read()
                    heard(reply, microseconds())
            except (OSError, ValueError):
                pass

        threading.Thread(target=work, daemon=True).start()

    def close(self):
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._socket.close()


def ask(port, *words):
    """One command; None without an answer."""
    try:
        link = Link(port)
    except OSError:
        return None
    try:
        return link.command(*words)
    except (OSError, ValueError):
        return None
    finally:
        link.close()


class Program:
    """A server or a Sentinel, on a free port."""

    def __init__(self, folder, name, lines, sentinel=False):
        self.port = free_port()
        self.sentinel = sentinel
        self._config = os.path.join(folder, f"{name}.conf")
        with open(self._config, "w", encoding="utf-8") as file:
            base = [f"port {self.port}", f"bind {HOST}", f'dir "{folder}"', "loglevel warning"]
            file.write("\n".join(base + lines) + "\n")
        self.start()

    def start(self):
        command = [shutil.which("redis-server"), self._config] + ["--sentinel"] * self.sentinel
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        eventually(lambda: ask(self.port, "PING") == "PONG")

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.process.kill()
        self.process.wait()


class Monitor:
    """The commands that clients send to one server, those that scripts call left out."""

    def __init__(self, port):
        self.lines = []  # list.append is atomic
        self._link = Link(port)
        self._link.command("MONITOR")
        self._link.listen(lambda line, when: self.lines.append((when, line)))

    def count(self, word, begin=0):
        """The commands with the word from the line with this number on."""
        return sum(word in line and " lua]" not in line for _, line in self.lines[begin:])

    def close(self):
        self._link.close()


class SentinelSet:
    """A master, two replicas and three Sentinels. The Sentinels find each other faster than by default."""

    def __init__(self, folder, down_after):
        # A replica whose master is stopped would keep the connection to it for a minute, even if it has a new master.
        common = ["save \"\"", "repl-timeout 5", "repl-ping-replica-period 1", "repl-diskless-sync-delay 0"]
        common += [f"requirepass {PASSWORD}", f"masterauth {PASSWORD}"]
        common += [f"user sentinel{i} on nopass ~* &* +@all" for i in range(3)]
        self.servers = [Program(folder, "server0", common)]
        first = self.servers[0].port
        for i in (1, 2):
            self.servers.append(Program(folder, f"server{i}", common + [f"replicaof {HOST} {first}"]))
        self.sentinels = []
        for i in range(3):
            lines = [
                f"sentinel monitor {SERVICE} {HOST} {first} 2",
                f"sentinel down-after-milliseconds {SERVICE} {down_after}",
                f"sentinel failover-timeout {SERVICE} 2000",
                f"sentinel parallel-syncs {SERVICE} 5",
                f"sentinel auth-user {SERVICE} sentinel{i}",
                f"sentinel auth-pass {SERVICE} any",
            ]
            self.sentinels.append(Program(folder, f"sentinel{i}", lines, sentinel=True))
        for sentinel in self.sentinels:
            # Neither the vote nor the news of it depends on these.
            periods = ["INFO-PERIOD", 300, "ASK-PERIOD", 200, "MIN-LINK-RECONNECT-PERIOD", 1000]
            ask(sentinel.port, "SENTINEL", "DEBUG", *periods)
        self.switches = []  # (µs, port) of each +switch-master, as each Sentinel publishes it
        for sentinel in self.sentinels:
            link = Link(sentinel.port)
            link.command("SUBSCRIBE", "+switch-master")
            link.listen(lambda message, when: self.switches.append((when, int(message[2].split()[4]))))
        self.wait_until_healthy()

    def url(self):
        others = "&".join(f"node={HOST}:{sentinel.port}" for sentinel in self.sentinels[1:])
        return f"redis+sentinel://:{PASSWORD}@{HOST}:{self.sentinels[0].port}/{SERVICE}?{others}"

    def _fields(self, sentinel):
        reply = ask(sentinel.port, "SENTINEL", "MASTER", SERVICE) or []
        return dict(zip(reply[::2], reply[1::2]))

    def master(self):
        port = int(self._fields(self.sentinels[0])["port"])
        return next(server for server in self.servers if server.port == port)

    def _is_healthy(self):
        views = [self._fields(sentinel) for sentinel in self.sentinels]
        ports = {view.get("port") for view in views}
        if len(ports) != 1 or None in ports:
            return False
        if any((v["flags"], v["num-slaves"], v["num-other-sentinels"]) != ("master", "2", "2") for v in views):
            return False
        port = int(ports.pop())
        for server in self.servers:
            role = ask(server.port, "ROLE")
            if not role or (role[0] == "master") != (server.port == port):
                return False
            if server.port != port and (role[2], role[3]) != (port, "connected"):
                return False
        return True

    def wait_until_healthy(self):
        eventually(self._is_healthy, 120)

    def wait_for_switch(self, begin):
        """Until every Sentinel has published a switch since `begin`, the number of those before; returns the first."""
        eventually(lambda: len(self.switches) >= begin + len(self.sentinels))
        return self.switches[begin]

    def hide_master(self):
        """Cuts the master off from its Sentinels, which replace it and cannot demote it. Clients are not affected."""
        master = self.master()
        for i in range(len(self.sentinels)):
            ask(master.port, "ACL", "SETUSER", f"sentinel{i}", "off")
            ask(master.port, "CLIENT", "KILL", "USER", f"sentinel{i}")
        return master

    def heal(self, server):
        for i in range(len(self.sentinels)):
            ask(server.port, "ACL", "SETUSER", f"sentinel{i}", "on")
        ask(server.port, "CLIENT", "KILL", "TYPE", "normal")
        ask(server.port, "CLIENT", "KILL", "TYPE", "pubsub")

    def signal_sentinels(self, number):
        for sentinel in self.sentinels:
            sentinel.signal(number)

    def stop(self):
        for program in self.sentinels + self.servers:
            program.signal(signal.SIGCONT)
            program.kill()
