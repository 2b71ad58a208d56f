"""A tenant's day: what was read and what was found → CLOSED, OPEN, NOT-YET or BLIND.

A verdict is no better than what it rests upon. So what could not be read is judged first, then what may still come,
then what is wrong; and a day without a single message is not a complete day, but one about which nothing is known.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Final
from uuid import UUID

from holdfast.pipelines.config import DAY_MS, WINDOW_MS, Budget, EndState
from holdfast.pipelines.recon.law import Finding, Kind, Place, Stage
from holdfast.pipelines.recon.positions import Positions

LATENESS_MS: Final = 900_000
AHEAD_MS_MAX: Final = DAY_MS
"""So far, at most, a message's own time is taken to be ahead of when its record came: what came earlier may be gone."""
REASONS_MAX: Final = 20

OPENING: Final = (Kind.MISSING, Kind.DUPLICATE, Kind.CONFLICTING, Kind.ORPHAN)
"""What leaves a day open, unless the pipeline's budget allows for so many."""
STRICT: Final = Budget()


class DayState(StrEnum):
    """What can be said about a tenant's day."""

    CLOSED = "CLOSED"
    OPEN = "OPEN"
    NOT_YET = "NOT-YET"
    BLIND = "BLIND"

    @property
    def exit_code(self) -> int:
        """Of the commands that are asked for it."""
        return {"CLOSED": 0, "OPEN": 1, "NOT-YET": 3, "BLIND": 4}[self.value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """Whole windows from midnight to midnight, UTC; sealed when messages may no longer be late for it."""

    date: date
    window_ms: int = WINDOW_MS
    lateness_ms: int = LATENESS_MS

    @property
    def start_ms(self) -> int:
        """Midnight."""
        return (datetime.combine(self.date, datetime.min.time(), UTC) - _EPOCH) // timedelta(milliseconds=1)

    @property
    def end_ms(self) -> int:
        """The next midnight."""
        return self.start_ms + DAY_MS

    @property
    def seal_ms(self) -> int:
        """What arrives from now on is late."""
        return self.end_ms + self.lateness_ms

    @property
    def windows(self) -> range:
        """The starts of the windows."""
        return range(self.start_ms, self.end_ms, self.window_ms)

    @classmethod
    def of(cls, time_ms: int, *, window_ms: int = WINDOW_MS, lateness_ms: int = LATENESS_MS) -> "Day":
        """The day in which a moment lies."""
        found = (_EPOCH + timedelta(milliseconds=time_ms)).date()
        return cls(date=found, window_ms=window_ms, lateness_ms=lateness_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """What of a partition there was to read."""

    stage: Stage
    topic: str
    partition: int
    start: int
    """The first offset that is still there."""
    start_ms: int | None
    """When the first record that is there came, by the newest time in its batch; None if there is none."""
    read_to: int
    """The last stable offset; everything below it was read."""
    end: int
    """The high watermark when it was first asked for; the last stable offset may have come past it since."""
    compacted: bool = False
    topic_id: UUID | None = None
    """None where the broker is too old to tell."""

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Messages of a window or a day by where they were seen."""

    ingested: int = 0
    audited: Mapping[EndState, int] = field(default_factory=dict)
    delivered: Mapping[EndState, int] = field(default_factory=dict)

    @property
    def ended(self) -> int:
        """As audit has it."""
        return sum(self.audited.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that a verdict rests upon."""

    tenant: str
    day: Day
    now_ms: int
    partitions: tuple[PartitionView, ...]
    windows: Mapping[int, Counts]
    """By start of the window."""
    found: Mapping[Kind, int]
    """How many ids are affected; exact."""
    findings: tuple[Finding, ...] = ()
    """Some of them, or all, with coordinates."""
    positions: Positions = field(default_factory=Positions)
    """As they stood before any of it was read."""
    waiting: tuple[Place, ...] = ()
    """Of what is missing, or seems doubled, the records that service or adapters have still to come to, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is to be said about a tenant's day, and why."""

    tenant: str
    day: Day
    state: DayState
    reasons: tuple[str, ...]
    total: Counts
    evidence: Evidence


def judge_day(evidence: Evidence, budget: Budget = STRICT) -> Verdict:
    """Decides; the reasons tell what has to be seen to, or what was borne with."""
    total = add_counts(evidence.windows.values())
    wrong, borne = _wrong(evidence, budget, total.ingested)
    for state, reasons in (
        (DayState.BLIND, list(_unreadable(evidence))),
        (DayState.NOT_YET, list(_still_to_come(evidence))),
        (DayState.OPEN, wrong),
        (
            DayState.BLIND,
            [] if total.ingested else ["nothing was ingested: whether all of it ended cannot be told"],
        ),
    ):
        if reasons:
            return _verdict(evidence, state, total, reasons)
    return _verdict(evidence, DayState.CLOSED, total, borne)


def add_counts(parts: Iterable[Counts]) -> Counts:
    """All of them together."""
    ingested = 0
    audited, delivered = dict.fromkeys(EndState, 0), dict.fromkeys(EndState, 0)
    for part in parts:
        ingested += part.ingested
        for sums, seen in ((audited, part.audited), (delivered, part.delivered)):
            for state, count in seen.items():
                sums[state] += count
    return Counts(ingested=ingested, audited=audited, delivered=delivered)


def _verdict(evidence: Evidence, state: DayState, total: Counts, reasons: list[str]) -> Verdict:
    left_out = len(reasons) - REASONS_MAX
    if left_out > 0:
        reasons = [*reasons[:REASONS_MAX], f"and {left_out} more of the kind"]
    return Verdict(
        tenant=evidence.tenant,
        day=evidence.day,
        state=state,
        reasons=tuple(reasons),
        total=total,
        evidence=evidence,
    )


def _unreadable(evidence: Evidence) -> Iterable[str]:
    """What is gone, or may be."""
    if not any(view.stage is Stage.INGEST for view in evidence.partitions):
        yield "there is no ingest topic to read"
    for topic in sorted({view.topic for view in evidence.partitions if view.compacted}):
        yield f"{topic} is compacted: a message whose key came again is gone, and nobody can tell which"
    needed_ms = evidence.day.start_ms - AHEAD_MS_MAX
    for view in evidence.partitions:
        # Of every stage: what has expired in audit may have ended twice.
        if view.start > 0 and (view.start_ms is None or view.start_ms >= needed_ms):
            yield f"{view} begins at offset {view.start}: earlier messages of the day may have expired, or been deleted"


def unsettled(evidence: Evidence) -> Iterable[str]:
    """Why something may be there that nobody can see, be it gone or still to come."""
    yield from _unreadable(evidence)
    yield from _undecided(evidence)


def _still_to_come(evidence: Evidence) -> Iterable[str]:
    yield from _undecided(evidence)
    if evidence.waiting:
        yield f"{len(evidence.waiting)} messages have still to be taken further, the first from {evidence.waiting[0]}"


def _undecided(evidence: Evidence) -> Iterable[str]:
    if evidence.now_ms < evidence.day.seal_ms:
        yield f"the day is sealed at {_told(evidence.day.seal_ms)}: until then messages may come"
    for view in evidence.partitions:
        if view.read_to < view.end:
            yield f"{view} is stable up to offset {view.read_to} of {view.end}: an open transaction may hold messages"


def _wrong(evidence: Evidence, budget: Budget, ingested: int) -> tuple[list[str], list[str]]:
    """What leaves the day open, and what the budget bears."""
    shares = {Kind.MISSING: budget.missing, Kind.DUPLICATE: budget.duplicate}
    wrong, borne = [], []
    for kind in OPENING:
        count, allowed = evidence.found.get(kind, 0), int(shares.get(kind, 0) * ingested)
        if count > allowed:
            wrong.append(f"{count} {kind}" + (f"; the budget bears {allowed}" if allowed else ""))
        elif count:
            borne.append(f"{count} {kind}; the budget bears {allowed}")
    return wrong, borne


def _told(time_ms: int) -> str:
    return (_EPOCH + timedelta(milliseconds=time_ms)).strftime("%Y-%m-%d %H:%M:%S UTC")


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
