# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT
"""The contenders: their names, and how each is started."""

import os
import shutil
import subprocess
import sys

OURS = "qdistlock"
BEFORE = "qdistlock before"  # the build folder of --before
UNFAIR = "qdistlock, fair = false"
QT = "bare Qt socket"
HIREDIS = "bare hiredis"
REDIS_PY = "redis-py"
REDIS_SEMAPHORE = "redis-semaphore"
REDLOCK = "redlock (Node.js)"
BARE_ZOOKEEPER = "bare C client"
KAZOO = "kazoo"
CURATOR = "Curator"

# For each contender: commands that only its scripts call, not its clients.
INNER = {
    OURS: "get mget set del exists pexpire pexpireat pttl time zadd zrange zrank zrem zscore zcard publish spublish".split(),
    REDIS_PY: ["get", "del"],
    REDIS_SEMAPHORE: ["get", "del", "pexpire"],
    REDLOCK: ["get", "set", "del", "exists"],
}
INNER[UNFAIR] = INNER[BEFORE] = INNER[OURS]

# Node.js and Java compile code while they run; after this many ms they get no faster.
WARM_UP = {REDIS_SEMAPHORE: 5000, REDLOCK: 5000, CURATOR: 5000}

# Not available in the package registries of the other peers.
NOT_COMPARED = {
    "redis-plus-plus (RedMutex)": "no Debian package; it would have to be built from its own source",
    "rueidislock": "a Go module, which Debian does not package",
}

FOLDER = os.path.dirname(os.path.abspath(__file__))
CURATOR_JAR = "/usr/share/java/curator-recipes.jar"


def python_with(module):
    """An interpreter that has the module; None if there is none."""
    candidates = filter(os.path.exists, [sys.executable, "/usr/bin/python3"])
    return next(
        (
            python
            for python in candidates
            if subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode == 0
        ),
        None,
    )


class Contenders:
    def __init__(self, options):
        self.program = options.program
        self.before = options.before and os.path.join(options.before, "tools", "benchmark", "qdistlock_bench")
        if self.before and not os.path.exists(self.before):
            sys.exit(f"bench: {self.before} does not exist")
        self.missing = dict(NOT_COMPARED)
        self.python = python_with("redis.lock")
        if not self.python:
            self.missing[REDIS_PY] = "python3-redis is not installed"
        self.kazoo_python = python_with("kazoo.client")
        if not self.kazoo_python:
            self.missing[KAZOO] = "python3-kazoo is not installed"
        if not os.path.exists(CURATOR_JAR):
            self.missing[CURATOR] = "libcurator-recipes-java is not installed"
        kinds = subprocess.run([self.program, "--help"], capture_output=True, text=True).stdout
        if "zookeeper-pairs" not in kinds:
            self.missing[BARE_ZOOKEEPER] = "libzookeeper-st-dev was not installed when qdistlock_bench was built"
        self.node = shutil.which("node")
        packages = options.peers and os.path.join(options.peers, "node_modules", "ioredis")
        if not self.node or not packages or not os.path.isdir(packages):
            self.node = None
            for name in (REDIS_SEMAPHORE, REDLOCK):
                self.missing[name] = "node or its packages are not installed"
        else:
            os.environ["QDISTLOCK_BENCH_PEERS"] = os.path.abspath(options.peers)

    def available(self, names):
        """Those of the names that can be run; after our library its former version, if there is one to compare with."""
        former = [BEFORE] if self.before else []
        found = [[name, *former] if name == OURS else [name] for name in names if name not in self.missing]
        return sum(found, [])

    def command(self, name, kind, url, clients=1, locks=1, lease=30000, work=0, pause=0, witness=None, permits=0):
        """kind: pairs, times, send, receive, contended, waiters, held, lost, scoped, reentry, flood, sentinel,
        beside-wait, turns, together, one-by-one, resharding, readers, readwrite, monitor."""
        where = ["--server", url, "--clients", str(clients), "--locks", str(locks)]
        where += ["--work", str(work)]
        if pause:  # unknown to versions that --before may name
            where += ["--pause", str(pause)]
        if permits:
            where += ["--permits", str(permits)]
        if witness:
            where += ["--witness", witness]
        if name == REDIS_PY:
            return [self.python, os.path.join(FOLDER, "peers", "redispy.py"), *where, "--lease", str(lease), kind]
        if name in (REDIS_SEMAPHORE, REDLOCK):
            script = os.path.join(FOLDER, "peers", "node.js")
            return [self.node, script, *where, name.split()[0], kind]
        if name == KAZOO:
            return [self.kazoo_python, os.path.join(FOLDER, "peers", "kazoolock.py"), *where, kind]
        if name == CURATOR:
            jars = f"{CURATOR_JAR}:/usr/share/java/slf4j-nop.jar"
            return ["java", "-cp", jars, os.path.join(FOLDER, "peers", "CuratorLock.java"), *where, kind]
        where += ["--lease", str(lease)]
        if name == UNFAIR:
            where.append("--unfair")
        prefix = {QT: "qt-", HIREDIS: "hiredis-", BARE_ZOOKEEPER: "zookeeper-"}.get(name, "library-")
        return [self.before if name == BEFORE else self.program, *where, prefix + kind]
