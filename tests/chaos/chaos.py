#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT
"""Runs rounds of chaos and has each judged: chaos.py --help"""

import argparse
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time

from chaoscheck import SORTS, fail_over_words, sharing_words

HERE = os.path.dirname(os.path.abspath(__file__))
CHECK = os.path.join(HERE, "chaoscheck.py")
CHECK_EVERY = 1.5  # seconds; a hunt ends with the first violation
HUNT = 180  # seconds of faults after which a mutant counts as not caught
HUNT_ROUND = 10  # seconds of faults in each round of a hunt
ROUND = 60  # seconds of faults in each other round
FORMS = "signals,scoped,annotated,run"
# Annotations have a fixed lease, and qdistlock run has no option for replicas.
FORMS_OF_ENGINES = {
    "redis": FORMS,
    "plain": FORMS,
    "sentinel": "signals,scoped",
    "cluster": "signals,scoped,run",
    "quorum": "signals,scoped,run",
    "zookeeper": "signals,scoped,run",
}
LEASES = (1500, 6000)  # ms, with fail-overs
ALL_REPLICAS = 2


class Unplayable(Exception):
    """A round that failed for a reason outside the library."""


class Mutant:
    """The header of a mutant's file: the sorts of violation that convict it; engine, forms and faults in which it shows."""

    def __init__(self, name, folder):
        said = {"Convicted by": "", "Engine": "", "Forms": "signals", "Faults": ""}
        try:
            with open(os.path.join(folder, name + ".mutant"), encoding="utf-8") as file:
                for line in file:
                    key, colon, value = line.removeprefix("# ").partition(": ")
                    if line.startswith("# ") and colon and key in said:
                        said[key] = value.strip()
        except OSError as error:
            raise Unplayable(f"there is no such mutant: {error}") from error
        self.name, self.engine, self.forms, self.kinds = name, said["Engine"], said["Forms"], said["Faults"]
        self.sorts = set(said["Convicted by"].split(", ")) - {""}
        if not self.sorts or not self.sorts <= set(SORTS):
            raise Unplayable(f'its file must contain "# Convicted by: SORT, …", of {", ".join(SORTS)}')


def clean(folder):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)


def round_command(options, folder, seed, length, worker, engine, forms, kinds):
    return [
        os.path.join(options.programs, "chaosround"),
        *("--worker", os.path.join(options.programs, worker)),
        *("--folder", folder),
        *("--seed", str(seed)),
        *("--seconds", str(length)),
        *("--workers", str(options.workers)),
        *("--forms", forms),
        *("--kinds", kinds),
        *engine_arguments(options, seed, engine),
    ]


def engine_arguments(options, seed, engine):
    if engine == "redis":
        return []
    if engine == "plain":
        return ["--engine", "plain"]
    # A fail-over takes two or three seconds here: most leases survive it in the odd rounds, and few in the even ones.
    # Where a leader may be stopped, sessions must outlast what the others put up with.
    lease = LEASES[1 if engine == "zookeeper" else seed % 2]
    return ["--engine", engine, "--lease", str(lease), "--replicas", str(ALL_REPLICAS if options.replicas else 0)]


def check(folder, *arguments):
    """(exit status, output, figures)"""
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
    """Figures of all rounds."""

    def __init__(self):
        self.rounds = 0
        self.numbers = dict.fromkeys(
            ("acquisitions", "faults", "overlaps", "writes", "stale", "refused", "lost", "lost_while_held")
            + ("fail_overs", "overlaps_explained", "tokens_explained", "stale_explained", "slot_moves", "moves_stopped")
            + ("acquisitions_by_readers", "readers_together", "changed_under_sharers")
            + ("acquisitions_with_permits", "permits_together", "acquisitions_with_slots")
            + ("holds_lost", "holds_killed", "keys_taken", "overlaps_within_limit", "violations"),
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
            *sharing_words(n),
            f"{n['faults']:,} faults of {len(self.kinds)} kinds: "
            + ", ".join(f"{kind} {count}" for kind, count in sorted(self.kinds.items())),
            f"{n['holds_lost']:,} holds lost, {n['holds_killed']:,} ended by the death of their process, "
            f"{n['keys_taken']:,} whose key a fault took away",
            f"{n['overlaps']} overlaps, and {n['overlaps_within_limit']} within the limit for steps of a server's clock",
            *fail_over_words(n),
            f"{n['stale']} stale writes accepted, {n['refused']:,} refused, of {n['writes']:,}",
            f"{n['lost']:,} updates of the unfenced counters lost, {n['lost_while_held'] or 'none'} while all who wrote "
            "held their lock",
            f"after healing everybody had a turn of every lock within {self.slowest} ms",
        ]


