#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT
"""Judges histories of locks.

usage: chaoscheck.py [--partial] [--json FILE] [--picture FILE] HISTORY...

The histories are those of one round: a file for each process, or a folder of them. For each lock it checks:
  1. no two processes hold it at a time, unless both are readers, or take permits of which there are enough; tokens
     rise, and readers that hold it together share one; a hold that has ended stays ended, and only faults remove keys
  2. the fenced record accepted no write of a holder after a write of its successor
  3. no update of the unfenced counter was lost, except by a holder after its lease
  4. after healing each process acquired each lock, every acquire and process ended, and nothing is left
Exit status: 0 no violation, 1 violations (printed with the lines that prove them), 2 no history.
"""

import argparse
import glob
import heapq
import itertools
import json
import os
import sys

from history import MS, BadHistory, History

SHOWN = 5  # violations of each sort that are printed in full
SORTS = ("overlap", "token", "revival", "theft", "stale write", "lost update")
SORTS += ("crash", "unfinished", "starvation", "left", "stopped move")


class Verdict:
    def __init__(self, history):
        self.history = history
        self.violations = []  # (sort, words, lines)
        self.figures = {}
        self.overlaps = []  # (lock, begin, end)

    def blame(self, sort, words, *lines):
        assert sort in SORTS
        self.violations.append((sort, words, [line for line in lines if line]))


def seconds(history, time):
    origin = history.about.get("time") or (history.acquired[0][0] if history.acquired else 0)
    return f"{(time - origin) / 1e9:.6f} s"


def check_holds(history, verdict):
    """Check 1."""
    verdict.figures["tokens_explained"] = 0
    for lock in history.locks.values():
        holds = sorted(lock.holds, key=lambda hold: (hold.token, hold.start))
        check_overlaps(history, lock, holds, verdict)
        check_tokens(history, lock, holds, verdict)
        check_readers(history, lock, holds, verdict)
        check_permits(history, lock, holds, verdict)
        for hold in holds:
            check_end(history, lock, hold, verdict)
        check_foreign(history, lock, holds, verdict)
    verdict.figures["overlaps"] = len(verdict.overlaps)
    verdict.figures["overlaps_within_limit"] = sum(map(overlaps_within_limit, history.locks.values()))
    verdict.figures["overlaps_explained"] = sum(map(overlaps_explained, history.locks.values()))


def check_overlaps(history, lock, holds, verdict):
    """end(k) <= start(k + 1) in order of time, unless both share the lock. check_tokens() checks that the tokens have the
    same order."""
    pieces = sorted(
        ((begin, end, index) for index, hold in enumerate(holds) for begin, end, _ in hold.pieces),
        key=lambda piece: piece[0],
    )
    latest = {True: (0, None), False: (0, None)}  # (end, index) of those that share it, and of others
    for begin, end, index in pieces:
        second = holds[index]
        for latest_end, other in latest.values():
            if other is None or other == index or begin >= latest_end or not second.excludes(holds[other]):
                continue
            first = holds[other]
            until = min(end, latest_end)
            both = (until - begin) / MS
            verdict.overlaps.append((lock.name, begin, until))
            verdict.blame(
                "overlap",
                f'lock "{lock.name}": {first.holder} and {second.holder} both held it for {both:.3f} ms '
                f"at {seconds(history, begin)}",
                first.line,
                first.last_line,
                second.line,
                second.last_line,
            )
        if end > latest[second.shared][0]:
            latest[second.shared] = (end, index)


def check_readers(history, lock, holds, verdict):
    """Readers that hold the lock at the same time have the same token."""
    pieces = sorted(
        ((begin, end, index) for index, hold in enumerate(holds) if hold.reader for begin, end, _ in hold.pieces),
        key=lambda piece: piece[0],
    )
    together = set()
    latest = {}  # token: (end, index)
    for begin, end, index in pieces:
        latest = {token: piece for token, piece in latest.items() if begin < piece[0]}
        second = holds[index]
        for token, (_, other) in latest.items():
            first = holds[other]
            if other == index:
                continue
            together |= {other, index}
            if token == second.token or 0 in (token, second.token):
                continue
            since, until = min(first.invoked, second.invoked), max(first.start, second.start)
            if any(lost[0] <= until and since <= lost[1] for lost in lock.fences_lost):
                continue  # nobody knew the token of the others any more
            verdict.blame(
                "token",
                f'lock "{lock.name}": {first.holder} and {second.holder} held it together',
                first.line,
                second.line,
            )
        if end > latest.get(second.token, (0, None))[0]:
            latest[second.token] = (end, index)
    verdict.figures["readers_together"] = verdict.figures.get("readers_together", 0) + len(together)


