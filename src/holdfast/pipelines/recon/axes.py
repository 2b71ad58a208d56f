"""What plots have in common: a frame, a scale, ticks that people can read, a legend."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from math import floor, log10
from typing import Final

TICKS: Final = 4
CLOCK_STEPS_S: Final = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400,
)  # fmt: skip
CLOCK_TICKS_MAX: Final = 9

Ticks = Sequence[tuple[float, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """A rectangle to draw in, and where a value lies in it."""

    highest: float
    lowest: float = 0.0
    left: int = 68
    top: int = 8
    width: int = 860
    height: int = 200

    def y(self, value: float) -> float:
        """Of a value."""
        share = (value - self.lowest) / ((self.highest - self.lowest) or 1)
        return self.top + self.height * (1 - share)

    def at(self, share: float, value: float) -> str:
        """A point; `share` is how far it is from left to right."""
        return f"{self.left + self.width * share:.1f},{self.y(value):.1f}"

    def points(self, values: Sequence[float]) -> str:
        """Values at equal distances."""
        last = max(1, len(values) - 1)
        return " ".join(self.at(number / last, value) for number, value in enumerate(values))

    def draw(self, inside: str, across: Ticks, up: Ticks, label: str) -> str:
        """The picture: `across` has shares of the width, `up` values."""
        parts = []
        for value, text in up:
            y = self.y(value)
            parts.append(
                f'<line class="grid" x1="{self.left}" x2="{self.left + self.width}" y1="{y:.1f}" y2="{y:.1f}"/>'
                f'<text x="{self.left - 8}" y="{y + 4:.1f}" text-anchor="end">{escape(text)}</text>'
            )
        bottom = self.top + self.height
        for share, text in across:
            x = self.left + self.width * share
            parts.append(
                f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{bottom}" y2="{bottom + 4}"/>'
                f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{escape(text)}</text>'
            )
        frame = f'<rect class="frame" x="{self.left}" y="{self.top}" width="{self.width}" height="{self.height}"/>'
        return (
            f'<svg viewBox="0 0 {self.left + self.width + 32} {bottom + 26}" role="img" '
            f'aria-label="{escape(label)}">{"".join(parts)}{frame}{inside}</svg>'
        )


def line(points: str, colour: str, *, dashed: bool = False) -> str:
    """A line through points, in a colour of the style sheet."""
    dashes = ' stroke-dasharray="6 4"' if dashed else ""
    return (
        f'<polyline points="{points}" fill="none" stroke="var({colour})" stroke-width="2" '
        f'stroke-linejoin="round"{dashes}/>'
    )


def legend(*entries: tuple[str, str], dashed: Collection[int] = ()) -> str:
    """What the colours mean; of the numbered entries the line is dashed."""
    parts = []
    for number, (colour, text) in enumerate(entries):
        mark = (
            f'<i class="dashed" style="border-color:var({colour})"></i>'
            if number in dashed
            else f'<i style="background:var({colour})"></i>'
        )
        parts.append(f"<span>{mark}{escape(text)}</span>")
    return f'<p class="legend">{"".join(parts)}</p>'


def number_ticks(highest: float) -> list[tuple[float, str]]:
    """Round numbers from 0 up."""
    if highest <= 0:
        return [(0, "0")]
    size = 10 ** floor(log10(highest / TICKS))
    step = next(size * factor for factor in (1, 2, 5, 10) if highest / (size * factor) <= TICKS)
    count = floor(highest / step)
    return [
        (number * step, f"{number * step:,g}" if step < 1 else f"{number * step:,.0f}")
        for number in range(count + 1)
    ]


def clock_ticks(start_ms: int, end_ms: int) -> list[tuple[float, str]]:
    """Times of day between two moments."""
    span_s = max(1, (end_ms - start_ms) // 1000)
    step_s = next((each for each in CLOCK_STEPS_S if span_s / each <= CLOCK_TICKS_MAX), None)
    if step_s is None:
        step_s = 86_400 * (1 + span_s // (86_400 * CLOCK_TICKS_MAX))
    shape = "%H:%M:%S" if step_s < 60 else "%H:%M" if step_s < 86_400 else "%m-%d"
    first = -(-start_ms // (1000 * step_s)) * 1000 * step_s
    return [
        (
            (time_ms - start_ms) / max(1, end_ms - start_ms),
            datetime.fromtimestamp(time_ms / 1000, UTC).strftime(shape),
        )
        for time_ms in range(first, end_ms + 1, 1000 * step_s)
    ]


def duration_ticks(highest_s: float) -> list[tuple[float, str]]:
    """Round durations from 0 up, for values in seconds."""
    if highest_s < TICKS or highest_s > TICKS * CLOCK_STEPS_S[-1]:
        return [(value, duration(round(1000 * value))) for value, _ in number_ticks(highest_s)]
    step_s = next(each for each in CLOCK_STEPS_S if highest_s / each <= TICKS + 1)
    return [(value, duration(1000 * value)) for value in range(0, floor(highest_s) + 1, step_s)]


def duration(milliseconds: int) -> str:
    """In the unit that suits it: 340 ms, 1.5 s, 2 min, 3 h."""
    if not milliseconds:
        return "0"
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000)):
        if milliseconds >= size:
            value = milliseconds / size
            return f"{value:.0f} {unit}" if value >= 10 or value == int(value) else f"{value:.1f} {unit}"
    return f"{milliseconds} ms"
