# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT
"""Tests the checker with small hand-made histories: it must accept the correct ones and find every error."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, HERE)

from chaoscheck import files_of, judge, report, violations  # noqa: E402
from history import MS, BadHistory, History  # noqa: E402
from timeline import timeline  # noqa: E402

LEASE = 300


class Story:
    """Writes histories; times are in milliseconds."""

    def __init__(self, folder):
        self.folder = folder
        self.lines = {}
        self.add(0, "nemesis", "round", "invoke", seed=7, lease=LEASE, workers=2, bound=5000)

    def add(self, at, process, operation, outcome, lock=None, **fields):
        event = {"time": int(at * MS), "process": process}
        if lock:
            event["lock"] = lock
        event |= {"operation": operation, "type": outcome, **fields}
        self.lines.setdefault(process.split(".")[0], []).append(event)

    def process(self, name, form="signals"):
        self.add(0, name, "process", "invoke", form=form)

    def acquire(self, process, token, sent, notified, held=True, lock="a", deadline=True, invoked=None, mode=None, take=None,
                slots=None):
        self.add(sent if invoked is None else invoked, process, "acquire", "invoke", lock)
        fields = {"token": token, "held": held} | ({"mode": mode} if mode else {})
        if take:
            fields |= {"take": take, "permits": 3} | ({"slots": slots} if slots else {})
        if deadline:
            fields["deadline"] = int((sent + LEASE - LEASE / 100 - 2) * MS)
        self.add(notified, process, "acquire", "ok", lock, **fields)

    def acquire_all(self, process, token, invoked, sent, notified, contended="a", companions=("b",)):
        """The holds of a MultiLock, which waited, and of which the first confirmation was sent at `sent`."""
        deadline = int((sent + LEASE - LEASE / 100 - 2) * MS)
        for lock in (contended, *companions):
            company = {"with": contended} if lock != contended else {}
            self.add(invoked, process, "acquire", "invoke", lock, **company)
            self.add(notified, process, "acquire", "ok", lock, **company, token=token, held=True, deadline=deadline)

    def read(self, process, token, sent, notified, until=None, **fields):
        """A reader's hold, with its release if that is known."""
        self.acquire(process, token, sent, notified, mode="shared", **fields)
        if until is not None:
            self.release(process, token, until)

    def permits(self, process, token, sent, notified, until, take=1, slots=None):
        """A hold of some of three permits, with its release."""
        self.acquire(process, token, sent, notified, take=take, slots=slots)
        self.release(process, token, until)

    def renew(self, process, token, sent, notified, held=True, lock="a"):
        deadline = int((sent + LEASE - LEASE / 100 - 2) * MS)
        self.add(notified, process, "renew", "ok", lock, token=token, held=held, deadline=deadline)

    def release(self, process, token, at, held=True, until=None, lock="a", **company):
        until = at if until is None else until
        self.add(at, process, "release", "invoke", lock, token=token, held=held, heldUntil=int(until * MS), **company)
        self.add(at + 1, process, "release", "ok", lock, token=token, **company)

    def lost(self, process, token, at, reason="LeaseExpired", until=0, lock="a", **company):
        self.add(at, process, "hold", "fail", lock, token=token, reason=reason, heldUntil=int(until * MS), **company)

    def look(self, process, token, at, held, lock="a", by=None, **company):
        fields = company if by is None else {"by": int(by * MS)} | company
        self.add(at, process, "hold", "info", lock, token=token, held=held, **fields)

    def write(self, process, token, begin, to, sequence, accepted=True, read=0, replaced=None, lock="a"):
        self.add(
            to,
            process,
            "write",
            "ok",
            lock,
            **{"from": int(begin * MS)},
            token=token,
            accepted=accepted,
            sequence=sequence,
            read=read,
            replaced=read if replaced is None else replaced,
        )

    def key_lost(self, begin, to, kind="key-deleted", lock="a", **fields):
        self.add(to, "nemesis", "key", "info", lock, lostBy=kind, **{"from": int(begin * MS)}, to=int(to * MS), **fields)

    def clock(self, begin, to, ms, lock="a"):
        self.add(to, "nemesis", "clock", "info", lock, **{"from": int(begin * MS)}, to=int(to * MS), ms=ms)

    def fail_over(self, begin, to, fence, expires, lock="a"):
        """What the new master had: the newest token, and its key until `expires`."""
        self.add(to, "nemesis", "failover", "info", **{"from": int(begin * MS)}, to=int(to * MS), server=1)
        self.key_lost(begin, to, "failover", lock, fence=fence, expires=int(expires * MS))

    def move(self, at, key=None, lock="a"):
        """The slot of a lock was moved, or the key stopped the move."""
        fields = {"from": 1, "to": 2} | ({"key": key, "error": "BUSYKEY"} if key else {})
        self.add(at, "nemesis", "move", "fail" if key else "ok", lock, **fields)

    def fence_lost(self, begin, to, lock="a"):
        self.add(to, "nemesis", "fence", "info", lock, **{"from": int(begin * MS)}, to=int(to * MS))

    def fault(self, kind, target, begin, end):
        self.add(begin, "nemesis", "fault", "invoke", kind=kind, target=target, ms=end - begin)
        self.add(end, "nemesis", "fault", "ok", kind=kind, target=target)

    def finish(self, healed=10_000, *processes, what="", sockets=0, turned=True):
        self.add(healed, "nemesis", "heal", "info")
        for process in processes:
            if turned:
                self.add(healed + 100, process, "turn", "ok")
            self.add(healed + 200, process, "process", "ok", sockets=sockets)
        self.add(healed + 150, "nemesis", "end", "invoke")
        self.add(healed + 300, "nemesis", "left", "fail" if what else "ok", what=what)

    def files(self):
        for process, events in self.lines.items():
            with open(os.path.join(self.folder, process + ".jsonl"), "w", encoding="utf-8") as out:
                out.writelines(json.dumps(event) + "\n" for event in events)
        return files_of([self.folder])

    def judge(self, partial=True):
        return judge(History(self.files()), partial)


class CheckerTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.story = Story(self.folder.name)
        self.story.process("w1.1")
        self.story.process("w2.1")

    def found(self, partial=True):
        return [sort for sort, _, _ in self.story.judge(partial).violations]

    # Check 1

    def test_turns(self):
        self.story.acquire("w1.1", 10, 100, 101)
        self.story.release("w1.1", 10, 120)
        self.story.acquire("w2.1", 11, 110, 121)
        self.story.release("w2.1", 11, 130)
        self.assertEqual(self.found(), [])

    def test_overlap(self):
        self.story.acquire("w1.1", 10, 100, 101)
        self.story.release("w1.1", 10, 120)
        self.story.acquire("w2.1", 11, 110, 119)
        self.story.release("w2.1", 11, 130)
        verdict = self.story.judge()
        self.assertEqual([sort for sort, _, _ in verdict.violations], ["overlap"])
        words = "\n".join(violations(verdict))
        self.assertIn("both held it for 1.000 ms", words)
        for line in ("w1.jsonl:3", "w1.jsonl:4", "w2.jsonl:3", "w2.jsonl:4"):
            self.assertIn(line, words)

    def test_overlap_inside_a_long_hold(self):
        self.story.acquire("w1.1", 10, 100, 101)
        self.story.release("w1.1", 10, 200)
        for i, at in enumerate((110, 130, 150)):
            self.story.acquire("w2.1", 11 + i, at, at + 1)
            self.story.release("w2.1", 11 + i, at + 5)
        self.assertEqual(self.found(), ["overlap"] * 3)

    def test_overlap_of_one_process_with_another_lock(self):
        self.story.acquire("w1.1", 10, 100, 101)
        self.story.acquire("w1.1", 10, 100, 101, lock="b")
        self.story.release("w1.1", 10, 120)
        self.story.release("w1.1", 10, 120, lock="b")
        self.assertEqual(self.found(), [])

    def test_stopped_holder_ends_at_its_deadline(self):
        self.story.acquire("w1.1", 10, 100, 101)
        self.story.acquire("w2.1", 11, 390, 401)
        self.story.release("w2.1", 11, 410)
        self.story.lost("w1.1", 10, 700, until=110)
        self.assertEqual(self.found(), [])

    def test_hold_lasts_to_its_deadline(self):
        self.story.acquire("w1.1", 10, 100, 101)
        self.story.acquire("w2.1", 11, 300, 380)
        self.story.release("w2.1", 11, 410)
        self.story.lost("w1.1", 10, 700, until=110)
        self.assertEqual(self.found(), ["overlap"])

    def test_held_after_the_deadline(self):
        self.story.acquire("w1.1", 10, 100, 101)
        self.story.acquire("w2.1", 11, 390, 401)
        self.story.release("w2.1", 11, 500)
        self.story.lost("w1.1", 10, 700, until=450)  # isHeld() did not read the clock
        self.assertEqual(self.found(), ["overlap"])

    def test_renewed(self):
        self.story.acquire("w1.1", 10, 100, 101)
        self.story.renew("w1.1", 10, 200, 201)
        self.story.acquire("w2.1", 11, 390, 450)
        self.story.release("w2.1", 11, 460)
        self.story.lost("w1.1", 10, 700, until=210)
        self.assertEqual(self.found(), ["overlap"])

    def test_killed_holder_ends_with_its_process(self):
        self.story.acquire("w1.1", 10, 100, 101)
        self.story.add(150, "w1.1", "kill", "info")
        self.story.add(151, "w1.1", "process", "info")
        self.story.acquire("w2.1", 11, 160, 170)
        self.story.release("w2.1", 11, 180)
        self.assertEqual(self.found(), [])

    def test_killed_holder_held_until_then(self):
        self.story.acquire("w1.1", 10, 100, 101)
        self.story.add(150, "w1.1", "kill", "info")
        self.story.add(151, "w1.1", "process", "info")
        self.story.acquire("w2.1", 11, 120, 140)
        self.story.release("w2.1", 11, 145)
        self.assertEqual(self.found(), ["overlap"])

    def test_key_lost_by_a_fault(self):
        self.story.acquire("w1.1", 10, 100, 101)
        self.story.key_lost(120, 121)
        self.story.acquire("w2.1", 11, 121.5, 122)
        self.story.release("w2.1", 11, 140)
        self.story.lost("w1.1", 10, 200, "Stolen", until=190)
        verdict = self.story.judge()
        self.assertEqual(verdict.violations, [])
        self.assertEqual(verdict.figures["keys_taken"], 1)

    def test_key_lost_before_the_holder_was_notified(self):
        self.story.acquire("w1.1", 10, 100, 130)
        self.story.key_lost(120, 121)
        self.story.acquire("w2.1", 11, 122, 123)
        self.story.release("w2.1", 11, 140)
        self.story.lost("w1.1", 10, 200, "Stolen", until=190)
        self.assertEqual(self.found(), [])

    def test_acquired_after_the_key_was_lost(self):
        self.story.acquire("w1.1", 10, 122, 130)
        self.story.key_lost(120, 121)
        self.story.acquire("w2.1", 11, 123, 135)
        self.story.release("w2.1", 11, 140)
        self.story.release("w1.1", 10, 190)
        self.assertEqual(self.found(), ["overlap"])

    def test_renewed_though_the_key_was_lost(self):
        self.story.acquire("w1.1", 10, 100, 101)
        self.story.key_lost(120, 121)
        self.story.acquire("w2.1", 11, 121.5, 122)
        self.story.renew("w1.1", 10, 200, 201)
        self.story.release("w2.1", 11, 240)
        self.story.release("w1.1", 10, 250)
        self.assertEqual(self.found(), ["overlap"])

    def test_key_of_another_lock_lost(self):
        self.story.acquire("w1.1", 10, 100, 101)
        self.story.key_lost(120, 121, lock="b")
        self.story.acquire("w2.1", 11, 110, 122)
        self.story.release("w2.1", 11, 140)
        self.story.release("w1.1", 10, 190)
        self.assertEqual(self.found(), ["overlap"])

    def test_key_lost_without_a_reported_deadline(self):
        self.story.acquire("w1.1", 10, 100, 101, deadline=False)
        self.story.key_lost(120, 121)
        self.story.acquire("w2.1", 11, 121.5, 122)
        self.story.release("w2.1", 11, 140)
        self.story.release("w1.1", 10, 190)
        self.assertEqual(self.found(), [])

    def test_held_a_lease_after_the_key_was_lost(self):
        self.story.acquire("w1.1", 10, 100, 101, deadline=False)
        self.story.key_lost(120, 121)
        self.story.acquire("w2.1", 11, 410, 425)
        self.story.release("w2.1", 11, 440)
        self.story.release("w1.1", 10, 450)
        self.assertEqual(self.found(), ["overlap"])

    def test_lost_without_a_fault(self):
        for reason in ("Deleted", "Stolen", "ForcedRelease"):
            with self.subTest(reason):
                self.story.acquire("w1.1", 10, 100, 101)
                self.story.lost("w1.1", 10, 200, reason, until=190)
                self.assertEqual(self.found(), ["theft"])
                self.story.lines["w1"] = self.story.lines["w1"][:1]

    def test_lost_by_an_earlier_fault(self):
        self.story.key_lost(50, 51)
        self.story.acquire("w1.1", 10, 100, 101)
        self.story.lost("w1.1", 10, 200, "Deleted", until=190)
        self.assertEqual(self.found(), ["theft"])

    def test_release_finds_no_key(self):
        self.story.acquire("w1.1", 10, 100, 101)
        self.story.add(150, "w1.1", "release", "invoke", "a", token=10, held=True, heldUntil=150 * MS)
        self.story.lost("w1.1", 10, 151, "Deleted", until=150)
        self.assertEqual(self.found(), ["theft"])

    # Fail-overs. What the new master had of a lock decides which holds are over.

    def judged_after_fail_over(self, fence, expires, replicas=0):
        """The first holds the lock from 100 to 395 ms, the fail-over is between 120 and 140 ms, the second begins at 150 ms."""
        self.story.lines["nemesis"][0]["replicas"] = replicas
        self.story.acquire("w1.1", 10, 100, 101)
        self.story.fail_over(120, 140, fence, expires)
        self.story.acquire("w2.1", 11, 145, 150)
        self.story.release("w2.1", 11, 180)
        self.story.lost("w1.1", 10, 200, "Deleted", until=190)
        verdict = self.story.judge()
        return [sort for sort, _, _ in verdict.violations], verdict

    def test_fail_over_lost_the_key(self):
        sorts, verdict = self.judged_after_fail_over(fence=9, expires=0)
        self.assertEqual(sorts, [])
        self.assertEqual(verdict.figures["overlaps"], 0)
        self.assertEqual(verdict.figures["fail_overs"], 1)
        self.assertEqual(verdict.figures["overlaps_explained"], 1)
        self.assertIn("1 fail-overs; 1 overlaps explained", "\n".join(report(verdict.figures)))

    def test_fail_over_found_the_key_of_an_earlier_hold(self):
        self.assertEqual(self.judged_after_fail_over(fence=9, expires=390)[0], [])

    def test_fail_over_lost_the_key_but_not_the_fence(self):
        self.assertEqual(self.judged_after_fail_over(fence=10, expires=0)[0], [])

    def test_fail_over_kept_the_key(self):
        sorts, verdict = self.judged_after_fail_over(fence=10, expires=400)
        self.assertEqual(sorts, ["overlap", "theft"])
        self.assertEqual(verdict.figures["overlaps_explained"], 0)

    def test_fail_over_lost_a_key_that_all_replicas_had(self):
        self.assertEqual(self.judged_after_fail_over(fence=9, expires=0, replicas=2)[0], ["overlap", "theft"])

    def test_fail_over_of_another_lock(self):
        self.story.acquire("w1.1", 10, 100, 101)
        self.story.fail_over(120, 140, 9, 0, lock="b")
        self.story.acquire("w2.1", 11, 145, 150)
        self.story.release("w2.1", 11, 180)
        self.story.release("w1.1", 10, 190)
        self.assertEqual(self.found(), ["overlap"])

    def test_move_explains_nothing(self):
        self.story.acquire("w1.1", 10, 100, 101)
        self.story.move(120)
        self.story.acquire("w2.1", 11, 150, 151)
        self.story.release("w1.1", 10, 200)
        self.story.release("w2.1", 11, 210)
        verdict = self.story.judge()
        self.assertEqual([sort for sort, _, _ in verdict.violations], ["overlap"])
        self.assertEqual((verdict.figures["slot_moves"], verdict.figures["moves_stopped"]), (1, 0))
        self.assertIn("1 slots moved, 0 times", "\n".join(report(verdict.figures)))

    def test_key_that_stops_a_move(self):
        self.story.move(120, key="{lock:a}:queue")
        verdict = self.story.judge()
        self.assertEqual([sort for sort, _, _ in verdict.violations], ["stopped move"])
        self.assertEqual((verdict.figures["slot_moves"], verdict.figures["moves_stopped"]), (0, 1))

    def test_confirmed_after_the_fail_over(self):
        self.story.acquire("w1.1", 10, 100, 101)
        self.story.fail_over(120, 140, 9, 0)
        self.story.renew("w1.1", 10, 150, 151)  # the new master cannot have confirmed that
        self.story.acquire("w2.1", 11, 145, 160)
        self.story.release("w2.1", 11, 180)
        self.story.release("w1.1", 10, 190)
        self.assertEqual(self.found(), ["overlap"])

    def test_fail_over_lost_a_renewal(self):
        """The new master had the key until 400 ms, and the holder counted on 495 ms."""
        for notified, sorts in ((410, []), (390, ["overlap"])):
            with self.subTest(notified):
                self.story.acquire("w1.1", 10, 100, 101)
                self.story.renew("w1.1", 10, 200, 201)
                self.story.fail_over(220, 240, 10, 400)
                self.story.acquire("w2.1", 11, 380, notified)
                self.story.release("w2.1", 11, 420)
                self.story.lost("w1.1", 10, 600, until=480)
                self.assertEqual(self.found(), sorts)
                self.story.lines = {process: lines[:1] for process, lines in self.story.lines.items()}

    # The server's clock is set forward. A lease of 300 ms that is confirmed at 100 ms ends at 395 ms by the holder's clock.

    def judged_after_step(self, ms=100, lock="a"):
        """The kinds of violation, and the number of overlaps within the limit."""
        self.story.clock(150, 151, ms, lock)
        verdict = self.story.judge()
        self.story.lines = {process: lines[:1] for process, lines in self.story.lines.items()}
        return [sort for sort, _, _ in verdict.violations], verdict.figures["overlaps_within_limit"]

    def second_hold(self, notified):
        self.story.acquire("w2.1", 11, 200, notified)
        self.story.release("w2.1", 11, notified + 5)

    def test_lease_shorter_by_a_clock_step(self):
        for notified, judgement in ((296, ([], 1)), (294, (["overlap"], 1))):
            with self.subTest(notified):
                self.story.acquire("w1.1", 10, 100, 101)
                self.second_hold(notified)
                self.story.lost("w1.1", 10, 330, "Deleted", until=325)
                self.assertEqual(self.judged_after_step(), judgement)

    def test_clock_set_back_or_of_another_server(self):
        for step, deadline in (((-100, "a"), True), ((-100, "a"), False), ((100, "b"), True), ((100, "b"), False)):
            with self.subTest(step=step, deadline=deadline):
                self.story.acquire("w1.1", 10, 100, 101, deadline=deadline, invoked=50)
                self.second_hold(360)
                self.story.release("w1.1", 10, 380)
                self.assertEqual(self.judged_after_step(*step), (["overlap"], 0))

    def test_two_clock_steps(self):
        for notified, judgement in ((246, ([], 1)), (244, (["overlap"], 1))):
            with self.subTest(notified):
                self.story.clock(110, 111, 50)
                self.story.acquire("w1.1", 10, 100, 101)
                self.second_hold(notified)
                self.story.lost("w1.1", 10, 330, "Deleted", until=325)
                self.assertEqual(self.judged_after_step(), judgement)

    def test_renewed_after_a_clock_step(self):
        self.story.acquire("w1.1", 10, 100, 101)
        self.story.renew("w1.1", 10, 200, 201)
        self.second_hold(450)
        self.story.release("w1.1", 10, 480)
        self.assertEqual(self.judged_after_step(), (["overlap"], 0))

    def test_renewed_after_a_hand_over_after_a_clock_step(self):
        self.story.acquire("w1.1", 10, 300, 300, invoked=120)
        self.story.renew("w1.1", 10, 400, 401)
        self.second_hold(640)
        self.story.release("w1.1", 10, 660)
        self.assertEqual(self.judged_after_step(200), (["overlap"], 0))

    def test_lost_by_a_clock_step(self):
        for lost, sorts in ((296, []), (294, ["theft"])):
            with self.subTest(lost):
                self.story.acquire("w1.1", 10, 100, 101)
                self.story.lost("w1.1", 10, lost, "Deleted", until=200)
                self.assertEqual(self.judged_after_step(), (sorts, 0))

    # The message is 150 ms late, or less: nobody knows when, after the step, the lock was handed over. If the clock is set
    # back, the lock was handed over before that.
    def test_handed_over_after_a_clock_step(self):
        for ms, invoked, notified, judgement in (
            (200, 120, 446, ([], 1)),
            (200, 120, 444, (["overlap"], 1)),
            (50, 120, 546, ([], 1)),
            (50, 120, 544, (["overlap"], 1)),
            (200, 160, 546, (["overlap"], 0)),  # its acquire has told it the time after the step
            (-200, 120, 416, ([], 1)),
            (-200, 120, 414, (["overlap"], 1)),
            (-50, 120, 546, ([], 1)),
            (-50, 120, 544, (["overlap"], 1)),
        ):
            with self.subTest(ms=ms, invoked=invoked, notified=notified):
                self.story.acquire("w1.1", 10, 300, 300, invoked=invoked)
                self.second_hold(notified)
                self.story.release("w1.1", 10, 580)
                self.assertEqual(self.judged_after_step(ms), judgement)

    def test_handed_over_late_after_a_clock_step(self):
        self.story.acquire("w1.1", 10, 500, 500, invoked=120)
        self.second_hold(470)
        self.story.release("w1.1", 10, 510)
        self.assertEqual(self.judged_after_step(400), ([], 0))

    def test_smaller_token_over_a_clock_step(self):
        self.story.acquire("w2.1", 11, 101, 102)
        self.story.release("w2.1", 11, 110)
        self.story.acquire("w1.1", 10, 300, 300, invoked=120)
        self.story.release("w1.1", 10, 310)
        self.assertEqual(self.judged_after_step(400), (["token"], 0))

    def test_clock_step_without_a_reported_deadline(self):
        for notified, judgement in ((440, ([], 1)), (460, (["overlap"], 0))):
            with self.subTest(notified):
                self.story.acquire("w1.1", 10, 100, 101, deadline=False)
                self.second_hold(notified)
                self.story.release("w1.1", 10, 480)
                self.assertEqual(self.judged_after_step(), judgement)

    def test_clock_set_back_without_a_reported_deadline(self):
        for notified, judgement in ((421, ([], 1)), (414, (["overlap"], 0))):
            with self.subTest(notified):
                self.story.acquire("w1.1", 10, 120, 300, deadline=False)
                self.second_hold(notified)
                self.story.release("w1.1", 10, 480)
                self.assertEqual(self.judged_after_step(-100), judgement)

    # A form that provides neither reason nor deadline: the deadline is 300 ms after the acquire began, less 1 % and 3 ms.

    def lost_early(self, seen, lost=None, *, reason=True):
        self.story.acquire("w1.1", 10, 100, 101, deadline=False)
        self.story.look("w1.1", 10, 190, False, by=seen)
        self.story.release("w1.1", 10, 500, held=False, until=101)
        if reason:
            self.story.lines["w1"].pop()
            self.story.lost("w1.1", 10, lost or 501, "Unknown")

    def test_lost_before_its_deadline(self):
        self.lost_early(393)
        verdict = self.story.judge()
        self.assertEqual([sort for sort, _, _ in verdict.violations], ["theft"])
        self.assertEqual(verdict.figures["holds_lost"], 1)
        self.assertIn('"by": 393', "\n".join(violations(verdict)))

    def test_lost_before_its_deadline_without_further_events(self):
        self.lost_early(393, reason=False)
        self.assertEqual(self.found(), ["theft"])

    def test_maybe_lost_by_its_deadline(self):
        self.lost_early(394)
        self.assertEqual(self.found(), [])

    def test_maybe_lost_because_a_hand_over_was_not_extended(self):
        for noticed, sorts in ((3066, ["theft"]), (3067, [])):
            with self.subTest(noticed):
                self.story.lines["nemesis"][0]["lease"] = 6000
                self.story.lines["w1"] = []
                self.story.process("w1.1")
                self.story.acquire("w1.1", 10, 100, 101, deadline=False)
                self.story.look("w1.1", 10, noticed - 1, False, by=noticed)
                self.story.release("w1.1", 10, 4000, held=False, until=101)
                self.assertEqual(self.found(), sorts)

    def test_lost_before_its_deadline_by_a_fault(self):
        self.story.key_lost(150, 151)
        self.lost_early(393)
        self.assertEqual(self.found(), [])

    def test_lost_before_its_deadline_by_a_later_fault(self):
        self.story.key_lost(394, 395)
        self.lost_early(393)
        self.assertEqual(self.found(), ["theft"])

    def test_release_is_refused_before_the_deadline(self):
        for notified, sorts in ((393, ["theft"]), (394, [])):
            with self.subTest(notified):
                self.lost_early(450, notified)
                self.assertEqual(self.found(), sorts)
                self.story.lines["w1"] = self.story.lines["w1"][:1]

    def test_ended_before_its_deadline_by_the_end_of_the_process(self):
        self.story.add(180, "nemesis", "end", "invoke")
        self.lost_early(200)
        self.assertEqual(self.found(), [])

    def test_expired_too_early(self):
        self.story.acquire("w1.1", 10, 100, 101)
        self.story.lost("w1.1", 10, 390)
        self.assertEqual(self.found(), ["theft"])

    def test_release_not_confirmed(self):
        self.story.acquire("w1.1", 10, 100, 101)
        self.story.add(110, "w1.1", "release", "invoke", "a", token=10, held=True, heldUntil=110 * MS)
        self.story.acquire("w2.1", 11, 112, 113)
        self.story.release("w2.1", 11, 120)
        self.story.lost("w1.1", 10, 395, until=110)
        self.assertEqual(self.found(), [])

    def test_hold_comes_back(self):
        self.story.acquire("w1.1", 10, 100, 101)
        self.story.look("w1.1", 10, 396, False)
        self.story.renew("w1.1", 10, 290, 400)
        self.story.release("w1.1", 10, 410)
        self.assertEqual(self.found(), ["revival"])

    def test_same_token(self):
        self.story.acquire("w1.1", 10, 100, 101)
        self.story.release("w1.1", 10, 110)
        self.story.acquire("w2.1", 10, 120, 121)
        self.story.release("w2.1", 10, 130)
        self.assertEqual(self.found(), ["token"])

    def test_smaller_token(self):
        self.story.acquire("w1.1", 10, 100, 101)
        self.story.release("w1.1", 10, 110)
        self.story.acquire("w2.1", 9, 120, 121)
        self.story.release("w2.1", 9, 130)
        self.assertEqual(self.found(), ["token"])

    def test_hold_that_ended_before_it_was_notified(self):
        self.story.acquire("w1.1", 9, 0, 1)
        self.story.release("w1.1", 9, 10)
        self.story.acquire("w2.1", 0, 20, 600, held=False, deadline=False)
        self.story.lost("w2.1", 0, 601)
        self.assertEqual(self.found(), [])

    def test_hold_without_a_token(self):
        self.story.acquire("w1.1", 9, 0, 1)
        self.story.release("w1.1", 9, 10)
        self.story.acquire("w2.1", 0, 20, 21)
        self.story.release("w2.1", 0, 30)
        self.assertEqual(self.found(), ["token"])

    def test_order_unknown(self):
        # The first hold was reported after the second acquire began: the server may have served them in this order.
        self.story.key_lost(105, 106)
        self.story.acquire("w1.1", 10, 100, 130, held=False)
        self.story.acquire("w2.1", 9, 101, 102)
        self.story.lost("w2.1", 9, 110, "Deleted", until=104)
        self.assertEqual(self.found(), [])

    def test_foreign_holder(self):
        self.story.key_lost(100, 101, "key-overwritten", foreignMs=100)
        self.story.acquire("w1.1", 10, 150, 160)
        self.story.release("w1.1", 10, 170)
        self.assertEqual(self.found(), ["overlap"])

    def test_after_a_foreign_holder(self):
        self.story.key_lost(100, 101, "key-overwritten", foreignMs=100)
        self.story.acquire("w1.1", 10, 150, 203)
        self.story.release("w1.1", 10, 210)
        self.assertEqual(self.found(), [])

    # Permits

    def test_permits(self):
        for name in ("w3.1", "w4.1"):
            self.story.process(name)
        self.story.permits("w1.1", 10, 100, 101, 150)
        self.story.permits("w2.1", 11, 110, 111, 130, take=2)
        self.story.permits("w3.1", 12, 112, 130, 160, take=2)
        self.story.permits("w4.1", 13, 161, 162, 170, take=3)
        verdict = self.story.judge()
        self.assertEqual(verdict.violations, [])
        self.assertEqual((verdict.figures["acquisitions_with_permits"], verdict.figures["permits_together"]), (4, 3))
        self.assertIn("4 acquisitions with permits, 3 of them together", "\n".join(report(verdict.figures)))

    def test_one_permit_too_many(self):
        self.story.process("w3.1")
        self.story.permits("w1.1", 10, 100, 101, 150)
        self.story.permits("w2.1", 11, 110, 111, 130)
        self.story.permits("w3.1", 12, 112, 129, 160, take=2)
        verdict = self.story.judge()
        self.assertEqual([sort for sort, _, _ in verdict.violations], ["overlap"])
        self.assertIn("4 of 3 permits were taken for 1.000 ms", verdict.violations[0][1])

    def test_slots(self):
        self.story.process("w3.1")
        self.story.permits("w1.1", 10, 100, 101, 150, slots="0")
        self.story.permits("w2.1", 11, 110, 111, 160, take=2, slots="1,2")
        self.story.permits("w3.1", 12, 151, 152, 170, slots="0")
        verdict = self.story.judge()
        self.assertEqual(verdict.violations, [])
        self.assertIn("3 acquisitions with slots", "\n".join(report(verdict.figures)))

    def test_one_slot_twice(self):
        self.story.permits("w1.1", 10, 100, 101, 150, slots="1")
        self.story.permits("w2.1", 11, 110, 111, 130, take=2, slots="0,1")
        verdict = self.story.judge()
        self.assertEqual([sort for sort, _, _ in verdict.violations], ["overlap"])
        self.assertIn("had the same slot for 19.000 ms", verdict.violations[0][1])

    def test_slots_that_are_none(self):
        for slots in ("3", "0,1"):
            with self.subTest(slots):
                self.setUp()
                self.story.permits("w1.1", 10, 100, 101, 150, slots=slots)
                self.assertEqual(self.found(), ["overlap"])

    def test_permits_beside_an_exclusive_holder(self):
        self.story.permits("w1.1", 10, 100, 101, 150)
        self.story.acquire("w2.1", 11, 110, 149)
        self.story.release("w2.1", 11, 160)
        self.assertEqual(self.found(), ["overlap"])

    def test_permits_with_one_token(self):
        self.story.permits("w1.1", 10, 100, 101, 150)
        self.story.permits("w2.1", 10, 110, 111, 120)
        self.assertEqual(self.found(), ["token"])

    def test_permits_with_an_older_token(self):
        self.story.permits("w1.1", 11, 100, 101, 150)
        self.story.permits("w2.1", 10, 110, 111, 120)
        self.assertEqual(self.found(), ["token"])

    def test_permits_of_an_expired_lease(self):
        for entered, sorts in ((393, ["overlap"]), (395, [])):
            with self.subTest(entered):
                self.story.acquire("w1.1", 10, 100, 101, take=3)
                self.story.lost("w1.1", 10, 500, until=120)
                self.story.permits("w2.1", 11, 110, entered, entered + 8)
                self.assertEqual(self.found(), sorts)
                self.story.lines = {process: lines[:1] for process, lines in self.story.lines.items()}

    def test_permits_are_renewed(self):
        """Each renewal is a piece of the same hold, which takes its permits once."""
        self.story.process("w3.1")
        self.story.acquire("w1.1", 10, 100, 101, take=2)
        for sent in (200, 300, 400):
            self.story.renew("w1.1", 10, sent, sent + 1)
        self.story.permits("w2.1", 11, 110, 111, 450)
        self.story.permits("w3.1", 12, 115, 420, 430, take=2)  # the lease of w1.1 ends at 700
        self.story.release("w1.1", 10, 440)
        verdict = self.story.judge()
        self.assertEqual([sort for sort, _, _ in verdict.violations], ["overlap"])
        self.assertIn("5 of 3 permits were taken for 10.000 ms", verdict.violations[0][1])

    def test_permits_that_a_fault_took_away(self):
        """A renewal that is sent later must not bring them back."""
        for renewed, sorts in ((False, []), (True, ["overlap"])):
            with self.subTest(renewed):
                self.story.acquire("w1.1", 10, 100, 101, take=2)
                self.story.key_lost(150, 151)
                if renewed:
                    self.story.renew("w1.1", 10, 200, 201)
                self.story.permits("w2.1", 11, 160, 161, 250, take=2)
                self.story.release("w1.1", 10, 240)
                self.assertEqual(self.found(), sorts)
                self.story.lines = {process: lines[:1] for process, lines in self.story.lines.items()}

    def test_exclusive_holder_with_an_older_token(self):
        self.story.permits("w1.1", 11, 100, 101, 110)
        self.story.acquire("w2.1", 10, 110, 111)
        self.story.release("w2.1", 10, 120)
        self.assertEqual(self.found(), ["token"])

    def test_stale_write_after_a_holder_of_permits(self):
        for accepted, sorts in ((True, ["stale write"]), (False, [])):
            with self.subTest(accepted):
                self.story.acquire("w1.1", 10, 100, 101)
                self.story.acquire("w2.1", 11, 390, 401, take=2)
                self.story.write("w2.1", 11, 402, 403, 1)
                self.story.release("w2.1", 11, 410)
                self.story.write("w1.1", 10, 105, 500, 2, accepted=accepted)
                self.story.lost("w1.1", 10, 501, until=104)
                self.assertEqual(self.found(), sorts)
                self.story.lines = {process: lines[:1] for process, lines in self.story.lines.items()}

    def test_counter_changes_under_a_holder_of_permits(self):
        self.story.acquire("w1.1", 10, 100, 101, take=2)
        self.story.write("w1.1", 10, 102, 110, 1, read=0, replaced=1)
        self.story.release("w1.1", 10, 120)
        verdict = self.story.judge()
        self.assertEqual([sort for sort, _, _ in verdict.violations], ["lost update"])
        self.assertIn("the holder of 2 permits w1.1 (token 10) read 0 and then 1", verdict.violations[0][1])

    def test_permits_that_are_never_free(self):
        """Everybody takes the lock alone after healing, but nobody gets permits; and one is left behind."""
        self.story.lines["w2"][0]["form"] = "semaphore"
        for process, token in (("w1.1", 10), ("w2.1", 11)):
            self.story.acquire(process, token, 10_000 + token, 10_001 + token)
            self.story.release(process, token, 10_001 + token)
        self.story.finish(10_000, "w1.1", "w2.1", what="key lock:a")
        self.story.lines["w2"] = [line for line in self.story.lines["w2"] if line["operation"] != "turn"]
        verdict = self.story.judge(partial=False)
        self.assertEqual([sort for sort, _, _ in verdict.violations], ["starvation", "left"])
        self.assertIn("w2.1 had no turn of a with permits within", verdict.violations[0][1])

    # Readers

    def test_readers_together(self):
        self.story.process("w3.1")
        self.story.read("w1.1", 10, 100, 101, 150)
        self.story.read("w2.1", 10, 110, 111, 120)
        self.story.read("w3.1", 10, 160, 161, 170)
        verdict = self.story.judge()
        self.assertEqual(verdict.violations, [])
        self.assertEqual((verdict.figures["acquisitions_by_readers"], verdict.figures["readers_together"]), (3, 2))
        self.assertIn("3 acquisitions by readers, 2 of them together", "\n".join(report(verdict.figures)))

    def test_reader_beside_a_writer(self):
        self.story.acquire("w1.1", 10, 100, 101)
        self.story.release("w1.1", 10, 120)
        self.story.read("w2.1", 11, 110, 119, 130)
        verdict = self.story.judge()
        self.assertEqual([sort for sort, _, _ in verdict.violations], ["overlap"])
        self.assertIn("w1.1 (token 10) and the reader w2.1 (token 11) both held it for 1.000", verdict.violations[0][1])

    def test_writer_beside_readers(self):
        self.story.process("w3.1")
        self.story.read("w1.1", 10, 100, 101, 200)
        self.story.read("w2.1", 10, 110, 111, 120)  # it is not the only one
        self.story.acquire("w3.1", 11, 110, 150)
        self.story.release("w3.1", 11, 160)
        self.assertEqual(self.found(), ["overlap"])

    def test_reader_beside_a_writer_that_readers_hide(self):
        self.story.process("w3.1")
        self.story.acquire("w1.1", 10, 100, 101)
        self.story.release("w1.1", 10, 150)
        self.story.read("w2.1", 11, 110, 120, 200)
        self.story.read("w3.1", 11, 110, 140, 160)
        self.assertEqual(self.found(), ["overlap"] * 2)

    def test_readers_with_different_tokens(self):
        self.story.read("w1.1", 10, 100, 101, 150)
        self.story.read("w2.1", 11, 110, 111, 120)
        verdict = self.story.judge()
        self.assertEqual([sort for sort, _, _ in verdict.violations], ["token"])
        self.assertIn("held it together", verdict.violations[0][1])

    def test_fence_lost_while_readers_held(self):
        for begin, lock, sorts in ((105, "a", []), (105, "b", ["token"]), (90, "a", ["token"]), (112, "a", ["token"])):
            with self.subTest(begin=begin, lock=lock):
                self.story.fence_lost(begin, begin + 1, lock)
                self.story.read("w1.1", 10, 100, 101, 150)
                self.story.read("w2.1", 11, 110, 111, 120)
                self.assertEqual(self.found(), sorts)
                self.story.lines = {process: lines[:1] for process, lines in self.story.lines.items()}

    def test_readers_of_two_phases(self):
        self.story.read("w1.1", 10, 100, 101, 120)
        self.story.read("w2.1", 11, 121, 122, 130)
        self.assertEqual(self.found(), [])

    def test_reader_with_the_token_of_an_earlier_phase(self):
        self.story.read("w1.1", 10, 100, 101, 120)
        self.story.acquire("w2.1", 11, 121, 122)
        self.story.release("w2.1", 11, 130)
        self.story.read("w1.1", 10, 131, 132, 140)
        verdict = self.story.judge()
        self.assertEqual([sort for sort, _, _ in verdict.violations], ["token"])
        self.assertIn("got the token 10 after w2.1 had been notified of 11", verdict.violations[0][1])

    def test_readers_phase_is_as_old_as_its_first_reader(self):
        self.story.read("w1.1", 11, 100, 101, 120)
        self.story.acquire("w2.1", 10, 121, 122)
        self.story.release("w2.1", 10, 130)
        self.story.read("w1.1", 11, 131, 132, 140)
        self.assertEqual(self.found(), ["token"])

    def test_reader_with_a_writers_token(self):
        for modes in (("exclusive", "shared"), ("shared", "exclusive")):
            with self.subTest(modes):
                self.story.acquire("w1.1", 10, 100, 101, mode=modes[0])
                self.story.release("w1.1", 10, 110)
                self.story.acquire("w2.1", 10, 120, 121, mode=modes[1])
                self.story.release("w2.1", 10, 130)
                self.assertEqual(self.found(), ["token"])
                self.story.lines = {process: lines[:1] for process, lines in self.story.lines.items()}

    def test_record_accepts_readers_of_one_phase(self):
        self.story.read("w1.1", 10, 100, 101)
        self.story.read("w2.1", 10, 110, 111)
        self.story.write("w2.1", 10, 112, 113, 1)
        self.story.release("w2.1", 10, 120)
        self.story.write("w1.1", 10, 102, 114, 2)
        self.story.release("w1.1", 10, 121)
        self.assertEqual(self.found(), [])

    def test_record_and_a_stale_reader(self):
        for accepted, sorts in ((True, ["stale write"]), (False, [])):
            with self.subTest(accepted):
                self.story.read("w1.1", 10, 100, 101)
                self.story.acquire("w2.1", 11, 390, 401)
                self.story.write("w2.1", 11, 402, 403, 1)
                self.story.release("w2.1", 11, 410)
                self.story.write("w1.1", 10, 105, 500, 2, accepted=accepted)
                self.story.lost("w1.1", 10, 501, until=104)
                self.assertEqual(self.found(), sorts)
                self.story.lines = {process: lines[:1] for process, lines in self.story.lines.items()}

    def test_record_and_a_reader_of_an_earlier_phase(self):
        self.story.read("w1.1", 10, 100, 101)
        self.story.read("w2.1", 11, 390, 401)
        self.story.write("w2.1", 11, 402, 403, 1)
        self.story.release("w2.1", 11, 410)
        self.story.write("w1.1", 10, 105, 500, 2)
        self.story.lost("w1.1", 10, 501, until=104)
        self.assertEqual(self.found(), ["stale write"])

    def test_counter_changes_under_a_reader(self):
        self.story.read("w1.1", 10, 100, 101)
        self.story.write("w1.1", 10, 102, 110, 1, read=0, replaced=1)
        self.story.release("w1.1", 10, 120)
        verdict = self.story.judge()
        self.assertEqual([sort for sort, _, _ in verdict.violations], ["lost update"])
        self.assertIn("the reader w1.1 (token 10) read 0 and then 1", verdict.violations[0][1])
        self.assertEqual((verdict.figures["changed_under_sharers"], verdict.figures["lost"]), (1, 0))

    def test_counter_changed_by_a_stopped_writer(self):
        """A stopped reader, which changes nothing, is no excuse."""
        for mode, sorts in (("exclusive", []), ("shared", ["lost update"])):
            with self.subTest(mode):
                self.story.acquire("w1.1", 10, 100, 101, mode=mode)
                self.story.write("w1.1", 10, 105, 450, 1, accepted=False)
                self.story.lost("w1.1", 10, 501, until=104)
                self.story.read("w2.1", 11, 390, 401)
                self.story.write("w2.1", 11, 402, 460, 2, read=0, replaced=1)
                self.story.release("w2.1", 11, 470)
                self.assertEqual(self.found(), sorts)
                self.story.lines = {process: lines[:1] for process, lines in self.story.lines.items()}

    def test_counter_changes_when_a_reader_is_killed(self):
        self.story.read("w1.1", 10, 100, 101)
        self.story.add(395, "w1.1", "kill", "info")
        self.story.add(396, "w1.1", "process", "info")
        self.story.acquire("w2.1", 11, 390, 396)
        self.story.write("w2.1", 11, 397, 398, 1, read=0, replaced=1)
        self.story.release("w2.1", 11, 410)
        self.story.lines["w1"][-2]["time"] = int(397.5 * MS)
        self.assertIn("lost update", self.found())

    def test_readers_key_after_a_fail_over(self):
        """The new master had a key of readers: nobody knows of which. If all replicas had each, of all."""
        for replicas, sorts in ((0, []), (2, ["overlap", "theft"])):
            with self.subTest(replicas):
                self.story.lines["nemesis"][0]["replicas"] = replicas
                self.story.read("w1.1", 10, 100, 101)
                self.story.fail_over(120, 140, 10, 400)
                self.story.acquire("w2.1", 11, 145, 150)
                self.story.release("w2.1", 11, 180)
                self.story.lost("w1.1", 10, 200, "Deleted", until=190)
                self.assertEqual(self.found(), sorts)
                self.story.lines = {process: lines[:1] for process, lines in self.story.lines.items()}

    def test_reader_that_joins_readers_at_a_new_master(self):
        """Readers have the token 10, then a writer 11, and the new master knows of the readers only."""
        for change, sorts, explained in (
            ({}, [], 1),
            ({"fence": 11}, ["token"], 0),
            ({"replicas": 2}, ["token"], 0),
            ({"mode": "exclusive"}, ["token"], 0),
            ({"lock": "b"}, ["token"], 0),
            ({"writer": 141}, ["token"], 0),  # the former master must grant nothing any more
            ({"reader": 115}, ["token"], 0),  # the former master must know of the writer
            ({"another": 160}, ["token"], 1),  # the new master must know of this writer
        ):
            with self.subTest(change):
                self.story.lines["nemesis"][0]["replicas"] = change.get("replicas", 0)
                sent = change.get("writer", 110)
                self.story.read("w1.1", 10, 100, 101, 105)
                self.story.acquire("w2.1", 11, sent, sent + 1)
                self.story.release("w2.1", 11, sent + 3)
                self.story.fail_over(120, 140, change.get("fence", 10), 400, change.get("lock", "a"))
                if "another" in change:
                    self.story.acquire("w2.1", 12, 160, 161)
                    self.story.release("w2.1", 12, 163)
                sent = change.get("reader", 170)
                self.story.acquire("w1.1", 10, sent, sent + 1, mode=change.get("mode", "shared"))
                self.story.release("w1.1", 10, sent + 3)
                verdict = self.story.judge()
                self.assertEqual({sort for sort, _, _ in verdict.violations}, set(sorts))
                self.assertEqual(verdict.figures["tokens_explained"], explained)
                words = "\n".join(report(verdict.figures))
                self.assertEqual("1 tokens of readers smaller" in words, explained > 0)
                self.story.lines = {process: lines[:1] for process, lines in self.story.lines.items()}

    def test_stale_write_after_such_a_reader(self):
        for fence, token, sorts in ((10, 10, []), (11, 10, ["token", "stale write"]), (10, 12, ["stale write"])):
            with self.subTest(fence=fence, token=token):
                self.story.read("w1.1", 10, 100, 101, 105)
                self.story.acquire("w2.1", 11, 110, 111)
                self.story.fail_over(120, 140, fence, 0)
                self.story.read("w1.1", token, 170, 171)
                self.story.write("w1.1", token, 172, 173, 1)
                self.story.release("w1.1", token, 180)
                self.story.write("w2.1", 11, 112, 500, 2)
                self.story.lost("w2.1", 11, 501, until=111)
                verdict = self.story.judge()
                self.assertEqual([sort for sort, _, _ in verdict.violations], sorts)
                self.assertEqual(verdict.figures["stale_explained"], int(not sorts))
                self.story.lines = {process: lines[:1] for process, lines in self.story.lines.items()}

    def test_readers_beyond_their_lease_together(self):
        """Their overlap, after a clock step, is none that needs the limit."""
        self.story.clock(150, 151, 100)
        self.story.read("w1.1", 10, 100, 101)
        self.story.lost("w1.1", 10, 330, "Deleted", until=325)
        self.story.read("w2.1", 10, 200, 310, 320)
        self.assertEqual(self.story.judge().figures["overlaps_within_limit"], 0)

    # Check 2

    def two_holds(self):
        self.story.acquire("w1.1", 10, 100, 101)
        self.story.acquire("w2.1", 11, 390, 401)

    def test_stale_write_refused(self):
        self.two_holds()
        self.story.write("w2.1", 11, 402, 403, 1)
        self.story.release("w2.1", 11, 410)
        self.story.write("w1.1", 10, 105, 500, 2, accepted=False, read=0, replaced=1)
        self.story.lost("w1.1", 10, 501, until=104)
        verdict = self.story.judge()
        self.assertEqual(verdict.violations, [])
        self.assertEqual((verdict.figures["refused"], verdict.figures["stale"]), (1, 0))

    def test_stale_write_accepted(self):
        self.two_holds()
        self.story.write("w2.1", 11, 402, 403, 1)
        self.story.release("w2.1", 11, 410)
        self.story.write("w1.1", 10, 105, 500, 2, read=0, replaced=1)
        self.story.lost("w1.1", 10, 501, until=104)
        self.assertEqual(self.found(), ["stale write"])

    def test_late_write_before_the_successors(self):
        # Nobody has written since, so that the record sees the writes in order.
        self.two_holds()
        self.story.write("w1.1", 10, 105, 402, 1)
        self.story.lost("w1.1", 10, 403, until=104)
        self.story.write("w2.1", 11, 404, 405, 2, read=1)
        self.story.release("w2.1", 11, 410)
        self.assertEqual(self.found(), [])

    # Check 3

    def test_updates(self):
        self.story.acquire("w1.1", 10, 100, 101)
        self.story.write("w1.1", 10, 102, 103, 1, read=0)
        self.story.release("w1.1", 10, 110)
        self.story.acquire("w2.1", 11, 105, 112)
        self.story.write("w2.1", 11, 113, 114, 2, read=1)
        self.story.release("w2.1", 11, 120)
        verdict = self.story.judge()
        self.assertEqual(verdict.violations, [])
        self.assertEqual(verdict.figures["lost"], 0)

    def test_update_lost_by_a_stopped_holder(self):
        self.two_holds()
        self.story.write("w2.1", 11, 402, 403, 1, read=0)
        self.story.release("w2.1", 11, 410)
        self.story.write("w1.1", 10, 105, 500, 2, accepted=False, read=0, replaced=1)
        self.story.lost("w1.1", 10, 501, until=104)
        verdict = self.story.judge()
        self.assertEqual(verdict.violations, [])
        self.assertEqual(verdict.figures["lost"], 1)

    def test_update_lost_while_held(self):
        self.story.acquire("w1.1", 10, 100, 101)
        self.story.write("w1.1", 10, 102, 110, 1, read=0, replaced=1)
        self.story.release("w1.1", 10, 120)
        self.assertEqual(self.found(), ["lost update"])

    def test_update_lost_to_a_process_that_was_killed(self):
        self.story.acquire("w1.1", 10, 100, 101)
        self.story.add(395, "w1.1", "kill", "info")
        self.story.add(396, "w1.1", "process", "info")
        self.story.acquire("w2.1", 11, 390, 392)
        self.story.write("w2.1", 11, 393, 397, 1, read=0, replaced=1)
        self.story.release("w2.1", 11, 410)
        self.assertNotIn("lost update", self.found())

    # Several locks together

    def test_company(self):
        self.story.process("w1.1", "multi")
        self.story.acquire_all("w1.1", 10, 100, 100, 101)
        self.story.acquire_all("w1.1", 11, 105, 113, 114, contended="b", companions=("c",))
        self.story.release("w1.1", 10, 110)
        self.story.release("w1.1", 10, 110, lock="b", **{"with": "a"})
        self.story.release("w1.1", 11, 120, lock="b")
        self.story.release("w1.1", 11, 120, lock="c", **{"with": "b"})
        self.assertEqual(self.found(), [])

    def test_company_overlaps(self):
        self.story.process("w1.1", "multi")
        self.story.acquire_all("w1.1", 10, 100, 100, 101)
        self.story.release("w1.1", 10, 130)
        self.story.release("w1.1", 10, 130, lock="b", **{"with": "a"})
        self.story.acquire("w2.1", 11, 110, 120, lock="b")
        self.story.release("w2.1", 11, 140, lock="b")
        self.assertEqual(self.found(), ["overlap"])

    def test_company_overlaps_in_one_process(self):
        self.story.process("w1.1", "multi")
        self.story.acquire_all("w1.1", 10, 100, 100, 101)
        self.story.acquire_all("w1.1", 11, 105, 105, 106, contended="b", companions=("c",))
        self.story.release("w1.1", 10, 110)
        self.story.release("w1.1", 10, 110, lock="b", **{"with": "a"})
        self.story.release("w1.1", 11, 120, lock="b")
        self.story.release("w1.1", 11, 120, lock="c", **{"with": "b"})
        self.assertEqual(self.found(), ["overlap"])

    def test_company_given_up_after_a_loss(self):
        self.story.process("w1.1", "multi")
        self.story.acquire_all("w1.1", 10, 100, 100, 101)
        self.story.key_lost(110, 111)
        self.story.look("w1.1", 10, 150, False, by=151, lock="b", **{"with": "a"})
        self.story.lost("w1.1", 10, 152, "Deleted", 149)
        self.story.lost("w1.1", 10, 152, "OfAnother", 149, lock="b", **{"with": "a"})
        self.assertEqual(self.found(), [])

    def test_company_held_after_another_was_lost(self):
        self.story.process("w1.1", "multi")
        self.story.acquire_all("w1.1", 10, 100, 100, 101)
        self.story.key_lost(110, 111)
        self.story.acquire("w2.1", 11, 140, 145, lock="b")
        self.story.release("w2.1", 11, 160, lock="b")
        self.story.lost("w1.1", 10, 152, "Deleted", 149)
        self.story.lost("w1.1", 10, 152, "OfAnother", 149, lock="b", **{"with": "a"})
        self.assertEqual(self.found(), ["overlap"])

    def renewed_before_it_was_reported(self, form):
        """A former master renewed the key after the new one, which did not have it, had given out the next token."""
        self.story.process("w1.1", form)
        self.story.fail_over(200, 210, 0, 0)
        self.story.acquire("w2.1", 11, 220, 221)
        self.story.write("w2.1", 11, 222, 223, 2)
        self.story.release("w2.1", 11, 225)
        self.story.acquire_all("w1.1", 10, 100, 230, 231)
        self.story.write("w1.1", 10, 232, 233, 1)

    def test_company_renewed_before_it_was_reported(self):
        self.renewed_before_it_was_reported("multi")
        self.assertEqual(self.found(), [])

    def test_company_in_a_scope_renewed_before_it_was_reported(self):
        self.renewed_before_it_was_reported("multi-scoped")
        self.assertEqual(self.found(), [])

    def test_alone_reported_at_once(self):
        self.renewed_before_it_was_reported("signals")
        self.assertEqual(self.found(), ["token", "stale write"])

    # Check 4

    def round(self):
        self.story.acquire("w1.1", 10, 10_010, 10_011)
        self.story.release("w1.1", 10, 10_020)
        self.story.acquire("w2.1", 11, 10_010, 10_030)
        self.story.release("w2.1", 11, 10_040)

    def test_whole_round(self):
        self.round()
        self.story.fault("server-killed", "s1", 100, 200)
        self.story.finish(10_000, "w1.1", "w2.1")
        verdict = self.story.judge(partial=False)
        self.assertEqual(verdict.violations, [])
        words = "\n".join(report(verdict.figures))
        self.assertIn("2 acquisitions", words)
        self.assertIn("1 faults of 1 kinds: server-killed 1", words)
        self.assertIn("seed 7", words)

    def test_no_turn(self):
        self.round()
        self.story.finish(10_000, "w1.1", "w2.1", turned=False)
        self.assertEqual(self.found(partial=False), ["starvation"] * 2)

    def test_no_turn_as_a_reader(self):
        self.story.process("w1.1", "readwrite")
        self.round()
        self.story.finish(10_000, "w1.1", "w2.1", turned=False)
        words = [words for _, words, _ in self.story.judge(partial=False).violations]
        self.assertIn("w1.1 had no turn of a as a reader within", words[0])

    def test_company_is_no_turn(self):
        self.story.process("w1.1", "multi")
        self.round()
        self.story.acquire_all("w1.1", 12, 10_050, 10_050, 10_051)
        self.story.release("w1.1", 12, 10_060)
        self.story.release("w1.1", 12, 10_060, lock="b", **{"with": "a"})
        self.story.acquire("w2.1", 13, 10_070, 10_071, lock="c")
        self.story.release("w2.1", 13, 10_080, lock="c")
        self.story.finish(10_000, "w1.1", "w2.1", turned=False)
        words = [words for _, words, _ in self.story.judge(partial=False).violations]
        self.assertIn("w1.1 had no turn of c within", words[0])
        self.assertIn("w2.1 had no turn of all its locks within", words[1])

    def test_late_turn(self):
        self.round()
        self.story.finish(10_000, "w1.1", "w2.1")
        for event in self.story.lines["w1"]:
            if event["operation"] == "turn":
                event["time"] += 6000 * MS
        self.assertEqual(self.found(partial=False), ["starvation"])

    def test_left(self):
        self.round()
        self.story.finish(10_000, "w1.1", "w2.1", what="key lock:a")
        self.assertEqual(self.found(partial=False), ["left"])

    def test_sockets_left(self):
        self.round()
        self.story.finish(10_000, "w1.1", "w2.1", sockets=1)
        self.assertEqual(self.found(partial=False), ["left"] * 2)

    def test_acquire_that_never_ends(self):
        self.round()
        self.story.add(10_050, "w1.1", "acquire", "invoke", "a")
        self.story.finish(10_000, "w1.1", "w2.1")
        self.assertEqual(self.found(partial=False), ["unfinished"])

    def test_crash(self):
        self.story.add(50, "w1.1", "process", "fail", exit=6, crash=True)
        self.assertEqual(self.found(), ["crash"])

    def test_half_a_round(self):
        self.round()
        self.assertEqual(self.found(partial=False), ["unfinished"])

    # The program

    def run_program(self, *arguments):
        program = [sys.executable, "-B", os.path.join(HERE, "chaoscheck.py"), *arguments]
        done = subprocess.run(program, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def test_exit_status(self):
        self.round()
        self.story.finish(10_000, "w1.1", "w2.1")
        self.story.files()
        self.assertEqual(self.run_program(self.folder.name)[0], 0)
        self.story.acquire("w1.1", 5, 11_000, 11_001)
        self.story.files()
        status, words, _ = self.run_program(self.folder.name)
        self.assertEqual(status, 1)
        self.assertIn("VIOLATION, token", words)

    def test_line_that_is_being_written(self):
        self.round()
        name = self.story.files()[-1]
        with open(name, "a", encoding="utf-8") as out:
            out.write('{"time":123,"proc')
        self.assertEqual(self.run_program("--partial", self.folder.name)[0], 0)

    def test_no_history(self):
        self.story.files()
        bad = os.path.join(self.folder.name, "bad.jsonl")
        for text in ("nonsense\n", "{}\n", '{"time":1,"process":"w1.1","operation":"sing","type":"ok"}\n'):
            with open(bad, "w", encoding="utf-8") as out:
                out.write(text)
            status, _, errors = self.run_program(self.folder.name)
            self.assertEqual(status, 2)
            self.assertIn("bad.jsonl:1", errors)
            self.assertRaises(BadHistory, History, [bad])
        self.assertEqual(self.run_program(os.path.join(self.folder.name, "none.jsonl"))[0], 2)

    def test_picture(self):
        self.story.acquire("w1.1", 10, 100, 101)
        self.story.release("w1.1", 10, 120)
        self.story.acquire("w2.1", 11, 110, 119)
        self.story.release("w2.1", 11, 130)
        self.story.read("w2.1", 12, 140, 141, 150)
        self.story.fault("latency", "w1.1-s1", 90, 140)
        history = History(self.story.files())
        picture = timeline(history, judge(history, True))
        for part in ("latency w1.1-s1", 'class="wrong"', "both held it", "</svg>"):
            self.assertIn(part, picture)
        for style, bars in (("hold", 2), ("shared", 1)):
            self.assertEqual(picture.count(f'class="{style}"'), bars + 1)  # and the legend


if __name__ == "__main__":
    unittest.main()
