#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT
"""Writes the files that a mutant changes: mutate.py MUTANT SOURCE-FOLDER OUTPUT-FOLDER

A mutant is a text file. It begins with comment lines (#): the rule it breaks, the violations that convict it, and the
forms and faults in which it shows (see Mutant in chaos.py). Then for each change

    @@ path of a file in the source folder
    - the old lines, which the file must contain exactly once, each after a minus and a blank
    + the new lines

The changed files keep their paths. If one is a script, all scripts are written, since they belong together. A change
that does not apply is an error: the mutant must follow the source.
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
