#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT
"""Writes what a mutant changes: mutate.py MUTANT SOURCE-FOLDER OUTPUT-FOLDER

A mutant is a text file: lines of comment (#) that say which rule it breaks, what convicts it and in which
forms it shows (see Mutant in chaos.py), then for each change

    @@ path of a file in the source folder
    - the lines it replaces, as they stand there (exactly once), each after a minus and a blank
    + the lines it puts in their place

The changed files keep their paths. Where one is a script, all scripts are written, since they belong
together. It is an error if a change does not apply: then the mutant has to follow the source.
"""

import os
import sys


def changes(text):
    """[(path, old, new)]"""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("@@ "):
            found.append((line[3:].strip(), [], []))
        elif found and line[:1] == "-":
            found[-1][1].append(line[2:])
        elif found and line[:1] == "+":
            found[-1][2].append(line[2:])
        elif line and not line.startswith("#"):
            raise ValueError(f"line {number} is neither comment nor change: {line}")
    return [(path, "\n".join(old), "\n".join(new)) for path, old, new in found]


def apply(mutant, source):
    """{path: text}"""
    with open(mutant, encoding="utf-8") as file:
        wanted = changes(file.read())
    if not wanted:
        raise ValueError("it changes nothing")
    texts = {}
    for path, old, new in wanted:
        if path not in texts:
            with open(os.path.join(source, path), encoding="utf-8") as file:
                texts[path] = file.read()
        count = texts[path].count(old)
        if count != 1 or old == new:
            raise ValueError(f"{path}: these lines stand there {count} times, not once:\n{old}")
        texts[path] = texts[path].replace(old, new)
    scripts = {os.path.dirname(path) for path in texts if path.endswith(".lua")}
    for folder in scripts:
        for name in os.listdir(os.path.join(source, folder)):
            path = os.path.join(folder, name)
            if name.endswith(".lua") and path not in texts:
                with open(os.path.join(source, path), encoding="utf-8") as file:
                    texts[path] = file.read()
    return texts


def main():
    mutant, source, output = sys.argv[1:]
    try:
        texts = apply(mutant, source)
    except (OSError, ValueError) as error:
        print(f"{mutant}: {error}", file=sys.stderr)
        return 1
    for path, text in texts.items():
        target = os.path.join(output, path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "w", encoding="utf-8") as file:
            file.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
