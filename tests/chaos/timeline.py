# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT
"""Draws who held which lock when, and the faults, as SVG for light and dark backgrounds."""

from xml.sax.saxutils import escape

from history import MS

WIDTH = 1200
LEFT, RIGHT, TOP = 128, 16, 56
LANE, BAR, GAP = 12, 9, 22
FAULT_LANE = 14
LETTER = 5.6  # width of a letter of the small text, roughly
LEGEND = (
    ("hold", "held"),
    ("shared", "held by readers, or with permits"),
    ("void", "held, though the server had forgotten it by a fault"),
    ("loss", "key taken away"),
    ("refused", "stale write refused"),
    ("dead", "process killed"),
    ("wrong", "held by two"),
)

STYLE = """
    text { font: 12px system-ui, sans-serif; fill: #1f2328; }
    .title { font-size: 15px; font-weight: 600; }
    .small { font-size: 10px; fill: #59636e; }
    .back { fill: #ffffff; }
    .grid { stroke: #d1d9e0; }
    .hold { fill: #0969da; }
    .shared { fill: #1a7f37; }
    .void { fill: none; stroke: #0969da; stroke-dasharray: 2 2; }
    .refused { stroke: #bc4c00; stroke-width: 2; }
    .fault { fill: #bc4c00; fill-opacity: 0.35; }
    .name { font-size: 10px; }
    .loss { stroke: #bc4c00; stroke-dasharray: 4 2; }
    .wrong { fill: #d1242f; fill-opacity: 0.3; stroke: #d1242f; }
    .dead { stroke: #d1242f; stroke-width: 2; }
    @media (prefers-color-scheme: dark) {
        text { fill: #f0f6fc; }
        .small { fill: #9198a1; }
        .back { fill: #0d1117; }
        .grid { stroke: #3d444d; }
        .hold { fill: #4493f8; }
        .shared { fill: #3fb950; }
        .void { stroke: #4493f8; }
        .fault { fill: #f0883e; }
        .refused, .loss { stroke: #f0883e; }
    }
"""


def most_eventful(history, span):
    begins = [fault[2] for fault in history.faults]
    best = max(begins, key=lambda begin: sum(begin <= other < begin + span for other in begins), default=None)
    if best is not None:
        return best - span // 20
    return history.acquired[0][0] if history.acquired else 0


def packed(faults, x, end):
    """[(lane, left, right, left of the name, name)] so that no bar overlaps another one or its name."""
    free = []
    for kind, target, first, last in faults:
        name = f"{kind} {target}"
        left, right = x(first), max(x(last or end), x(first) + 2)
        name_left = min(left + 3, WIDTH - RIGHT - LETTER * len(name))
        lane = next((i for i, at in enumerate(free) if at <= min(left, name_left)), len(free))
        if lane == len(free):
            free.append(0)
        free[lane] = max(right, name_left + LETTER * len(name)) + 4
        yield lane, left, right, name_left, name


def legend(y):
    left = 8
    for style, words in LEGEND:
        if style in ("hold", "shared", "void", "wrong"):
            yield f'<rect class="{style}" x="{left}" y="{y - BAR}" width="16" height="{BAR}"/>'
        else:
            yield f'<line class="{style}" x1="{left + 8}" x2="{left + 8}" y1="{y - BAR - 1}" y2="{y + 1}"/>'
        yield f'<text class="small" x="{left + 21}" y="{y - 1}">{words}</text>'
        left += 45 + round(LETTER * len(words))