def all_forms(options):
    """The form run needs qdistlock, which need not be built."""
    forms = FORMS_OF_ENGINES[options.engine].split(",")
    if not os.path.exists(os.path.join(options.programs, "chaossection")):
        forms = [form for form in forms if form != "run"]
    return ",".join(forms)


def play(options, seed, length, folder, total):
    """Runs one round to its end. True if nothing was found."""
    clean(folder)
    forms = options.forms or all_forms(options)
    command = round_command(options, folder, seed, length, "chaosworker", options.engine, forms, options.kinds)
    played = subprocess.run(command, check=False)
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


def hunt(options, name, seed, folder):
    """Runs rounds with a mutant of the library until one convicts it. True if one did."""
    begin = time.monotonic()
    spent = 0
    others = set()
    try:
        mutant = Mutant(name, options.mutant_files)
        while spent < (options.seconds or HUNT):
            length = min(HUNT_ROUND, (options.seconds or HUNT) - spent)
            words = hunt_round(options, mutant, seed, length, folder, others)
            if words:
                after = time.monotonic() - begin
                print(f"mutant {name}: caught after {after:.0f} s, seed {seed}", flush=True)
                print("\n".join("    " + line.replace(folder + os.sep, "") for line in words), flush=True)
                return True
            spent += length
            seed += 1
    except Unplayable as error:
        print(f"mutant {name}: NOT TRIED, {error}", flush=True)
        return False
    print(f"mutant {name}: NOT CAUGHT by {spent} s of faults, seeds to {seed - 1}", flush=True)
    if others:
        print(f"    it is not convicted by what was found: {', '.join(sorted(others))}", flush=True)
    return False


def hunt_round(options, mutant, seed, length, folder, others):
    """The first violation that convicts the mutant; empty if there is none. Adds other sorts to `others`."""
    clean(folder)
    engine, forms, kinds = mutant.engine or options.engine, options.forms or mutant.forms, options.kinds or mutant.kinds
    command = round_command(options, folder, seed, length, "chaosworker-" + mutant.name, engine, forms, kinds)
    log = os.path.join(folder, "stderr")
    try:
        # The log of a broken library is shown only if the round itself fails.
        with open(log, "wb") as errors:
            process = subprocess.Popen(command, stderr=errors)
    except OSError as error:
        raise Unplayable(error) from error
    try:
        over = False
        while not over:
            try:
                process.wait(CHECK_EVERY)
                over = True
            except subprocess.TimeoutExpired:
                pass
            status, words, _ = check(folder, *([] if over else ["--partial"]))
            if over and (process.returncode != 0 or status not in (0, 1)):
                with open(log, encoding="utf-8", errors="replace") as errors:
                    said = errors.read()[-2000:].strip()
                raise Unplayable(f"exit status of the round {process.returncode}, of its check {status}\n{said}".strip())
            lines = words.splitlines()
            for first, line in enumerate(lines):
                if not line.startswith("VIOLATION, "):
                    continue
                sort = line.removeprefix("VIOLATION, ").partition(":")[0]
                if sort not in mutant.sorts:
                    others.add(sort)
                    continue
                rest = lines[first + 1 :]
                last = next((i for i, line in enumerate(rest) if not line.startswith("    ")), len(rest))
                return [lines[first]] + rest[:last]
    finally:
        process.kill()
        process.wait()
    return []


