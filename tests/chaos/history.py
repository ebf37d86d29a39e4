# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT
"""Reads the histories of a round and reconstructs who held which lock when.

A history is a file for each process, with one JSON object in each line. All times are nanoseconds of the boot clock,
which all processes of a machine share. The time of a line is read before the state that the line records.
"""

import bisect
import json

MS = 1_000_000
NEVER = 1 << 62
CLAIM_TTL = 3000 * MS  # that of constants.lua: a hand-over is believed for this long, then its extension must be confirmed
TIMER_SLACK = MS  # timers count in milliseconds: a hold may end this long before its deadline


def margin(lease):
    """The library promises: deadline = sent + lease - this."""
    return lease // 100 + 2 * MS


class BadHistory(Exception):
    pass


class Hold:
    """One acquisition, from the moment at which its holder was notified.

    `pieces` are the times for which the library reported, or would have reported, that the lock is held. They are
    inner bounds: if two of them overlap, isHeld() was true for two holders at the same time. Times for which a fault
    is known to have removed the key are left out: see Lock.take_away(). So are those for which the server may no longer
    have had it because its clock was set: see gaps().
    """

    def __init__(self, process, lock, token, invoked, line, event):
        self.process, self.lock, self.token, self.invoked = process, lock, token, invoked
        self.reader = event.get("mode") == "shared"
        self.take = event.get("take", 0)  # permits
        self.permits = event.get("permits", 0)  # that there are, if it takes some
        self.slots = [int(slot) for slot in event["slots"].split(",")] if "slots" in event else []
        self.shared = self.reader or self.take > 0
        self.in_order = False  # acquired, and perhaps renewed, long before it was reported with the others of a MultiLock
        self.line = line
        self.last_line = line
        self.start = 0
        self.claims = []  # (notified, sent, deadline): confirmations by the server; the last two may be unknown
        self.held_until = 0  # the last time at which isHeld() was true
        self.seen_lost = None  # the line in which isHeld() was false
        self.seen_lost_by = None  # the latest time at which it became false
        self.came_back = None  # a later line in which isHeld() was true again
        self.how = None  # released, lost, or None: its process was killed
        self.reason = None  # of its loss, which the release may have found; Unknown: the form does not provide it
        self.lost_at = None
        self.ended_at = 0  # when its holder released it, or was notified of its loss
        self.end = 0  # the last time at which it was held
        self.writes = []
        self.pieces = []
        self.taken_by = []  # faults
        self.beyond = []  # the parts of the pieces that were left out because a clock was set
        self.without_key = []  # the parts that were left out because a new master did not have the key
        self.shortened_at = None  # the last confirmation may have ended then, because a clock was set
        self.granted_since = None  # the earliest time of the grant, if a clock was set before its message came

    @property
    def sent(self):
        """The earliest time at which the command that acquired the lock was sent."""
        if self.in_order:
            return self.invoked
        if self.granted_since is not None:
            return self.granted_since
        return self.claims[0][1] if self.claims[0][1] is not None else self.invoked

    @property
    def until(self):
        return self.pieces[-1][1] if self.pieces else self.start

    def excludes(self, other):
        return not (self.shared and other.shared)

    @property
    def holder(self):
        kind = "the reader " if self.reader else f"the holder of {self.take} permits " if self.take else ""
        return f"{kind}{self.process} (token {self.token})"

    def look(self, event, line):
        time, held = event["time"], event["held"]
        if held:
            self.held_until = max(self.held_until, time)
            if self.seen_lost and not self.came_back:
                self.came_back = line
        elif not self.seen_lost:
            self.seen_lost, self.seen_lost_by = line, event.get("by")
        self.last_line = line

    def known_lost_at(self, lease):
        """When its loss was noticed, if its deadline cannot have passed by then."""
        times = [time for time in (self.seen_lost_by, self.lost_at) if time is not None]
        _, _, deadline = self.claims[-1]
        if deadline is None:
            at_least = min(lease, CLAIM_TTL)
            deadline = self.invoked + at_least - margin(at_least)
        early = [time for time in times if time < deadline - TIMER_SLACK]
        return min(early, default=None)

    def close(self, killed_at):
        """To be called when all of its lines are known."""
        deadline = self.claims[-1][2]
        if self.how == "lost" and self.reason != "LeaseExpired":
            end = self.held_until  # it was lost before the loss was noticed; only the server knows when
        elif deadline is None or (self.how is None and killed_at is None):
            end = self.held_until
        else:
            notified = self.ended_at if self.how else killed_at
            end = max(self.held_until, min(deadline, notified) - TIMER_SLACK)
        self.end = max(end, 0)
        if not self.held_until:
            return  # it ended before its holder could call isHeld()
        notified = [claim[0] for claim in self.claims] + [self.end]
        for (_, sent, _), begin, after in zip(self.claims, notified, notified[1:]):
            self.pieces.append((begin, max(begin, min(after, self.end)), sent))

    def joined(self):
        """The pieces; adjacent ones are joined."""
        joined = []
        for begin, end, sent in self.pieces:
            if joined and joined[-1][1] == begin:
                joined[-1] = (joined[-1][0], end, sent)
            else:
                joined.append((begin, end, sent))
        return joined

    def gaps(self, claim, until, steps, lease):
        """[(begin, end)]: when the hold may have been without its key, because the server's clock was set since `invoked`.

        This is the limit that docs/protocol.md describes, and no more. A lease that was confirmed before the clock was set
        forward ends as much earlier, and its holder learns of it by the next confirmation. If the clock was set while the
        holder waited, it may count the lease that was handed over to it from a time that is too late by as much, but not
        later than the message came.
        """
        _, sent, deadline = self.claims[claim]
        late = 0  # the lease may have ended this long before the deadline, and its margin
        gaps = []
        for step in steps:
            waited = claim == 0 and step.begin <= self.start
            since = self.invoked if sent is None else sent
            if not waited and (step.by < 0 or step.to < since or step.begin > until):
                continue
            if sent is None:
                first = step.begin if step.by > 0 else self.invoked + lease
                gaps.append((first, max(step.to, self.start) + lease))
            elif step.by > 0 and sent - late <= step.to:
                late += step.by
                gaps.append((max(step.begin, deadline - late), NEVER))
            else:
                handed_over = step.begin if step.by > 0 else self.invoked  # at the earliest
                late += min(abs(step.by), max(0, sent - handed_over))
                gaps.append((deadline - late, NEVER))
        return sorted(gaps)

    def step_clock(self, steps, lease):
        """The server's clock was set; in order of time."""
        pieces = []
        for claim, (begin, end, sent) in enumerate(self.pieces):
            gaps = self.gaps(claim, end, steps, lease)
            for first, last in gaps:
                if begin < min(first, end):
                    pieces.append((begin, min(first, end), sent))
                if max(begin, first) < min(last, end):
                    self.beyond.append((max(begin, first), min(last, end)))
                begin = max(begin, last)
            if begin < end or not gaps:
                pieces.append((begin, end, sent))
        self.pieces = pieces
        for begin, _ in self.gaps(len(self.claims) - 1, NEVER, steps, lease)[:1]:
            self.shortened_at = begin
        sent = self.claims[0][1]
        if sent is not None:
            self.granted_since = max(self.invoked, sent - sum(abs(step.by) for step in steps if step.begin <= self.start))

    def take_away(self, fault, lease):
        """The server lost the key at some time in the fault's window, so that earlier confirmations are void."""
        since = fault.begins_for(self)
        if since is None:
            return
        pieces = []
        taken = False
        for begin, end, sent in self.pieces:
            if sent is None:
                # The time of the confirmation is unknown: at most a lease before isHeld() was last true.
                if self.invoked > fault.to or end < since:
                    pieces.append((begin, end, sent))
                    continue
                taken = True
                if begin < since:
                    pieces.append((begin, since, sent))
                if fault.by_fail_over:
                    self.without_key.append((max(begin, since), min(end, fault.to + lease)))
                if end > fault.to + lease:
                    pieces.append((max(begin, fault.to + lease), end, sent))
            elif sent <= fault.to and end >= since:
                taken = True
                if begin < since:
                    pieces.append((begin, since, sent))
                if fault.by_fail_over:
                    self.without_key.append((max(begin, since), end))
            else:
                pieces.append((begin, end, sent))
        if taken:
            self.pieces = pieces
            self.taken_by.append(fault)


