# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT
"""redis-py's Lock as a contender: `redispy.py --server URL [--clients N] [--locks N] KIND`, see main().

Its options are its defaults, but for a lease of 30 s. One thread for each lock, as in a Python program.
"""

import argparse
import json
import logging
import os
import select
import sys
import threading
import time
import urllib.parse

import redis
import redis.cluster
import redis.sentinel


def microseconds():
    return time.monotonic_ns() // 1000


def nodes(url):
    """Host and port of each node of a cluster or each Sentinel."""
    parts = urllib.parse.urlsplit(url)
    others = urllib.parse.parse_qs(parts.query).get("node", [])
    return [(parts.hostname, parts.port)] + [(host, int(port)) for host, port in (node.split(":") for node in others)]


def connect(url):
    if url.startswith("redis+cluster:"):
        return redis.RedisCluster(startup_nodes=[redis.cluster.ClusterNode(*node) for node in nodes(url)])
    return redis.Redis.from_url(url)


class Pairs:
    """One lock, acquired and released again and again."""

    def __init__(self, options):
        self.lock = connect(options.server).lock("bench:redis-py", timeout=30)

    def run(self, seconds, _):
        end = time.monotonic() + seconds
        pairs = 0
        while True:
            self.lock.acquire()
            self.lock.release()
            pairs += 1
            if time.monotonic() >= end:
                return {"operations": pairs}


class Contended:
    """All clients acquire the same lock, again as soon as they have released it."""

    def __init__(self, options):
        self.locks = []
        for _ in range(options.clients):
            client = connect(options.server)
            for _ in range(options.locks):
                self.locks.append(client.lock("bench:contended:redis-py", timeout=30))

    def run(self, seconds, participants):
        end = time.monotonic() + seconds
        turns = []  # list.append is atomic

        def work(client, lock):
            while True:
                asked = microseconds()
                lock.acquire()
                turns.append((client, asked, microseconds()))
                lock.release()
                if time.monotonic() >= end:
                    break

        threads = [
            threading.Thread(target=work, args=[client, lock])
            for client, lock in enumerate(self.locks[:participants])
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return {
            "operations": len(turns),
            "clients": [turn[0] for turn in turns],
            "asked": [turn[1] for turn in turns],
            "acquired": [turn[2] for turn in turns],
        }


class Turns:
    """One lock after the other, each acquired and released."""

    def __init__(self, options):
        client = connect(options.server)
        self.locks = [client.lock(f"bench:turns:redis-py:{{{i}}}", timeout=30) for i in range(options.locks)]
        self.index = 0

    def run(self, seconds, _):
        times, errors = [], 0
        end = time.monotonic() + seconds
        while True:
            lock = self.locks[self.index]
            self.index = (self.index + 1) % len(self.locks)
            begin = microseconds()
            try:
                lock.acquire()
                lock.release()
            except redis.exceptions.RedisError:
                errors += 1
            times.append(microseconds() - begin)
            if time.monotonic() >= end:
                return {"operations": len(times), "microseconds": times, "errors": errors}


class Resharding:
    """As LibraryResharding."""

    def __init__(self, options):
        self.options = options
        self.client = connect(options.server)

    def run(self, seconds, _):
        end = time.monotonic() + seconds
        counts = []  # list.append is atomic
        threads = [
            threading.Thread(target=self.work, args=[i, end, counts.append]) for i in range(self.options.locks)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        names = {"operations": "acquired", "overlaps": "overlap", "lost": "lost", "errors": "error"}
        return {name: counts.count(event) for name, event in names.items()}

    def work(self, index, end, tell):
        lock = self.client.lock(f"bench:resharding:redis-py:{{{index}}}", timeout=30)
        witness = os.path.join(self.options.witness, str(index))
        work = self.options.work * (100 if index % 8 == 0 else 1) / 1000
        while True:
            try:
                lock.acquire()
                tell("acquired")
                self.hold(witness, min(work, end - time.monotonic()), tell)
                lock.release()
            except redis.exceptions.LockError:
                tell("lost")
            except redis.exceptions.RedisError:
                tell("error")
            if time.monotonic() >= end:
                return
            time.sleep(self.options.pause / 1000)

    @staticmethod
    def hold(witness, seconds, tell):
        try:
            os.mkdir(witness)
        except FileExistsError:
            tell("overlap")
            time.sleep(max(0, seconds))
            return
        time.sleep(max(0, seconds))
        os.rmdir(witness)


class Sentinel:
    """A lock that is held over fail-overs, and renewed each third of its lease; each 100 ms after an error.

    The time-out for commands is that of redis-py's documentation. A run lasts until the next line on standard input.
    """

    def __init__(self, options):
        master = self.connect(options.server)
        self.lease = options.lease / 1000
        self.lock = master.lock(f"bench:sentinel:{os.getpid()}:0", timeout=self.lease, thread_local=False)
        self.renewed, self.lost, self.held = [], 0, 0
        threading.Thread(target=self.hold, daemon=True).start()

    @staticmethod
    def connect(url):
        if url.startswith("redis+cluster:"):
            return connect(url)
        parts = urllib.parse.urlsplit(url)
        sentinel = redis.sentinel.Sentinel(nodes(url), socket_timeout=0.1)
        return sentinel.master_for(parts.path[1:], socket_timeout=0.1, password=parts.password)

    def hold(self):
        while True:
            try:
                if not self.held:
                    self.held = int(self.lock.acquire())
                else:
                    self.lock.reacquire()
                    self.renewed.append(microseconds())
                pause = self.lease / 3
            except redis.exceptions.LockError:
                self.held, pause = 0, 0.1
                self.lost += 1
            except redis.exceptions.RedisError:
                pause = 0.1
            time.sleep(pause)

    def run(self, _, __):
        select.select([sys.stdin], [], [])
        renewed, self.renewed = self.renewed, []
        lost, self.lost = self.lost, 0
        return {"renewed": renewed, "lost": lost, "held": self.held}


def main():
    logging.disable()  # the client for clusters prints a stack for each redirection
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", required=True)
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--locks", type=int, default=1)
    parser.add_argument("--lease", type=int, default=30000)
    parser.add_argument("--work", type=int, default=0)
    parser.add_argument("--pause", type=int, default=0)
    parser.add_argument("--witness", default=".")
    kinds = {
        "pairs": Pairs,
        "contended": Contended,
        "turns": Turns,
        "resharding": Resharding,
        "sentinel": Sentinel,
    }
    parser.add_argument("contender", choices=kinds)
    options = parser.parse_args()
    contender = kinds[options.contender](options)
    for line in open(sys.stdin.fileno(), "rb", buffering=0):  # select() does not see what is in a buffer
        words = line.split()
        participants = int(words[2]) if len(words) > 2 else options.clients * options.locks
        start, cpu = time.monotonic(), time.process_time()
        result = contender.run(int(words[1]) / 1000, participants)
        result["seconds"] = time.monotonic() - start
        result["cpuSeconds"] = time.process_time() - cpu
        print(json.dumps(result), flush=True)


main()
