# SPDX-FileCopyrightText: 2026 The QDistLock developers
# SPDX-License-Identifier: MIT
"""Hand-offs per second over the number of waiting clients, as SVG for light and dark backgrounds."""

import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 720, 420
LEFT, RIGHT, TOP, BOTTOM = 72, 190, 48, 56

STYLE = """
    text { font: 13px system-ui, sans-serif; fill: #1f2328; }
    .title { font-size: 15px; font-weight: 600; }
    .tick { font-size: 12px; fill: #59636e; }
    .back { fill: #ffffff; }
    .grid { stroke: #d1d9e0; }
    .curve { fill: none; stroke-width: 2; }
    .ours { stroke-width: 3; }
    .range { stroke-width: 1; opacity: 0.6; }
    .c0 { stroke: #0969da; } .f0 { fill: #0969da; }
    .c1 { stroke: #1a7f37; } .f1 { fill: #1a7f37; }
    .c2 { stroke: #bc4c00; } .f2 { fill: #bc4c00; }
    .c3 { stroke: #8250df; } .f3 { fill: #8250df; }
    .c4 { stroke: #bf3989; } .f4 { fill: #bf3989; }
    @media (prefers-color-scheme: dark) {
        text { fill: #f0f6fc; }
        .tick { fill: #9198a1; }
        .back { fill: #0d1117; }
        .grid { stroke: #3d444d; }
        .c0 { stroke: #4493f8; } .f0 { fill: #4493f8; }
        .c1 { stroke: #3fb950; } .f1 { fill: #3fb950; }
        .c2 { stroke: #f0883e; } .f2 { fill: #f0883e; }
        .c3 { stroke: #ab7df8; } .f3 { fill: #ab7df8; }
        .c4 { stroke: #db61a2; } .f4 { fill: #db61a2; }
    }
"""


def scale(low, high, first, last):
    """The position on a logarithmic axis."""
    span = math.log(high / low)
    return lambda value: first + (last - first) * math.log(value / low) / span


def spaced(positions, distance):
    """The labels near their places, without overlaps."""
    placed = sorted(positions, key=lambda pair: pair[0])
    for i in range(1, len(placed)):
        if placed[i][0] < placed[i - 1][0] + distance:
            placed[i] = (placed[i - 1][0] + distance, placed[i][1])
    return placed


def contended_plot(case, about):
    """case: the result of the contended case."""
    curves = {}
    for name, crowds in case["contenders"].items():
        points = [(int(waiters), figures["rate"]) for waiters, figures in crowds.items() if figures]
        if points:
            curves[name] = points
    waiters = sorted({point[0] for points in curves.values() for point in points})
    rates = [rate[key] for points in curves.values() for _, rate in points for key in ("min", "max")]
    low = 10 ** math.floor(math.log10(max(min(rates), 1)))
    high = 10 ** math.ceil(math.log10(max(max(rates), 10 * low)))
    x = scale(waiters[0], waiters[-1], LEFT + 16, WIDTH - RIGHT - 16)
    y = scale(low, high, HEIGHT - BOTTOM, TOP)

    out = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" role="img">',
        f"<title>{escape(case['title'])}</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="back" width="{WIDTH}" height="{HEIGHT}" rx="6"/>',
        f'<text class="title" x="{LEFT}" y="28">One lock, W clients waiting: hand-offs per second</text>',
    ]
    tick = low
    while tick <= high:
        at = f"{y(tick):.1f}"
        out.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at}" y2="{at}"/>')
        out.append(
            f'<text class="tick" x="{LEFT - 8}" y="{at}" dy="0.35em" text-anchor="end">{tick:,}</text>'
        )
        tick *= 10
    for count in waiters:
        at = f"{x(count):.1f}"
        out.append(f'<line class="grid" x1="{at}" x2="{at}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
        out.append(
            f'<text class="tick" x="{at}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{count}</text>'
        )
    footer = f"waiting clients; medians, lowest and highest run; {about['processor']}, Redis {about['redis']}"
    out.append(f'<text class="tick" x="{LEFT}" y="{HEIGHT - 14}">{escape(footer)}</text>')

    labels = []
    for index, (name, points) in enumerate(curves.items()):
        colour = index % 5
        places = [(x(count), y(rate["median"])) for count, rate in points]
        path = "M" + " L".join(f"{px:.1f},{py:.1f}" for px, py in places)
        ours = " ours" if index == 0 else ""
        out.append(f'<path class="curve c{colour}{ours}" d="{path}"/>')
        for (px, py), (_, rate) in zip(places, points):
            out.append(
                f'<line class="range c{colour}" x1="{px:.1f}" x2="{px:.1f}" '
                f'y1="{y(max(rate["min"], low)):.1f}" y2="{y(rate["max"]):.1f}"/>'
            )
            out.append(f'<circle class="f{colour}" cx="{px:.1f}" cy="{py:.1f}" r="3.5"/>')
        labels.append((places[-1][1], (name, colour)))
    for at, (name, colour) in spaced(labels, 18):
        left = WIDTH - RIGHT + 8
        out.append(f'<circle class="f{colour}" cx="{left}" cy="{at:.1f}" r="4"/>')
        out.append(f'<text x="{left + 10}" y="{at:.1f}" dy="0.35em">{escape(name)}</text>')
    out.append("</svg>")
    return "\n".join(out) + "\n"