def check_permits(history, lock, holds, verdict):
    """Those that hold the lock at the same time take no more permits than there are, and none has the slot of another."""
    pieces = sorted(
        ((begin, end, index) for index, hold in enumerate(holds) if hold.take for begin, end, _ in hold.pieces),
        key=lambda piece: piece[0],
    )
    together = set()
    ends = []  # (end, index), the earliest first
    for begin, end, index in pieces:
        while ends and ends[0][0] <= begin:
            heapq.heappop(ends)
        heapq.heappush(ends, (end, index))
        present = {other for _, other in ends}
        if len(present) > 1:
            together |= present
        taken = sum(holds[other].take for other in present)
        if taken > holds[index].permits:
            until = ends[0][0]
            verdict.overlaps.append((lock.name, begin, until))
            verdict.blame(
                "overlap",
                f'lock "{lock.name}": {taken} of {holds[index].permits} permits were taken for '
                f"{(until - begin) / MS:.3f} ms at {seconds(history, begin)}",
                *[holds[other].line for other in sorted(present)],
            )
        others = [holds[other] for other in present if other != index]
        check_slots(history, lock, holds[index], others, (begin, ends[0][0]), verdict)
    verdict.figures["permits_together"] = verdict.figures.get("permits_together", 0) + len(together)


def check_slots(history, lock, hold, others, times, verdict):
    """Of a hold that begins, or goes on, beside others."""
    begin, until = times
    if hold.slots and (len(hold.slots) != hold.take or max(hold.slots) >= hold.permits):
        verdict.blame("overlap", f'lock "{lock.name}": {hold.holder} of {hold.permits} has the slots {hold.slots}', hold.line)
    for other in others:
        if set(hold.slots) & set(other.slots):
            verdict.overlaps.append((lock.name, begin, until))
            verdict.blame(
                "overlap",
                f'lock "{lock.name}": {other.holder} and {hold.holder} had the same slot for '
                f"{(until - begin) / MS:.3f} ms at {seconds(history, begin)}",
                other.line,
                hold.line,
            )


def overlaps_within_limit(lock):
    """The number of holds that overlapped another only because a server's clock had been set forward."""
    return overlaps_of_parts(lock, lambda hold: hold.beyond)


def overlaps_explained(lock):
    """The number of holds that overlapped another only because the new master of a fail-over did not have their key."""
    return overlaps_of_parts(lock, lambda hold: hold.without_key)


def overlaps_of_parts(lock, parts):
    spans = [(hold, begin, end) for hold in lock.holds for begin, end, _ in hold.pieces]
    spans += [(hold, begin, end) for hold in lock.holds for begin, end in parts(hold)]
    return sum(
        any(
            other is not hold and hold.excludes(other) and begin < last and first < end for other, begin, end in spans
        )
        for hold in lock.holds
        for first, last in parts(hold)
    )


def check_tokens(history, lock, holds, verdict):
    """Tokens rise strictly from each hold to every hold whose acquire began after the first was reported. Only readers
    share one."""
    earliest = None  # the first that was reported, among those with greater tokens, which are in `greater`
    greater = []
    # A hold that had ended before its acquire was notified has no token.
    known = [hold for hold in reversed(holds) if hold.token or hold.held_until]
    for token, same in itertools.groupby(known, key=lambda hold: hold.token):
        same = list(same)
        other = next((hold for hold in same if not hold.reader), None)
        for hold in same:
            if other and hold is not other:
                verdict.blame(
                    "token",
                    f'lock "{lock.name}": {other.process} and {hold.holder} have the same token, {token}',
                    hold.line,
                    other.line,
                )
            elif earliest is not None and earliest.start < hold.sent:
                before = earliest
                if lock.has_forgotten(earliest, hold):
                    verdict.figures["tokens_explained"] += 1
                    wrong = (other for other in greater if not lock.has_forgotten(other, hold))
                    before = next((other for other in wrong if other.start < hold.sent), None)
                if before:
                    verdict.blame(
                        "token",
                        f'lock "{lock.name}": {hold.process} got the token {hold.token} after {before.process} '
                        f"had been notified of {before.token}, which is not smaller",
                        before.line,
                        hold.line,
                    )
        greater += same
        earliest = min([*same, *([earliest] if earliest else [])], key=lambda hold: hold.start)


