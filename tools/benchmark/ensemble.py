# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT
"""ZooKeeper servers, and what they have counted."""

import os
import random
import shutil
import socket
import subprocess

from sentinels import HOST, eventually

JAR = "/usr/share/java/zookeeper.jar"


def is_installed():
    return bool(shutil.which("java")) and os.path.exists(JAR)


def free_port():
    """Below those of clients: whoever asks before the server listens could be connected to itself."""
    while True:
        port = random.randrange(22000, 30000)
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
                return port
            except OSError:
                pass


class Ensemble:
    """A private ensemble; on_disk: a write waits for the disk, as by default.

    Sessions may be long, because contenders are silent while others have their turn.
    """

    def __init__(self, folder, size, on_disk):
        self.ports = [free_port() for _ in range(size)]
        self._asked = 0
        peers = [
            f"server.{index + 1}={HOST}:{free_port()}:{free_port()}" for index in range(size) if size > 1
        ]
        self._processes = []
        for index, port in enumerate(self.ports):
            path = os.path.join(folder, f"zookeeper-{size}-{index}")
            os.mkdir(path)
            lines = ["tickTime=2000", "initLimit=10", "syncLimit=5", "maxClientCnxns=0", *peers]
            lines += ["maxSessionTimeout=600000"]
            lines += [f"dataDir={path}", f"clientPort={port}", f"clientPortAddress={HOST}"]
            lines += ["admin.enableServer=false", "4lw.commands.whitelist=*"]
            lines += [f"forceSync={'yes' if on_disk else 'no'}"]
            for name, content in [("zoo.cfg", "\n".join(lines)), ("myid", str(index + 1))]:
                with open(os.path.join(path, name), "w", encoding="utf-8") as file:
                    file.write(content + "\n")
            main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
            self._processes.append(
                subprocess.Popen(
                    ["java", "-Xmx512m", "-cp", JAR, main, os.path.join(path, "zoo.cfg")],
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )
        eventually(lambda: all("Mode: " in self._ask(port, "srvr") for port in self.ports))

    def url(self, session=600):
        """session: seconds."""
        first, *others = [f"{HOST}:{port}" for port in self.ports]
        return f"zookeeper://{first}/bench?session={1000 * session}" + "".join(f"&node={node}" for node in others)

    def _ask(self, port, word):
        self._asked += 1
        try:
            with socket.create_connection((HOST, port), 10) as link:
                link.sendall(word.encode())
                with link.makefile("r", encoding="utf-8") as reader:
                    return reader.read()
        except OSError:
            return ""

    def counters(self):
        """Those of each server."""
        return [
            dict(line.split("\t", 1) for line in self._ask(port, "mntr").splitlines() if "\t" in line)
            for port in self.ports
        ]

    def version(self):
        return self.counters()[0]["zk_version"].split("-")[0]

    def commands(self, _):
        """The requests of clients so far, pings included; for measure()."""
        # An answer counts its own question.
        return sum(int(each["zk_packets_received"]) for each in self.counters()) - self._asked

    def writes(self):
        """The transactions so far: each has a number, those of writes that the ensemble refused, too."""
        return max(int(self._ask(port, "srvr").split("Zxid: ")[1].split()[0], 16) for port in self.ports)

    def data_bytes(self):
        return int(self.counters()[0]["zk_approximate_data_size"])

    def cpu_seconds(self):
        ticks = 0
        for process in self._processes:
            with open(f"/proc/{process.pid}/stat", encoding="utf-8") as file:
                ticks += sum(map(int, file.read().rsplit(")", 1)[1].split()[11:13]))
        return ticks / os.sysconf("SC_CLK_TCK")

    def stop(self):
        for process in self._processes:
            process.kill()
            process.wait()
