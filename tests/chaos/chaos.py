#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT
"""Plays rounds of chaos and has each judged: chaos.py --help"""

import argparse
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CHECK = os.path.join(HERE, "chaoscheck.py")
CHECK_EVERY = 3  # seconds, where a round is ended by the first violation
HUNT_ROUND = 10  # seconds of faults
ROUND = 60  # seconds of faults


def clean(folder):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)


def round_command(options, folder, seed, length, worker):
    return [
        os.path.join(options.programs, "chaosround"),
        *("--worker", os.path.join(options.programs, worker)),
        *("--folder", folder),
        *("--seed", str(seed)),
        *("--seconds", str(length)),
        *("--workers", str(options.workers)),
        *("--forms", options.forms),
    ]


def check(folder, *arguments):
    """(exit status, what it says, figures)"""
    result = os.path.join(folder, "figures.json")
    done = subprocess.run(
        [sys.executable, "-B", CHECK, *arguments, "--json", result, folder], stdout=subprocess.PIPE, text=True, check=False
    )
    figures = {}
    if done.returncode in (0, 1):
        with open(result, encoding="utf-8") as file:
            figures = json.load(file)
    return done.returncode, done.stdout, figures


class Total:
    """Of all rounds."""

    def __init__(self):
        self.rounds = 0
        self.numbers = dict.fromkeys(
            ("acquisitions", "faults", "overlaps", "writes", "stale", "refused", "lost", "lost_while_held")
            + ("holds_lost", "holds_killed", "keys_taken", "violations"),
            0,
        )
        self.kinds = {}
        self.forms = {}
        self.slowest = 0

    def add(self, figures):
        self.rounds += 1
        for name in self.numbers:
            self.numbers[name] += figures[name]
        for mine, theirs in ((self.kinds, "faults_by_kind"), (self.forms, "acquisitions_by_form")):
            for name, count in figures[theirs].items():
                mine[name] = mine.get(name, 0) + count
        self.slowest = max(self.slowest, figures.get("turn_ms", 0))

    def words(self):
        n = self.numbers
        return [
            f"{n['acquisitions']:,} acquisitions in {self.rounds} round{'s'[: self.rounds != 1]}: "
            + ", ".join(f"{count:,} {form}" for form, count in sorted(self.forms.items())),
            f"{n['faults']:,} faults of {len(self.kinds)} kinds: "
            + ", ".join(f"{kind} {count}" for kind, count in sorted(self.kinds.items())),
            f"{n['holds_lost']:,} holds lost, {n['holds_killed']:,} ended by the death of their process, "
            f"{n['keys_taken']:,} whose key a fault took away",
            f"{n['overlaps']} overlaps",
            f"{n['stale']} stale writes accepted, {n['refused']:,} refused, of {n['writes']:,}",
            f"{n['lost']:,} updates of the unfenced counters lost, {n['lost_while_held'] or 'none'} while all who wrote "
            "held their lock",
            f"after healing everybody had a turn of every lock within {self.slowest} ms",
        ]


def play(options, seed, length, folder, total):
    """One round to its end. True if nothing was found."""
    clean(folder)
    played = subprocess.run(round_command(options, folder, seed, length, "chaosworker"), check=False)
    picture = os.path.join(folder, "timeline.svg")
    status, words, figures = check(folder, "--picture", picture)
    if figures:
        total.add(figures)
    if played.returncode == 0 and status == 0:
        return True
    print(f"\nround with seed {seed}, {length} s:", flush=True)
    if played.returncode != 0:
        print(f"it could not be played: exit status {played.returncode}")
    print(words, end="")
    print(f"histories and timeline: {folder}", flush=True)
    return False


def hunt(options, mutant, seed, folder):
    """Rounds with a broken library, until it is convicted. True if it was."""
    begin = time.monotonic()
    spent = 0
    while spent < options.seconds:
        length = min(HUNT_ROUND, options.seconds - spent)
        words = hunt_round(options, mutant, seed, length, folder)
        if words:
            after = time.monotonic() - begin
            print(f"mutant {mutant}: caught after {after:.0f} s, seed {seed}", flush=True)
            print("\n".join("    " + line.replace(folder + os.sep, "") for line in words), flush=True)
            return True
        spent += length
        seed += 1
    print(f"mutant {mutant}: NOT CAUGHT by {spent} s of faults, seeds to {seed - 1}", flush=True)
    return False


