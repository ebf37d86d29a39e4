# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT
"""Tests chaos.py with rounds that only copy a hand-made history to its place."""

import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, HERE)

from test_chaoscheck import Story  # noqa: E402

MUTANTS = os.path.join(HERE, "mutants")
sys.path.insert(0, MUTANTS)
import mutate  # noqa: E402


class MutantTest(unittest.TestCase):
    def test_all_fit_the_sources(self):
        names = [name for name in os.listdir(MUTANTS) if name.endswith(".mutant")]
        self.assertTrue(names)
        for name in names:
            with self.subTest(name):
                mutate.apply(os.path.join(MUTANTS, name), os.path.join(HERE, "..", ".."))


class PlayerTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.programs, self.histories, self.mutants = (os.path.join(folder.name, name) for name in "phm")
        for name in (self.programs, self.histories, self.mutants):
            os.mkdir(name)
        self.story = Story(self.histories)
        for process in ("w1.1", "w2.1"):
            self.story.process(process)
        self.played()

    def played(self, status=0, histories=True):
        program = os.path.join(self.programs, "chaosround")
        with open(program, "w", encoding="utf-8") as script:
            # The fourth argument is the folder.
            copy = f'cp "{self.histories}"/*.jsonl "$4"' if histories else ":"
            script.write(f'#!/bin/sh\n{copy}\necho "$@" > "$4/arguments"\necho of its own >&2\nexit {status}\n')
        os.chmod(program, 0o755)

    def turns(self, overlap=False):
        self.story.acquire("w1.1", 10, 100, 101)
        self.story.release("w1.1", 10, 120)
        self.story.acquire("w2.1", 11, 110, 119 if overlap else 121)
        self.story.release("w2.1", 11, 130)
        self.story.acquire("w1.1", 12, 10_040, 10_041)
        self.story.release("w1.1", 12, 10_042)
        self.story.finish(10_000, "w1.1", "w2.1")
        self.story.files()

    def mutant(self, *lines, name="broken"):
        with open(os.path.join(self.mutants, name + ".mutant"), "w", encoding="utf-8") as file:
            file.writelines(f"# {line}\n" for line in lines)

    def run_program(self, *arguments):
        program = [sys.executable, "-B", os.path.join(HERE, "chaos.py"), "--seed", "1", "--programs", self.programs]
        program += ["--mutant-files", self.mutants, *arguments]
        done = subprocess.run(program, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    def hunted(self):
        return self.run_program("--mutant", "broken", "--seconds", "20")

    def assertNotTried(self, *words):
        status, said = self.hunted()
        self.assertEqual(status, 1, said)
        for text in ("NOT TRIED", *words):
            self.assertIn(text, said)

    # Hunts

    def test_convicted(self):
        self.turns(overlap=True)
        self.mutant("It breaks a rule.", "Convicted by: token, overlap")
        status, said = self.hunted()
        self.assertEqual(status, 0, said)
        self.assertIn("both held it", said)

    def test_convicted_by_something_else(self):
        self.turns(overlap=True)
        self.mutant("Convicted by: token")
        status, said = self.hunted()
        self.assertEqual(status, 1, said)
        self.assertIn("NOT CAUGHT by 20 s", said)
        self.assertIn("what was found: overlap", said)

    def test_innocent(self):
        self.turns()
        self.mutant("Convicted by: overlap")
        self.assertEqual(self.hunted()[0], 1)

    def test_round_that_fails_convicts_nobody(self):
        self.turns(overlap=True)
        self.played(status=1)
        self.mutant("Convicted by: overlap")
        self.assertNotTried("exit status of the round 1", "of its own")

    def test_no_history(self):
        self.played(histories=False)
        self.mutant("Convicted by: overlap")
        self.assertNotTried("of its check 2")

    def test_no_program(self):
        os.remove(os.path.join(self.programs, "chaosround"))
        self.mutant("Convicted by: overlap")
        self.assertNotTried("chaosround")

    def test_file_that_does_not_say_what_convicts(self):
        self.turns(overlap=True)
        for lines in ((), ("Convicted by: ",), ("Convicted by: overlap, treason",)):
            self.mutant(*lines)
            self.assertNotTried("Convicted by")

    def test_all_there_are(self):
        self.turns(overlap=True)
        self.assertEqual(self.run_program("--mutants")[0], 1)
        self.mutant("Convicted by: overlap", name="one")
        self.assertEqual(self.run_program("--mutants")[0], 0)
        self.mutant("Convicted by: token", name="two")
        status, said = self.run_program("--mutants", "--seconds", "10")
        self.assertEqual(status, 1)
        self.assertIn("one: caught", said)
        self.assertIn("two: NOT CAUGHT", said)

    # Rounds

    def test_rounds_until_it_is_enough(self):
        self.turns()
        for wanted, rounds, status in ((3, 1, 0), (4, 2, 0), (6, 2, 0), (9, 3, 0), (10, 3, 1)):
            found, said = self.run_program("--at-least", str(wanted))
            self.assertEqual(found, status, said)
            self.assertIn(f"{3 * rounds} acquisitions in {rounds} round", said)

    def test_slots_moved_are_added_up(self):
        self.story.move(50)
        self.story.move(60)
        self.turns()
        self.assertIn("4 slots moved, 0 times", self.run_program("--at-least", "6")[1])
        self.assertNotIn("fail-overs;", self.run_program()[1])

    def test_readers_are_added_up(self):
        self.story.read("w1.1", 8, 50, 51, 60)
        self.story.read("w2.1", 8, 50, 52, 60)
        self.turns()
        self.assertIn("4 acquisitions by readers, 4 of them together", self.run_program("--at-least", "6")[1])

    def test_permits_are_added_up(self):
        self.story.permits("w1.1", 7, 50, 51, 60, take=2)
        self.story.permits("w2.1", 8, 50, 52, 60)
        self.turns()
        self.assertIn("4 acquisitions with permits, 4 of them together", self.run_program("--at-least", "6")[1])

    def test_too_many_permits(self):
        self.story.permits("w1.1", 7, 50, 51, 60, take=2)
        self.story.permits("w2.1", 8, 50, 52, 60, take=2)
        self.turns()
        status, said = self.run_program()
        self.assertEqual(status, 1)
        self.assertIn("4 of 3 permits were taken", said)

    def test_nothing_is_shared(self):
        self.turns()
        said = self.run_program()[1]
        for words in ("by readers", "with permits"):
            self.assertNotIn(words, said)

    def test_arguments_of_engines(self):
        self.turns()
        kept = os.path.join(self.histories, "kept")

        def arguments(*more):
            self.run_program("--keep", kept, *more)
            with open(os.path.join(kept, "1", "arguments"), encoding="utf-8") as file:
                return file.read()

        self.assertNotIn("--engine", arguments())
        self.assertIn("--engine plain", arguments("--engine", "plain"))
        self.assertIn("--forms signals,scoped --kinds", arguments("--engine", "sentinel"))
        self.assertIn("--engine sentinel --lease 6000 --replicas 2", arguments("--engine", "sentinel", "--replicas", "all"))
        self.assertIn("--engine cluster --lease 6000 --replicas 0", arguments("--engine", "cluster"))
        self.assertIn("--forms signals,scoped --kinds", arguments("--engine", "cluster"))  # there is no chaossection
        self.assertNotEqual(self.run_program("--engine", "cluster", "--replicas", "all")[0], 0)

    def test_engine_of_a_mutant(self):
        self.turns()
        kept = os.path.join(self.histories, "kept")
        for line, wanted in (("Engine: cluster", True), ("On one server.", False)):
            self.mutant("Convicted by: overlap", line)
            self.run_program("--keep", kept, "--mutant", "broken", "--seconds", "10")
            with open(os.path.join(kept, "broken", "arguments"), encoding="utf-8") as file:
                self.assertEqual("--engine cluster" in file.read(), wanted)

    def test_round_that_fails(self):
        self.turns()
        self.played(status=1)
        status, said = self.run_program("--at-least", "100")
        self.assertEqual(status, 1)
        self.assertIn("could not be played", said)
        self.assertIn("seeds 1 to 1", said)


if __name__ == "__main__":
    unittest.main()