def timeline(history, verdict, at=None, span_seconds=4.0):
    """`at`: seconds since the beginning of the round."""
    span = int(span_seconds * 1e9)
    origin = history.about.get("time") or (history.acquired[0][0] if history.acquired else 0)
    wrong = [words for _, words, _ in verdict.violations]
    if at is not None:
        begin = origin + int(at * 1e9)
    elif verdict.overlaps:
        begin = verdict.overlaps[0][1] - span // 2
    else:
        begin = most_eventful(history, span)
    end = begin + span

    def x(time):
        return LEFT + (WIDTH - LEFT - RIGHT) * (min(max(time, begin), end) - begin) / span

    def seen(first, last):
        return last >= begin and first <= end

    workers = sorted({name.split(".")[0] for name in history.processes}, key=lambda name: (len(name), name))
    lanes = {worker: index for index, worker in enumerate(workers)}
    faults = [fault for fault in history.faults if seen(fault[2], fault[3] or end)]
    placed = list(packed(faults, x, end))
    fault_lanes = max((lane for lane, *_ in placed), default=-1) + 1
    body = []
    top = TOP + fault_lanes * FAULT_LANE + GAP
    tops = {}
    for name in sorted(history.locks):
        tops[name] = top
        top += len(workers) * LANE + GAP
    height = top + 36

    tick = 100 * MS if span <= 2_000 * MS else 500 * MS if span <= 10_000 * MS else 5_000 * MS
    time = origin + (begin - origin + tick - 1) // tick * tick
    while time <= end:
        body.append(f'<line class="grid" x1="{x(time):.1f}" x2="{x(time):.1f}" y1="{TOP - 6}" y2="{height - 40}"/>')
        body.append(
            f'<text class="small" x="{x(time):.1f}" y="{height - 26}" text-anchor="middle">'
            f"{(time - origin) / 1e9:g} s</text>"
        )
        time += tick

    body.append(f'<text x="8" y="{TOP + 9}">faults</text>')
    for lane, left, right, name_left, name in placed:
        y = TOP + lane * FAULT_LANE
        body.append(
            f'<rect class="fault" x="{left:.1f}" y="{y}" width="{right - left:.1f}" height="{FAULT_LANE - 2}">'
            f"<title>{escape(name)}</title></rect>"
        )
        body.append(f'<text class="name" x="{name_left:.1f}" y="{y + 9}">{escape(name)}</text>')

    for name, lock in sorted(history.locks.items()):
        y0 = tops[name]
        body.append(f'<text x="8" y="{y0 + 10}">{escape(name)}</text>')
        for worker, lane in lanes.items():
            y = y0 + lane * LANE
            body.append(f'<text class="small" x="{LEFT - 6}" y="{y + 8}" text-anchor="end">{escape(worker)}</text>')
            body.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y + BAR}" y2="{y + BAR}"/>')
        for loss in lock.losses:
            if seen(loss.begin, loss.to):
                at_x = f"{x(loss.begin):.1f}"
                bottom = y0 + len(workers) * LANE
                body.append(
                    f'<line class="loss" x1="{at_x}" x2="{at_x}" y1="{y0 - 4}" y2="{bottom}">'
                    f"<title>key lost: {escape(loss.kind)}</title></line>"
                )
        for hold in lock.holds:
            if not seen(hold.start, max(hold.end, hold.start)):
                continue
            y = y0 + lanes[hold.process.split(".")[0]] * LANE
            if (hold.taken_by or hold.beyond) and hold.end > hold.start:
                width = max(x(hold.end) - x(hold.start), 1)
                body.append(f'<rect class="void" x="{x(hold.start):.1f}" y="{y}" width="{width:.1f}" height="{BAR}"/>')
            style = "shared" if hold.shared else "hold"
            for first, last, _ in hold.joined():
                width = max(x(last) - x(first), 0.6)
                body.append(
                    f'<rect class="{style}" x="{x(first):.1f}" y="{y}" width="{width:.1f}" height="{BAR}">'
                    f"<title>{escape(hold.process)}, token {hold.token}</title></rect>"
                )
            for write in hold.writes:
                if not write.accepted and seen(write.to, write.to):
                    at_x = f"{x(write.to):.1f}"
                    body.append(
                        f'<line class="refused" x1="{at_x}" x2="{at_x}" y1="{y - 2}" y2="{y + BAR + 2}">'
                        "<title>stale write refused</title></line>"
                    )
    for process in history.processes.values():
        if process.ended == "killed" and process.killed_at and seen(process.killed_at, process.killed_at):
            at_x = f"{x(process.killed_at):.1f}"
            for name in history.locks:
                y = tops[name] + lanes[process.name.split(".")[0]] * LANE
                body.append(f'<line class="dead" x1="{at_x}" x2="{at_x}" y1="{y}" y2="{y + BAR}"/>')
    for name, first, last in verdict.overlaps:
        if seen(first, last):
            width = max(x(last) - x(first), 3)
            body.append(
                f'<rect class="wrong" x="{x(first):.1f}" y="{tops[name] - 3}" width="{width:.1f}" '
                f'height="{len(workers) * LANE + 3}"/>'
            )

    seed = history.about.get("seed")
    title = "Who held what when" + (f", seed {seed}" if seed is not None else "")
    summary = wrong[0] if wrong else f"{len(faults)} faults in {span_seconds:g} s; no two held a lock at a time"
    return "\n".join(
        [
            '<?xml version="1.0" encoding="UTF-8"?>',
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
            f'width="{WIDTH}" height="{height}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>{STYLE}</style>",
            f'<rect class="back" width="{WIDTH}" height="{height}" rx="6"/>',
            f'<text class="title" x="8" y="22">{escape(title)}</text>',
            f'<text x="8" y="40">{escape(summary)}</text>',
            *body,
            *legend(height - 6),
            "</svg>",
            "",
        ]
    )