def check_end(history, lock, hold, verdict):
    if hold.came_back:
        verdict.blame(
            "revival",
            f'lock "{lock.name}": {hold.process} (token {hold.token}) held it again after isHeld() had been false',
            hold.seen_lost,
            hold.came_back,
        )
    if hold.reason == "OfAnother":
        return  # it was given up because its MultiLock had lost another lock
    if hold.reason in (None, "LeaseExpired", "Unknown"):
        # Then the key vanished before any deadline, without a release.
        known_lost_at = hold.known_lost_at(history.lease)
        if known_lost_at is None or (history.end_at is not None and known_lost_at > history.end_at):
            return
    else:
        known_lost_at = hold.lost_at
    confirmed = hold.claims[-1][1]
    since = hold.invoked if confirmed is None else confirmed
    if hold.shortened_at is not None and known_lost_at >= hold.shortened_at:
        return
    begins = [loss.begins_for(hold) for loss in lock.losses + lock.votes_lost if loss.to >= since]
    if not any(begin is not None and begin <= known_lost_at for begin in begins):
        verdict.blame(
            "theft",
            f'lock "{lock.name}": {hold.process} (token {hold.token}) lost it ({hold.reason or "before its deadline"}), '
            "though no fault had taken its key away",
            hold.line,
            hold.seen_lost,
            hold.last_line,
        )


def check_foreign(history, lock, holds, verdict):
    """Nobody acquires a lock that a foreign client holds."""
    for loss in lock.losses:
        if not loss.foreign_until:
            continue
        for hold in holds:
            if hold.sent > loss.to and hold.start < loss.foreign_until and not hold.taken_by:
                if any(other.begin > loss.begin and other.to < hold.start for other in lock.losses):
                    continue
                verdict.blame(
                    "overlap",
                    f'lock "{lock.name}": {hold.process} (token {hold.token}) acquired it while a foreign client had it',
                    loss.line,
                    hold.line,
                )


def check_writes(history, verdict):
    """Check 2, in the order in which the record received the writes."""
    accepted = refused = stale = explained = 0
    for lock in history.locks.values():
        writes = sorted((write for hold in lock.holds for write in hold.writes), key=lambda write: write.sequence)
        newest = None  # the write whose holder sent its acquire last
        for write in writes:
            if not write.accepted:
                refused += 1
                continue
            accepted += 1
            hold = write.hold
            if newest and newest.hold.sent > hold.start and lock.has_forgotten(hold, newest.hold):
                explained += 1
            elif newest and newest.hold.sent > hold.start and not is_shared_by(newest.hold, hold):
                stale += 1
                verdict.blame(
                    "stale write",
                    f'lock "{lock.name}": the record accepted a write of {hold.process} (token {hold.token}) '
                    f"after one of its successor {newest.hold.process} (token {newest.hold.token})",
                    newest.line,
                    write.line,
                )
            if newest is None or hold.sent > newest.hold.sent:
                newest = write
    verdict.figures.update(writes=accepted + refused, refused=refused, stale=stale, stale_explained=explained)


def is_shared_by(first, second):
    """They are readers of one phase: neither is the other's successor."""
    return first.token == second.token and not first.excludes(second)


def check_counters(history, verdict):
    """Check 3: an update is lost if a write replaces another value than the one that was read. Who shares the lock
    writes nothing, and finds another value when it reads again."""
    lost = innocent = changed = 0
    for lock in history.locks.values():
        writes = sorted((write for hold in lock.holds for write in hold.writes), key=lambda write: write.begin)
        # Writes, or possible writes, of a process that could not know whether it still held the lock.
        beyond = [(write.begin, write.to, write) for write in writes if not write.hold.shared and not within(write)]
        for hold in lock.holds:
            if hold.shared:
                continue
            process = history.processes[hold.process]
            if hold.how is None and process.ended == "killed":
                # With the form "run" the holder is another process, which is ended a little later.
                later = history.lease if process.form == "run" else 0
                beyond.append((hold.start, (process.killed_at or process.last_time) + later, None))
        beyond.sort(key=lambda entry: entry[0])
        mismatches = [write for write in writes if write.read != write.replaced]
        for write, culprits in zip(mismatches, touching(mismatches, beyond)):
            if write.hold.shared:
                changed += 1
            else:
                lost += write.replaced - write.read  # negative if the value of a late writer was replaced in turn
            if within(write) and not culprits:
                verdict.blame(
                    "lost update",
                    f'lock "{lock.name}": {write.hold.holder} read {write.read} and '
                    f"{'then' if write.hold.shared else 'replaced'} {write.replaced}, though it held the lock all the time, as did all who wrote meanwhile",
                    write.line,
                )
                innocent += 1
    verdict.figures.update(lost=lost, lost_while_held=innocent, changed_under_sharers=changed)


