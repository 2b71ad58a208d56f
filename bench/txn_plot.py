"""The plot of `make bench-txn`: one panel for each distance, both axes logarithmic, written as SVG by hand."""

import math
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

Points = Mapping[tuple[int, int, int], tuple[float, float]]
"""(delay in ms, producers, size) → messages/s of transactions and of dual publish."""

PANEL_WIDTH, PANEL_HEIGHT, LEFT, TOP, GAP = 300, 300, 80, 60, 24
COLOURS = ("#1b6ca8", "#c8553d", "#3a7d44", "#7d5ba6")
FONT = 'font-family="sans-serif" font-size="12" fill="#222"'


class _Axis:
    """From a value to a place, logarithmically."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self._low, self._span = math.log10(low), math.log10(high / low)
        self._start, self._length = start, end - start

    def at(self, value: float) -> float:
        return self._start + (math.log10(value) - self._low) / self._span * self._length


def draw(path: Path, points: Points) -> Path:
    """Transactions as full lines, dual publish dashed, a colour for each number of producers."""
    delays, producers, sizes = (sorted({key[place] for key in points}) for place in range(3))
    values = [value for pair in points.values() for value in pair]
    low, high = 10 ** math.floor(math.log10(min(values))), 10 ** math.ceil(math.log10(max(values)))
    width = LEFT + len(delays) * (PANEL_WIDTH + GAP)
    bottom = TOP + PANEL_HEIGHT
    y = _Axis(low, high, bottom, TOP)
    body = list(_legend(producers))
    for number, delay_ms in enumerate(delays):
        left = LEFT + number * (PANEL_WIDTH + GAP)
        x = _Axis(sizes[0] / 1.3, sizes[-1] * 1.3, left, left + PANEL_WIDTH)
        body += _frame(left, delay_ms, x, y, sizes, (low, high), labelled=number == 0)
        for colour, count in zip(COLOURS, producers, strict=False):
            for place, dashes in ((0, ""), (1, ' stroke-dasharray="5 4"')):
                line = [(x.at(size), y.at(points[delay_ms, count, size][place])) for size in sizes]
                body += _line(line, colour, dashes)
    document = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {bottom + 50}" width="{width}">',
        f'<rect width="{width}" height="{bottom + 50}" fill="white"/>',
        *body,
        f'<text x="{width / 2}" y="{bottom + 40}" text-anchor="middle" {FONT}>'
        "messages in a transaction (2: one to each of two topics)</text>",
        "</svg>",
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(document) + "\n")
    return path


def _legend(producers: list[int]) -> Iterator[str]:
    yield f'<text x="{LEFT}" y="18" {FONT}>messages/s: full lines transactions, dashed dual publish</text>'
    for number, (colour, count) in enumerate(zip(COLOURS, producers, strict=False)):
        left = LEFT + 400 + number * 120
        yield f'<line x1="{left}" y1="14" x2="{left + 24}" y2="14" stroke="{colour}" stroke-width="2"/>'
        who = "producer" if count == 1 else "producers"
        yield f'<text x="{left + 30}" y="18" {FONT}>{count} {who}</text>'


def _frame(
    left: float,
    delay_ms: int,
    x: _Axis,
    y: _Axis,
    sizes: list[int],
    bounds: tuple[float, float],
    *,
    labelled: bool,
) -> Iterator[str]:
    top, bottom = y.at(bounds[1]), y.at(bounds[0])
    title = f"{delay_ms} ms added to each round trip" if delay_ms else "loopback as it is"
    yield f'<text x="{left + PANEL_WIDTH / 2}" y="{top - 12}" text-anchor="middle" {FONT}>{title}</text>'
    for exponent in range(round(math.log10(bounds[0])), round(math.log10(bounds[1])) + 1):
        at = y.at(10**exponent)
        yield f'<line x1="{left}" y1="{at}" x2="{left + PANEL_WIDTH}" y2="{at}" stroke="#ddd"/>'
        if labelled:
            yield f'<text x="{left - 8}" y="{at + 4}" text-anchor="end" {FONT}>{10**exponent:,}</text>'
    yield (
        f'<rect x="{left}" y="{top}" width="{PANEL_WIDTH}" height="{bottom - top}" fill="none" stroke="#888"/>'
    )
    for before, size in pairwise([0, *sizes]):
        # Neighbours that would run into each other share the place: the first of them is named.
        if before and x.at(size) - x.at(before) < 24:
            continue
        yield f'<text x="{x.at(size)}" y="{bottom + 18}" text-anchor="middle" {FONT}>{size}</text>'


def _line(points: list[tuple[float, float]], colour: str, dashes: str) -> Iterator[str]:
    path = " ".join(f"{across:.1f},{down:.1f}" for across, down in points)
    yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>'
    for across, down in points:
        yield f'<circle cx="{across:.1f}" cy="{down:.1f}" r="3" fill="{colour}"/>'
