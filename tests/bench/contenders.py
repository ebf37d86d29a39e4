# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT
"""Who is compared: names, and how each is started."""

import os
import shutil
import subprocess
import sys

OURS = "qdistlock"
UNFAIR = "qdistlock, fair = false"
QT = "bare Qt socket"
HIREDIS = "bare hiredis"
REDIS_PY = "redis-py"
REDIS_SEMAPHORE = "redis-semaphore"
REDLOCK = "redlock (Node.js)"

# The commands that the scripts of each call, and its clients do not send.
INNER = {
    OURS: "get mget set del exists pexpire pttl time zadd zrange zrank zrem zscore zcard publish".split(),
    REDIS_PY: ["get", "del"],
    REDIS_SEMAPHORE: ["get", "del", "pexpire"],
    REDLOCK: ["get", "set", "del", "exists"],
}
INNER[UNFAIR] = INNER[OURS]

# What runs in Node.js is compiled while it runs; it gets no faster after so many ms.
WARM_UP = {REDIS_SEMAPHORE: 5000, REDLOCK: 5000}

# Not in the package registries that the other peers come from.
NOT_COMPARED = {
    "redis-plus-plus (RedMutex)": "no Debian package; it would have to be built from its own source",
    "rueidislock": "a Go module, which Debian does not package",
}

FOLDER = os.path.dirname(os.path.abspath(__file__))


def can_import_redis(python):
    return subprocess.run([python, "-c", "import redis.lock"], capture_output=True).returncode == 0


class Contenders:
    def __init__(self, options):
        self.program = options.program
        self.missing = dict(NOT_COMPARED)
        candidates = [sys.executable, "/usr/bin/python3"]
        self.python = next(filter(can_import_redis, filter(os.path.exists, candidates)), None)
        if not self.python:
            self.missing[REDIS_PY] = "python3-redis is not installed"
        self.node = shutil.which("node")
        packages = options.peers and os.path.join(options.peers, "node_modules", "ioredis")
        if not self.node or not packages or not os.path.isdir(packages):
            self.node = None
            for name in (REDIS_SEMAPHORE, REDLOCK):
                self.missing[name] = "node or its packages are not installed"
        else:
            os.environ["QDISTLOCK_BENCH_PEERS"] = os.path.abspath(options.peers)

    def available(self, names):
        return [name for name in names if name not in self.missing]

    def command(self, name, kind, url, clients=1, locks=1, lease=30000, work=0):
        """kind: pairs, times, contended, waiters, held, lost, scoped, reentry, flood."""
        where = ["--server", url, "--clients", str(clients), "--locks", str(locks)]
        if name == REDIS_PY:
            return [self.python, os.path.join(FOLDER, "peers", "redispy.py"), *where, kind]
        if name in (REDIS_SEMAPHORE, REDLOCK):
            script = os.path.join(FOLDER, "peers", "node.js")
            return [self.node, script, *where, name.split()[0], kind]
        where += ["--lease", str(lease), "--work", str(work)]
        if name == UNFAIR:
            where.append("--unfair")
        prefix = {QT: "qt-", HIREDIS: "hiredis-"}.get(name, "library-")
        return [self.program, *where, prefix + kind]