def within(write):
    return any(begin <= write.begin and write.to <= end for begin, end, _ in write.hold.joined())


def touching(writes, beyond):
    """For each write: whether a write in `beyond` overlaps it. Both lists are sorted by begin."""
    active = []
    position = 0
    for write in writes:
        while position < len(beyond) and beyond[position][0] <= write.to:
            begin, end, other = beyond[position]
            heapq.heappush(active, (end, position, other))
            position += 1
        while active and active[0][0] < write.begin:
            heapq.heappop(active)
        yield any(other is not write for _, _, other in active)


def check_rest(history, verdict, partial):
    """Check 4, and that no program failed."""
    for process in history.processes.values():
        if isinstance(process.ended, tuple):
            verdict.blame("crash", f"{process.name} did not end as ordered", process.ended)
    for event, line in history.moves_stopped:
        verdict.blame("stopped move", f'lock "{event["lock"]}": {event["key"]} was at the target of its slot already', line)
    if partial:
        return
    if history.healed_at is None or history.end_at is None or not history.left:
        verdict.blame("unfinished", "the history ends before the round did")
        return
    bound = history.about["bound"] * MS
    slowest = 0
    alive = [process for process in history.processes.values() if process.ended != "killed"]
    turns = {}
    for time, *turn in history.acquired:
        if time > history.healed_at:
            turns.setdefault(tuple(turn), time)
    for process in alive:
        waited = None if process.turned_at is None else process.turned_at - history.healed_at
        if waited is None or waited > bound:
            modes = {False: ""} | ({True: " " + process.shared} if process.shared else {})
            missing = [
                name + words
                for name in sorted(history.contended)
                for mode, words in modes.items()
                if (process.name, name, mode) not in turns
            ]
            verdict.blame(
                "starvation",
                f"{process.name} had no turn of {', '.join(missing) or 'all its locks'} within "
                f"{bound // MS} ms after healing",
                *[line for name, _, line in history.unfinished if name == process.name],
            )
        else:
            slowest = max(slowest, waited)
        if process.ended is None:
            verdict.blame("unfinished", f"{process.name} never ended", process.line)
        elif process.sockets:
            verdict.blame("left", f"{process.name} still had {process.sockets} sockets without a lock", process.line)
    for process, lock, line in history.unfinished:
        verdict.blame("unfinished", f'an acquire of "{lock}" by {process} never ended', line)
    for event, line in history.left:
        if event["type"] != "ok":
            verdict.blame("left", f"left behind: {event['what']}", line)
    verdict.figures["turn_ms"] = round(slowest / MS)


def judge(history, partial=False):
    verdict = Verdict(history)
    kinds = {}
    for kind, *_ in history.faults:
        kinds[kind] = kinds.get(kind, 0) + 1
    forms = {}
    for hold in (hold for lock in history.locks.values() for hold in lock.holds):
        form = history.processes[hold.process].form
        forms[form] = forms.get(form, 0) + 1
    holds = [hold for lock in history.locks.values() for hold in lock.holds]
    verdict.figures.update(
        acquisitions=len(holds),
        acquisitions_by_form=forms,
        processes=len(history.processes),
        locks=len(history.locks),
        acquisitions_by_readers=sum(hold.reader for hold in holds),
        acquisitions_with_permits=sum(hold.take > 0 for hold in holds),
        acquisitions_with_slots=sum(len(hold.slots) > 0 for hold in holds),
        faults=len(history.faults),
        faults_by_kind=kinds,
        fail_overs=history.fail_overs,
        slot_moves=history.slot_moves,
        moves_stopped=len(history.moves_stopped),
        holds_lost=sum(hold.reason is not None for hold in holds),
        holds_killed=sum(hold.how is None and history.processes[hold.process].ended == "killed" for hold in holds),
        keys_taken=sum(bool(hold.taken_by) for hold in holds),
        acquires_failed=history.acquires_failed,
        seed=history.about.get("seed"),
    )
    check_holds(history, verdict)
    check_writes(history, verdict)
    check_counters(history, verdict)
    check_rest(history, verdict, partial)
    return verdict


def fail_over_words(figures):
    words = []
    if figures["fail_overs"]:
        words.append(
            f"{figures['fail_overs']} fail-overs; {figures['overlaps_explained']} overlaps explained by keys that they lost"
        )
    if figures["tokens_explained"] or figures["stale_explained"]:
        words.append(
            f"{figures['tokens_explained']} tokens of readers smaller than one that a new master did not know; "
            f"{figures['stale_explained']} stale writes explained by such tokens"
        )
    if figures["slot_moves"]:
        words.append(f"{figures['slot_moves']:,} slots moved, {figures['moves_stopped']} times a key stopped the move")
    return words


