#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT

"""Checks which room of src/ includes which: docs/architecture.md explains the rooms.

Usage: includes.py <source folder>. Prints each forbidden include and exits with 1 if there is one.
"""

import pathlib
import re
import sys

# Room -> the rooms, or single headers, that its files may include besides their own.
ALLOWED = {
    "base": [],
    "redis": ["base/backoff.h", "base/forkcount.h", "base/leaseclock.h", "base/postedcall.h"],  # of use to any client
    "zookeeper": ["base/postedcall.h"],
    "engine": ["base"],
    "engine/redis": ["redis", "engine", "base"],
    "engine/memory": ["engine", "base"],
    "engine/quorum": ["engine/redis", "redis", "engine", "base"],  # over several engines of engine/redis
    "engine/zookeeper": ["zookeeper", "engine", "base"],
    "core": ["engine", "base"],
    "metrics": ["core", "engine", "base"],
    "lock": ["metrics", "core", "engine", "base"],
    "monitor": ["lock", "engine", "base"],
    "background": ["lock", "core", "engine", "base"],
    "annotations": ["background", "lock", "core", "engine", "base"],
}
# (file name without suffix, room or header): includes that are allowed beyond the table.
EXCEPTIONS = {
    ("engine/servername", "redis"),
    ("engine/servername", "engine/zookeeper"),
    ("engine/enginefactory", "engine/redis"),  # only the factory knows all engines
    ("engine/enginefactory", "engine/memory"),
    ("engine/enginefactory", "engine/quorum"),
    ("engine/enginefactory", "engine/zookeeper"),
    ("engine/zookeeper/zookeeperurl", "redis"),  # addresses and passwords are written as in Redis' URLs
    ("engine/zookeeper/zookeeperengine", "engine/redis/clientname.h"),  # and so is who holds a lock
}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def room_of(path):
    """The room of a path relative to src/: its longest folder that is a room."""
    folder = path.rpartition("/")[0]
    while folder and folder not in ALLOWED:
        folder = folder.rpartition("/")[0]
    return folder


def main():
    source = pathlib.Path(sys.argv[1], "src")
    status = 0
    for file in sorted([*source.rglob("*.h"), *source.rglob("*.cpp")]):
        name = file.relative_to(source).as_posix()
        room = room_of(name)
        if not room:
            print(f"src/{name}: lies in no room that tests/house/includes.py knows")
            status = 1
            continue
        for included in INCLUDE.findall(file.read_text()):
            if included == "scripts.h":  # generated from engine/redis/scripts
                included = "engine/redis/scripts.h"
            target = room_of(included)
            if not target:
                print(f'src/{name}: "{included}" must name its room, as in "core/watchdog.h"')
                status = 1
            elif target != room and target not in ALLOWED[room] and included not in ALLOWED[room]:
                stem = name.rpartition(".")[0]
                if (stem, target) not in EXCEPTIONS and (stem, included) not in EXCEPTIONS:
                    print(f'src/{name}: {room} must not include "{included}"')
                    status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