class KeyLoss:
    """A fault made the server lose or overwrite a lock's key between `begin` and `to`."""

    def __init__(self, kind, begin, to, line):
        self.kind, self.begin, self.to, self.line = kind, begin, to, line
        self.foreign_until = None  # a foreign client's key exists at least until then
        self.fence = None  # of a fail-over: the newest fencing token that the new master had of the lock,
        self.expires = 0  # and when the key that it had ends; 0 if it had none

    def begins_for(self, hold):
        """When it took the hold's key away; None if the new master had the key for as long as the holder was promised."""
        if self.fence is None:
            return self.begin
        if hold.token != self.fence or not self.expires or hold.shared:
            return self.begin  # nobody knows which of those that shared the key the new master had
        promised = [deadline for _, sent, deadline in hold.claims if sent is None or sent <= self.to]
        if promised and None not in promised and max(promised) <= self.expires:
            return None
        return max(self.begin, self.expires)  # a renewal did not reach the new master

    @property
    def by_fail_over(self):
        return self.fence is not None


class ClockStep:
    """The clock of a lock's server was set forward by `by` (back, if negative) at some time between `begin` and `to`."""

    def __init__(self, begin, to, by):
        self.begin, self.to, self.by = begin, to, by


class Write:
    def __init__(self, hold, event, line):
        self.hold, self.line = hold, line
        self.begin, self.to = event["from"], event["time"]  # of a reader: the time between two readings of the counter
        self.accepted, self.sequence = event["accepted"], event["sequence"]
        self.read, self.replaced = event["read"], event["replaced"]


