"""The plot of `make bench-compact`: bars of records per second for each log, written as SVG by hand."""

import json
from collections.abc import Iterator
from pathlib import Path

Points = dict[str, dict[str, float]]
"""Log → who compacted it → M records/s."""

LEFT, RIGHT, TOP, WIDTH = 320, 60, 50, 520
BAR, GAP = 16, 14
COLOURS = {"kernel alone": "#8d99ae", "round": "#1b6ca8", "DuckDB": "#c8553d"}
FONT = 'font-family="sans-serif" font-size="12" fill="#222"'


def load(path: Path) -> Points:
    """The bars of earlier runs that took a part of the logs."""
    points: Points = json.loads(path.read_text()) if path.exists() else {}
    return points


def save(path: Path, points: Points) -> None:
    """For the next part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(points, indent=2) + "\n")


def draw(path: Path, points: Points) -> Path:
    """One group of bars for each log, longest bar to the right edge."""
    most = max(value for bars in points.values() for value in bars.values())
    body = list(_legend())
    top = TOP
    for log, bars in points.items():
        height = BAR * len(bars)
        body.append(f'<text x="{LEFT - 10}" y="{top + height / 2 + 4}" text-anchor="end" {FONT}>{log}</text>')
        for number, (who, value) in enumerate(bars.items()):
            body += _bar(top + number * BAR, who, value, WIDTH * value / most)
        top += height + GAP
    width = LEFT + WIDTH + RIGHT
    document = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top}" width="{width}">',
        f'<rect width="{width}" height="{top}" fill="white"/>',
        *body,
        "</svg>",
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(document) + "\n")
    return path


def _legend() -> Iterator[str]:
    yield f'<text x="10" y="22" {FONT}>compaction, M records/s</text>'
    for number, (who, colour) in enumerate(COLOURS.items()):
        left = LEFT + number * 140
        yield f'<rect x="{left}" y="12" width="14" height="12" fill="{colour}"/>'
        yield f'<text x="{left + 20}" y="22" {FONT}>{who}</text>'


def _bar(top: float, who: str, value: float, length: float) -> Iterator[str]:
    yield f'<rect x="{LEFT}" y="{top}" width="{length:.1f}" height="{BAR - 2}" fill="{COLOURS[who]}"/>'
    yield f'<text x="{LEFT + length + 6:.1f}" y="{top + BAR - 5}" {FONT}>{value:.2f}</text>'
