"""How strips line up: one column per offset that matters, one for each run of filler between them."""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.lab.account import Frame, Look, Strip

HOLE = "hole"
ABSENT = "absent"

LEGEND = (
    (Look.VALUE.value, "K=V", "committed"),
    (Look.OPEN.value, "K=V?", "undecided"),
    (Look.ABORTED.value, "⊘K=V", "aborted"),
    (Look.TOMBSTONE.value, "K=✗", "delete"),
    (Look.COMMIT.value, "COMMIT", ""),
    (Look.ABORT.value, "ABORT", ""),
    (Look.EMPTY.value, "∅", "empty batch"),
    (Look.FILLER.value, "▪ 2", "filler"),
    (HOLE, "╌╌", "compacted away"),
)
"""Every look, a sample of it, and its meaning; readable without colours too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A closed range of offsets; a single one unless it is a run of filler."""

    first: int
    last: int

    @property
    def heading(self) -> str:
        """`7`, or `7-19`."""
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Square:
    """What one replica has in one column: a look, or HOLE (compacted away), or ABSENT (never fetched)."""

    look: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One replica's strip, ready to be drawn."""

    strip: Strip
    squares: tuple[Square, ...]
    is_stuck: bool
    """Its LSO lags behind another's, though its log does not."""


def columns(strips: Sequence[Strip]) -> list[Column]:
    """The columns for all strips of one frame, in offset order."""
    matters: dict[int, bool] = {}
    for strip in strips:
        for cell in strip.cells:
            matters[cell.offset] = matters.get(cell.offset, False) or cell.look is not Look.FILLER
    result: list[Column] = []
    filler_run = False
    for offset in sorted(matters):
        if not matters[offset] and filler_run:
            result[-1] = Column(first=result[-1].first, last=offset)
        else:
            result.append(Column(first=offset, last=offset))
        filler_run = not matters[offset]
    return result


def rows(frame: Frame) -> tuple[list[Column], list[Row]]:
    """A frame as a grid."""
    grid = columns(frame.strips)
    up = [strip for strip in frame.strips if strip.state in ("leader", "in sync")]
    stable = max((strip.last_stable_offset for strip in up), default=0)
    return grid, [
        Row(
            strip=strip,
            squares=tuple(_square(strip, column) for column in grid),
            is_stuck=strip in up and strip.last_stable_offset < stable,
        )
        for strip in frame.strips
    ]


def _square(strip: Strip, column: Column) -> Square:
    cells = [cell for cell in strip.cells if column.first <= cell.offset <= column.last]
    if not cells:
        return Square(look=HOLE, text="╌╌") if column.first < strip.log_end else Square(look=ABSENT, text="")
    if cells[0].look is Look.FILLER:
        return Square(look=Look.FILLER.value, text=f"▪ {len(cells)}" if len(cells) > 1 else "▪")
    return Square(look=cells[0].look.value, text=cells[0].label)


def clock(now_ms: int) -> str:
    """Virtual time as `day 3, 06:30`."""
    minutes = now_ms // 60_000
    return f"day {minutes // 1440}, {minutes // 60 % 24:02}:{minutes % 60:02}"