class Lock:
    def __init__(self, name):
        self.name = name
        self.holds = []
        self.losses = []
        self.votes_lost = []  # in a quorum: one server lost the key, which excuses a loss, but no overlap
        self.steps = []
        self.fences_lost = []  # (begin, to): a fault deleted the counter of fencing tokens, and only that

    def has_forgotten(self, hold, reader):
        """The reader has a smaller token than an earlier hold, because it has joined readers at a new master, which did
        not know of that hold."""
        return reader.reader and reader.token < hold.token and any(
            loss.by_fail_over and loss.fence < hold.token and hold.sent <= loss.to and loss.begin <= reader.start
            for loss in self.losses
        )

    def step_clock(self, lease):
        """Ends the holds as early as clock steps may have ended their leases."""
        self.steps.sort(key=lambda step: step.begin)
        begins, ends = ([getattr(step, name) for step in self.steps] for name in ("begin", "to"))
        for hold in self.holds:
            first = bisect.bisect_left(ends, hold.invoked)
            last = bisect.bisect_right(begins, max(hold.until, hold.lost_at or 0, hold.seen_lost_by or 0))
            if first < last:
                hold.step_clock(self.steps[first:last], lease)

    def take_away(self, lease):
        """Ends the holds whose keys were lost by faults."""
        self.losses.sort(key=lambda loss: loss.begin)
        begins = [loss.begin for loss in self.losses]
        for hold in self.holds:
            # A fault affects a hold whose acquire had been sent by then.
            first = 0
            last = bisect.bisect_right(begins, hold.until)
            while last > first:
                last -= 1
                loss = self.losses[last]
                if loss.to < hold.invoked:
                    continue
                hold.take_away(loss, lease)


