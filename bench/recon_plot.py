"""The plot of `make bench-recon`: seconds of each way on a logarithmic scale, written as SVG by hand."""

import math
import statistics
from pathlib import Path
from typing import Final

LEFT, RIGHT, TOP, WIDTH = 390, 70, 50, 520
BAR, GAP = 18, 16
TICKS: Final = (1, 10, 100, 1_000)
WAYS: Final = {
    "ours": ("ours, from the log", "#1b6ca8"),
    "duckdb": ("DuckDB's join, from Parquet", "#c8553d"),
    "sql": ("Spark SQL's join, from Parquet", "#8d99ae"),
}
DAYS: Final = {"one": "one tenant", "many": "20 tenants, one with half"}
FONT = 'font-family="sans-serif" font-size="12" fill="#222"'


def draw(path: Path, times: dict[str, dict[str, list[float]]]) -> Path:
    """One group of bars for each day, from half a second on."""
    body, top = [], TOP
    for day, ways in ((day, times[day]) for day in DAYS if day in times):
        body.append(f'<text x="10" y="{top + 12}" font-weight="bold" {FONT}>{DAYS[day]}</text>')
        for way, (said, colour) in WAYS.items():
            if way in ways:
                value = statistics.median(ways[way])
                length = _x(value) - LEFT
                body += [
                    f'<text x="{LEFT - 10}" y="{top + 13}" text-anchor="end" {FONT}>{said}</text>',
                    f'<rect x="{LEFT}" y="{top}" width="{length:.1f}" height="{BAR - 3}" fill="{colour}"/>',
                    f'<text x="{LEFT + length + 6:.1f}" y="{top + 12}" {FONT}>{value:.1f} s</text>',
                ]
                top += BAR
        top += GAP
    ticks = [
        f'<line x1="{_x(tick):.1f}" x2="{_x(tick):.1f}" y1="{TOP - 8}" y2="{top - GAP}" stroke="#ddd"/>'
        f'<text x="{_x(tick):.1f}" y="{TOP - 12}" text-anchor="middle" {FONT}>{tick} s</text>'
        for tick in TICKS
        if _x(tick) <= LEFT + WIDTH
    ]
    width = LEFT + WIDTH + RIGHT
    title = f'<text x="10" y="20" {FONT}>25 million ids a side, 9 lost, 9 doubled: seconds until all are named</text>'
    document = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top}" width="{width}">',
        f'<rect width="{width}" height="{top}" fill="white"/>',
        *ticks,
        *body,
        title,
        "</svg>",
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(document) + "\n")
    return path


def _x(value: float) -> float:
    """Half a second at the left edge, 500 at the right one."""
    return LEFT + WIDTH * max(0.0, math.log10(2 * value) / 3)