def missing(options, total):
    wanted = {"acquisitions": options.at_least, "faults": options.faults_at_least, "fail_overs": options.fail_overs_at_least}
    return [
        f"too few {name.replace('_', '-')}: {total.numbers[name]}, wanted {least}"
        for name, least in wanted.items()
        if total.numbers[name] < least
    ]


def mutants_there(options):
    end = ".mutant"
    return sorted(name.removesuffix(end) for name in os.listdir(options.mutant_files) if name.endswith(end))


def arguments():
    parser = argparse.ArgumentParser(
        description="Processes contend for locks while faults drawn from a seed hit workers, connections and servers. The "
        "histories that the processes write are judged. The exit status is 0 only if nothing was found.",
    )
    parser.add_argument("--minutes", type=float, help="run rounds for this long; the seed rises by one each round")
    parser.add_argument("--seconds", type=int, help=f"seconds of faults in a round (default {ROUND}), or for a mutant ({HUNT})")
    parser.add_argument("--seed", type=int, help="seed of the first round; default: random")
    parser.add_argument("--workers", type=int, default=8, help="number of processes; default 8")
    engines = tuple(FORMS_OF_ENGINES)
    parser.add_argument("--engine", choices=engines, default="redis", help="what keeps the locks; default redis")
    parser.add_argument("--replicas", choices=("all",), help="with sentinel: all replicas must have each lock")
    parser.add_argument("--forms", help=f"assigned to the workers in turn; default {FORMS}, or those of the mutant")
    parser.add_argument("--kinds", default="", help="inject only faults of these kinds, separated by commas")
    parser.add_argument("--mutants", action="store_true", help="hunt the library's mutants instead")
    parser.add_argument("--mutant", action="append", help="hunt only this mutant; repeatable")
    parser.add_argument("--at-least", type=int, default=0, metavar="N", help="run rounds until there were N acquisitions")
    parser.add_argument("--faults-at-least", type=int, default=0, metavar="N", help="and N faults")
    parser.add_argument("--fail-overs-at-least", type=int, default=0, metavar="N", help="and N fail-overs")
    parser.add_argument("--rounds-at-most", type=int, default=3, metavar="N", help="at most N rounds for that; default 3")
    parser.add_argument("--keep", metavar="FOLDER", help="keep the histories of the last round in this folder")
    parser.add_argument("--programs", default=os.getcwd(), metavar="FOLDER", help="folder of chaosround")
    parser.add_argument("--mutant-files", default=os.path.join(HERE, "mutants"), metavar="FOLDER", help="folder of the mutants")
    options = parser.parse_args()
    if options.replicas and options.engine != "sentinel":
        parser.error("--replicas needs --engine sentinel")
    return options


def main():
    options = arguments()
    seed = secrets.randbelow(1_000_000) if options.seed is None else options.seed
    folder = options.keep or tempfile.mkdtemp(prefix="qdistlock-chaos-")
    fine = True
    if options.mutants or options.mutant:
        mutants = options.mutant or mutants_there(options)
        fine = bool(mutants)
        for mutant in mutants:
            fine &= hunt(options, mutant, seed, os.path.join(folder, mutant))
    else:
        print(f"seed {seed}", flush=True)
        total = Total()
        length = options.seconds or ROUND
        until = time.monotonic() + 60 * (options.minutes or 0)
        first = seed
        while True:
            here = os.path.join(folder, str(seed))
            found_nothing = play(options, seed, length, here, total)
            fine &= found_nothing
            seed += 1
            if found_nothing and not options.keep:
                shutil.rmtree(here)
            enough = not fine or not missing(options, total) or seed - first >= options.rounds_at_most
            if enough and time.monotonic() >= until:
                break
        print("\n".join(total.words()))
        print(f"seeds {first} to {seed - 1}, {length} s of faults each")
        for words in missing(options, total):
            print(words)
            fine = False
    if fine and not options.keep:
        shutil.rmtree(folder, ignore_errors=True)
    print("nothing found" if fine and not (options.mutants or options.mutant) else "all caught" if fine else "FAILED")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