class Process:
    def __init__(self, name, form):
        self.name, self.form = name, form
        self.killed_at = None
        self.ended = None  # ok, killed, or the line that reports a crash
        self.sockets = 0
        self.turned_at = None
        self.line = None
        self.last_time = 0

    @property
    def shared(self):
        """The words for those of its acquires that share a lock; None if none does."""
        words = {"readwrite": "as a reader", "semaphore": "with permits"}
        return words.get(self.form.split("-")[0])


class History:
    """All histories of one round."""

    def __init__(self, files):
        self.files = list(files)
        self.locks = {}
        self.processes = {}
        self.faults = []  # (kind, target, begin, end)
        self.about = {}
        self.lease = 300 * MS
        self.healed_at = None
        self.end_at = None
        self.fail_overs = 0
        self.slot_moves = 0
        self.moves_stopped = []  # (event, line): keys that could not be moved
        self.left = []  # (event, line): the results of the searches for leftovers
        self.acquires_failed = {}
        self.unfinished = []  # (process, lock, line): acquires that never ended
        self.acquired = []  # (time, process, lock, shared)
        self.contended = set()  # names of locks; not those that are only held together with others
        self._open = {}
        self._faults_open = {}
        for index, name in enumerate(self.files):
            self._read(index, name)
        self._complete()

    def text(self, line):
        """The line, with its file and number."""
        index, number = line
        with open(self.files[index], encoding="utf-8") as lines:
            for i, text in enumerate(lines, 1):
                if i == number:
                    return f"{self.files[index]}:{number}: {text.rstrip()}"
        return f"{self.files[index]}:{number}"

    def _read(self, index, name):
        with open(name, encoding="utf-8") as lines:
            text = lines.readlines()
        for number, line in enumerate(text, 1):
            if number == len(text) and not line.endswith("\n"):
                break  # it is still being written
            try:
                event = json.loads(line)
                getattr(self, "_on_" + event["operation"], self._unknown)(event, (index, number))
            except (ValueError, KeyError, TypeError) as error:
                raise BadHistory(f"{name}:{number}: not an event of a history ({error}): {line.rstrip()}") from error

    def _lock(self, name):
        return self.locks.setdefault(name, Lock(name))

    def _process(self, event):
        name = event["process"]
        process = self.processes.get(name)
        if not process:
            process = self.processes[name] = Process(name, event.get("form", ""))
        process.form = event.get("form", process.form)
        return process

    def _unknown(self, event, line):
        raise ValueError(f"unknown operation {event['operation']}")

    def _state(self, event):
        """(time and line of an acquire in progress, hold)"""
        process = self._process(event)
        process.last_time = max(process.last_time, event["time"])
        return self._open.setdefault((event["process"], event["lock"], event.get("with")), [None, None])

    def _hold(self, event):
        hold = self._state(event)[1]
        if hold is None or hold.token != event["token"]:
            raise ValueError("it belongs to no hold")
        return hold

    def _on_acquire(self, event, line):
        state = self._state(event)
        is_companion = "with" in event  # its MultiLock contends for another lock
        if event["type"] == "invoke":
            if not is_companion:
                self.contended.add(event["lock"])
            self._close_hold(state)
            state[0] = (event["time"], line)
            return
        if state[0] is None:
            raise ValueError("no acquire is under way")
        invoked, _ = state[0]
        state[0] = None
        if event["type"] == "fail":
            error = event["error"]
            self.acquires_failed[error] = self.acquires_failed.get(error, 0) + 1
            return
        hold = Hold(event["process"], event["lock"], event["token"], invoked, line, event)
        hold.start = event["time"]
        state[1] = hold
        hold.in_order = self._process(event).form in ("multi", "multi-scoped")
        self._lock(event["lock"]).holds.append(hold)
        if not is_companion:
            self.acquired.append((event["time"], event["process"], event["lock"], hold.shared))
        self._claim(hold, event, line)

    def _claim(self, hold, event, line):
        deadline = event.get("deadline")
        sent = None if deadline is None else deadline - self.lease + margin(self.lease)
        hold.claims.append((event["time"], sent, deadline))
        hold.look(event, line)

    def _on_renew(self, event, line):
        hold = self._hold(event)
        if event.get("deadline") is not None:
            self._claim(hold, event, line)
        else:
            hold.look(event, line)

    def _on_hold(self, event, line):
        hold = self._hold(event)
        if event["type"] == "info":
            hold.look(event, line)
            return
        hold.held_until = max(hold.held_until, event["heldUntil"])
        hold.reason, hold.lost_at, hold.last_line = event["reason"], event["time"], line
        if hold.how is None:
            hold.how, hold.ended_at = "lost", event["time"]
        self._close_hold(self._state(event))

    def _on_write(self, event, line):
        hold = self._hold(event)
        hold.writes.append(Write(hold, event, line))
        hold.last_line = line

    def _on_release(self, event, line):
        if event["type"] != "invoke":
            self._close_hold(self._state(event))
            return
        hold = self._hold(event)
        hold.look(event, line)
        hold.held_until = max(hold.held_until, event["heldUntil"])
        hold.how, hold.ended_at = "released", event["time"]

    @staticmethod
    def _close_hold(state):
        state[1] = None

    def _on_process(self, event, line):
        process = self._process(event)
        if event["type"] == "invoke":
            process.line = line
        elif event["type"] == "ok":
            process.ended, process.sockets, process.line = "ok", event["sockets"], line
        elif event["type"] == "info":
            process.ended = "killed"
        else:
            process.ended = line

    def _on_kill(self, event, line):
        self._process(event).killed_at = event["time"]

    def _on_turn(self, event, line):
        self._process(event).turned_at = event["time"]

    def _on_key(self, event, line):
        loss = KeyLoss(event["lostBy"], event["from"], event["to"], line)
        if "foreignMs" in event:
            loss.foreign_until = event["from"] + event["foreignMs"] * MS
        if "fence" in event:
            loss.fence, loss.expires = event["fence"], event["expires"]
        lock = self._lock(event["lock"])
        (lock.votes_lost if event.get("minority") else lock.losses).append(loss)

    def _on_fence(self, event, line):
        self._lock(event["lock"]).fences_lost.append((event["from"], event["to"]))

    def _on_failover(self, event, line):
        self.fail_overs += 1

    def _on_move(self, event, line):
        if event["type"] == "ok":
            self.slot_moves += 1
        else:
            self.moves_stopped.append((event, line))

    def _on_clock(self, event, line):
        self._lock(event["lock"]).steps.append(ClockStep(event["from"], event["to"], event["ms"] * MS))

    def _on_fault(self, event, line):
        key = (event["kind"], event["target"])
        if event["type"] == "invoke":
            self._faults_open.setdefault(key, []).append(event["time"])
        else:
            self.faults.append((*key, self._faults_open[key].pop(0), event["time"]))

    def _on_round(self, event, line):
        self.about = event
        self.lease = event["lease"] * MS

    def _on_heal(self, event, line):
        self.healed_at = event["time"]

    def _on_end(self, event, line):
        self.end_at = event["time"]

    def _on_left(self, event, line):
        self.left.append((event, line))

    def _complete(self):
        for (kind, target), begins in self._faults_open.items():
            self.faults += [(kind, target, begin, None) for begin in begins]
        self.faults.sort(key=lambda fault: fault[2])
        for (process, lock, _), (acquire, _) in self._open.items():
            if acquire and self.processes[process].ended != "killed":
                self.unfinished.append((process, lock, acquire[1]))
        for lock in self.locks.values():
            if self.about.get("replicas"):
                # All replicas had each lock before it was reported, so no fail-over may lose a key.
                lock.losses = [loss for loss in lock.losses if not loss.by_fail_over]
            for hold in lock.holds:
                process = self.processes[hold.process]
                killed_at = process.killed_at if process.ended == "killed" else None
                hold.close(killed_at)
            lock.step_clock(self.lease)
            lock.take_away(self.lease)
