# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT
"""kazoo's Lock as a contender: `kazoolock.py --server URL [--work MS] [--pause MS] [--witness FOLDER] KIND`.

The kinds are the classes below.
"""

import argparse
import json
import logging
import os
import sys
import time
import urllib.parse

import kazoo.client


def microseconds():
    return time.monotonic_ns() // 1000


def connect(url):
    parts = urllib.parse.urlsplit(url)
    hosts = [parts.netloc] + urllib.parse.parse_qs(parts.query).get("node", [])
    client = kazoo.client.KazooClient(hosts=",".join(hosts), timeout=600)
    client.start()
    return client


class Pairs:
    """One lock, acquired and released again and again."""

    def __init__(self, options):
        self.lock = connect(options.server).Lock(f"/bench-kazoo-{os.getpid()}")

    def run(self, seconds):
        end = time.monotonic() + seconds
        pairs = 0
        while True:
            self.lock.acquire()
            self.lock.release()
            pairs += 1
            if time.monotonic() >= end:
                return {"operations": pairs}


class Contended:
    """One lock that other processes acquire, too."""

    def __init__(self, options):
        self.lock = connect(options.server).Lock("/bench-contended-kazoo")
        self.work, self.pause = options.work / 1000, options.pause / 1000

    def run(self, seconds):
        end = time.monotonic() + seconds
        asked, acquired, released = [], [], []
        while True:
            asked.append(microseconds())
            self.lock.acquire()
            acquired.append(microseconds())
            time.sleep(self.work)
            released.append(microseconds())
            self.lock.release()
            if time.monotonic() >= end:
                break
            time.sleep(self.pause)
        return {
            "operations": len(asked),
            "clients": [0] * len(asked),
            "asked": asked,
            "acquired": acquired,
            "released": released,
        }


class Resharding:
    """As LibraryResharding, but one lock, which is also that of QDistLock."""

    def __init__(self, options):
        path = urllib.parse.urlsplit(options.server).path + "/lock:bench:resharding:{0}"
        self.lock = connect(options.server).Lock(path, extra_lock_patterns=["-lock-"])
        self.witness = os.path.join(options.witness, "0")
        self.work, self.pause = options.work / 1000, options.pause / 1000

    def run(self, seconds):
        end = time.monotonic() + seconds
        acquisitions = overlaps = 0
        while True:
            self.lock.acquire()
            acquisitions += 1
            try:
                os.mkdir(self.witness)
                time.sleep(self.work)
                os.rmdir(self.witness)
            except FileExistsError:
                overlaps += 1
            self.lock.release()
            if time.monotonic() >= end:
                return {"operations": acquisitions, "overlaps": overlaps, "lost": 0, "errors": 0}
            time.sleep(self.pause)


def main():
    logging.disable()
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", required=True)
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--locks", type=int, default=1)
    parser.add_argument("--work", type=int, default=0)
    parser.add_argument("--pause", type=int, default=0)
    parser.add_argument("--witness", default=".")
    kinds = {"pairs": Pairs, "contended": Contended, "resharding": Resharding}
    parser.add_argument("contender", choices=kinds)
    options = parser.parse_args()
    contender = kinds[options.contender](options)
    for line in sys.stdin:
        start, cpu = time.monotonic(), time.process_time()
        result = contender.run(int(line.split()[1]) / 1000)
        result["seconds"] = time.monotonic() - start
        result["cpuSeconds"] = time.process_time() - cpu
        print(json.dumps(result), flush=True)


main()