def hunt_round(options, mutant, seed, length, folder):
    """The first violation; empty if there is none."""
    clean(folder)
    # What a library without its rules says of itself is of no interest.
    command = round_command(options, folder, seed, length, "chaosworker-" + mutant)
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        over = False
        while not over:
            try:
                process.wait(CHECK_EVERY)
                over = True
            except subprocess.TimeoutExpired:
                pass
            status, words, _ = check(folder, *([] if over else ["--partial"]))
            lines = words.splitlines()
            first = next((i for i, line in enumerate(lines) if line.startswith("VIOLATION")), None)
            if status == 1 and first is not None:
                rest = lines[first + 1 :]
                last = next((i for i, line in enumerate(rest) if not line.startswith("    ")), len(rest))
                return [lines[first]] + rest[:last]
    finally:
        process.kill()
        process.wait()
    return []


def mutants_there(options):
    prefix = "chaosworker-"
    return sorted(name[len(prefix) :] for name in os.listdir(options.programs) if name.startswith(prefix))


def arguments():
    parser = argparse.ArgumentParser(
        description="Processes contend for locks while workers, connections and servers are hit by faults drawn from "
        "a seed. The histories they write are judged; exit status 0 only if nothing was found.",
    )
    parser.add_argument("--minutes", type=float, help="play rounds for so long; each has the seed after the last's")
    parser.add_argument("--seconds", type=int, default=ROUND, help=f"of faults in a round; default {ROUND}")
    parser.add_argument("--seed", type=int, help="of the first round; drawn if not given")
    parser.add_argument("--workers", type=int, default=8, help="number of processes; default 8")
    parser.add_argument("--forms", default="signals,scoped,annotated", help="given out to the workers in turn")
    parser.add_argument("--mutants", action="store_true", help="hunt the library's mutants instead")
    parser.add_argument("--mutant", action="append", help="only this one, repeatable")
    parser.add_argument("--at-least", type=int, default=0, metavar="N", help="acquisitions there must have been")
    parser.add_argument("--faults-at-least", type=int, default=0, metavar="N", help="faults there must have been")
    parser.add_argument("--keep", metavar="FOLDER", help="leave the histories of the last round there")
    parser.add_argument("--programs", default=os.getcwd(), metavar="FOLDER", help="where chaosround is")
    return parser.parse_args()


def main():
    options = arguments()
    seed = secrets.randbelow(1_000_000) if options.seed is None else options.seed
    folder = options.keep or tempfile.mkdtemp(prefix="qdistlock-chaos-")
    fine = True
    if options.mutants or options.mutant:
        for mutant in options.mutant or mutants_there(options):
            fine &= hunt(options, mutant, seed, os.path.join(folder, mutant))
    else:
        print(f"seed {seed}", flush=True)
        total = Total()
        until = time.monotonic() + 60 * (options.minutes or 0)
        first = seed
        while True:
            here = os.path.join(folder, str(seed))
            found_nothing = play(options, seed, options.seconds, here, total)
            fine &= found_nothing
            seed += 1
            if found_nothing and not options.keep:
                shutil.rmtree(here)
            if time.monotonic() >= until:
                break
        print("\n".join(total.words()))
        print(f"seeds {first} to {seed - 1}, {options.seconds} s of faults each")
        for name, least in (("acquisitions", options.at_least), ("faults", options.faults_at_least)):
            if total.numbers[name] < least:
                print(f"too few {name}: {total.numbers[name]}, wanted {least}")
                fine = False
    if fine and not options.keep:
        shutil.rmtree(folder, ignore_errors=True)
    print("nothing found" if fine and not (options.mutants or options.mutant) else "all caught" if fine else "FAILED")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