def sharing_words(figures):
    words = [
        f"{figures['acquisitions_' + acquirers]:,} acquisitions {acquirers.replace('_', ' ')}, {figures[together]:,} of them "
        f"together with others; {figures['changed_under_sharers']:,} times the counter changed between two readings"
        for acquirers, together in (("by_readers", "readers_together"), ("with_permits", "permits_together"))
        if figures["acquisitions_" + acquirers]
    ]
    if figures["acquisitions_with_slots"]:
        words.append(f"{figures['acquisitions_with_slots']:,} acquisitions with slots")
    return words


def report(figures):
    """The figures in words."""
    kinds = figures["faults_by_kind"]
    forms = figures["acquisitions_by_form"]
    failed = figures["acquires_failed"]
    lines = [
        f"{figures['acquisitions']} acquisitions of {figures['locks']} locks by {figures['processes']} processes"
        + (f" ({', '.join(f'{count} {form}' for form, count in sorted(forms.items()))})" if len(forms) > 1 else "")
        + (f", seed {figures['seed']}" if figures["seed"] is not None else ""),
        *sharing_words(figures),
        f"{figures['faults']} faults of {len(kinds)} kinds"
        + (": " + ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items())) if kinds else ""),
        f"{figures['holds_lost']} holds lost, {figures['holds_killed']} ended by the death of their process, "
        f"{figures['keys_taken']} whose key a fault took away",
        f"{sum(failed.values())} acquires that ended without the lock"
        + (": " + ", ".join(f"{error} {count}" for error, count in sorted(failed.items())) if failed else ""),
        f"{figures['overlaps']} overlaps, and {figures['overlaps_within_limit']} within the limit for clock steps",
        *fail_over_words(figures),
        f"{figures['stale']} stale writes accepted, {figures['refused']} refused, of {figures['writes']}",
        f"{figures['lost']} updates of the unfenced counters lost, "
        + (f"{figures['lost_while_held']} times" if figures["lost_while_held"] else "none")
        + " while all who wrote held their lock",
    ]
    if "turn_ms" in figures:
        lines.append(f"after healing everybody had a turn of every lock within {figures['turn_ms']} ms")
    return lines


def violations(verdict):
    shown = {}
    lines = []
    for sort, words, convicting in verdict.violations:
        shown[sort] = shown.get(sort, 0) + 1
        if shown[sort] > SHOWN:
            continue
        lines.append(f"VIOLATION, {sort}: {words}")
        lines += ["    " + verdict.history.text(line) for line in dict.fromkeys(convicting)]
    lines += [f"VIOLATION, {sort}: {count - SHOWN} more" for sort, count in shown.items() if count > SHOWN]
    return lines


def files_of(names):
    files = []
    for name in names:
        files += sorted(glob.glob(os.path.join(name, "*.jsonl"))) if os.path.isdir(name) else [name]
    return files


def main():
    parser = argparse.ArgumentParser(description="Judges histories of locks.")
    parser.add_argument("histories", nargs="+", metavar="HISTORY", help="a file, or a folder of *.jsonl")
    parser.add_argument("--partial", action="store_true", help="the round is not over: leave out check 4")
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    parser.add_argument("--picture", metavar="FILE", help="write a timeline there, as SVG")
    parser.add_argument("--at", type=float, metavar="SECONDS", help="where the picture begins; default: see below")
    parser.add_argument("--span", type=float, default=4, metavar="SECONDS", help="how long it is; default 4")
    parser.epilog = "The picture shows the first violation, or else the time with most faults."
    options = parser.parse_args()
    try:
        files = files_of(options.histories)
        if not files:
            raise BadHistory("no history there")
        history = History(files)
    except (OSError, BadHistory) as error:
        print(f"chaoscheck: {error}", file=sys.stderr)
        return 2
    verdict = judge(history, options.partial)
    print("\n".join(report(verdict.figures) + violations(verdict)))
    if options.json:
        figures = verdict.figures | {"violations": len(verdict.violations)}
        with open(options.json, "w", encoding="utf-8") as out:
            json.dump(figures, out)
    if options.picture:
        from timeline import timeline

        with open(options.picture, "w", encoding="utf-8") as out:
            out.write(timeline(history, verdict, options.at, options.span))
    if not verdict.violations:
        print("nothing to complain of")
    return 1 if verdict.violations else 0


if __name__ == "__main__":
    sys.exit(main())
