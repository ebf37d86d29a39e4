# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT
"""redis-py's Lock as a contender: `redispy.py --server URL [--clients N] [--locks N] pairs|contended|sentinel`.

Its options are its defaults, but for a lease of 30 s. One thread for each lock, as in a Python program.
"""

import argparse
import json
import os
import select
import sys
import threading
import time
import urllib.parse

import redis
import redis.sentinel


def microseconds():
    return time.monotonic_ns() // 1000


def connect(url):
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


class Sentinel:
    """A lock that is held over fail-overs, and renewed each third of its lease; each 100 ms after an error.

    The time-out for commands is that of redis-py's documentation. A run lasts until the next line on standard input.
    """

    def __init__(self, options):
        url = urllib.parse.urlsplit(options.server)
        nodes = [f"{url.hostname}:{url.port}"] + urllib.parse.parse_qs(url.query).get("node", [])
        addresses = [node.rsplit(":", 1) for node in nodes]
        sentinel = redis.sentinel.Sentinel(addresses, socket_timeout=0.1)
        master = sentinel.master_for(url.path[1:], socket_timeout=0.1, password=url.password)
        self.lease = options.lease / 1000
        self.lock = master.lock(f"bench:sentinel:{os.getpid()}:0", timeout=self.lease, thread_local=False)
        self.renewed, self.lost, self.held = [], 0, 0
        threading.Thread(target=self.hold, daemon=True).start()

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
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", required=True)
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--locks", type=int, default=1)
    parser.add_argument("--lease", type=int, default=30000)
    kinds = {"pairs": Pairs, "contended": Contended, "sentinel": Sentinel}
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
