# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT
"""redis-py's Lock as a contender: `redispy.py --server URL [--clients N] [--locks N] pairs|contended`.

Its options are its defaults, but for a lease of 30 s. One thread for each lock, as in a Python program.
"""

import argparse
import json
import sys
import threading
import time

import redis


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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", required=True)
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--locks", type=int, default=1)
    parser.add_argument("contender", choices=["pairs", "contended"])
    options = parser.parse_args()
    contender = {"pairs": Pairs, "contended": Contended}[options.contender](options)
    for line in sys.stdin:
        words = line.split()
        participants = int(words[2]) if len(words) > 2 else options.clients * options.locks
        start, cpu = time.monotonic(), time.process_time()
        result = contender.run(int(words[1]) / 1000, participants)
        result["seconds"] = time.monotonic() - start
        result["cpuSeconds"] = time.process_time() - cpu
        print(json.dumps(result), flush=True)


main()
