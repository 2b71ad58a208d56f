"""The conservation law for one id: every ingested message reaches exactly one end state.

An id that was ingested n times is n messages, as far as anybody can tell: it may end n times. It may end fewer times,
too, but at least once: whoever processes messages may have recognised a repetition. The end states that have a topic
of their own stand there exactly as often as in audit. All of it is decided by counts, so that equal fingerprints and
an exact look can never disagree about an id.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from holdfast.pipelines.config import EndState


class Stage(StrEnum):
    """Where a message can be seen."""

    INGEST = "ingest"
    DELIVERED = "delivered"
    """In the topic of its end state, for those that it is of use to."""
    AUDIT = "audit"


class Kind(StrEnum):
    """What can be wrong with a message."""

    MISSING = "missing"
    """It was ingested, and somewhere where it should be it is not."""
    DUPLICATE = "duplicate"
    """It ended more often than it was ingested, the same way each time."""
    CONFLICTING = "conflicting"
    """It ended in several ways."""
    ORPHAN = "orphan"
    """It ended, and nobody has ingested it."""
    LATE = "late"
    """It arrived after its day was sealed. That alone leaves no day open."""
    UNPARSABLE = "unparsable"
    """Nobody can tell which message it is."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Place:
    """Coordinates of a record."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} at offset {self.offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """One record of a message."""

    stage: Stage
    end_state: EndState | None
    """None at ingest, and only there."""
    place: Place
    time_ms: int
    """When the message happened, by its own account: it decides about window and day."""
    arrived_ms: int
    """The record's own time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something wrong with one message, and every record of it."""

    kind: Kind
    id: str
    why: str
    sightings: tuple[Sighting, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """What is expected of a pipeline: which end states have a topic of their own besides audit."""

    delivered: frozenset[EndState] = frozenset({EndState.QUALIFIED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How often an id was seen where."""

    ingested: int
    audited: Mapping[EndState, int]
    delivered: Mapping[EndState, int]

    @property
    def ended(self) -> int:
        """How often it ended, as audit has it."""
        return sum(self.audited.values())


def tally(sightings: Iterable[Sighting]) -> Tally:
    """Counts them."""
    seen = Counter((each.stage, each.end_state) for each in sightings)
    return Tally(
        ingested=seen[Stage.INGEST, None],
        audited={state: seen[Stage.AUDIT, state] for state in EndState},
        delivered={state: seen[Stage.DELIVERED, state] for state in EndState},
    )


def is_conserved(found: Tally, law: Law) -> bool:
    """Whether nothing is wrong with the id but, perhaps, that it is late."""
    return not kinds_of(found, law)


def kinds_of(found: Tally, law: Law) -> set[Kind]:
    """What is wrong with an id that was seen so often."""
    return {kind for kind, _ in _breaches(found, law)}


def judge(
    single: str, sightings: Iterable[Sighting], law: Law, *, seal_ms: int | None = None
) -> list[Finding]:
    """What is wrong with one id: at most one finding of a kind. `seal_ms` is when its day was sealed."""
    seen = tuple(sorted(sightings, key=lambda each: (_ORDER[each.stage], each.arrived_ms, each.place)))
    breaches: dict[Kind, str] = {}
    for kind, why in _breaches(tally(seen), law):
        breaches.setdefault(kind, why)
    late = [each for each in seen if seal_ms is not None and each.arrived_ms >= seal_ms]
    if late:
        breaches[Kind.LATE] = (
            f"{late[0].place} came {(late[0].arrived_ms - (seal_ms or 0)) // 1000} s after the seal"
        )
    return [Finding(kind=kind, id=single, why=why, sightings=seen) for kind, why in breaches.items()]


def _breaches(found: Tally, law: Law) -> Iterator[tuple[Kind, str]]:
    delivered = sum(found.delivered.values())
    if not found.ingested:
        if found.ended or delivered:
            yield Kind.ORPHAN, "it ended without having been ingested"
        return
    if not found.ended and not delivered:
        yield Kind.MISSING, "it was ingested and never ended"
        return
    states = [state for state in EndState if found.audited[state] or found.delivered[state]]
    ended = sum(max(found.audited[state], found.delivered[state]) for state in states)
    if ended > found.ingested:
        if len(states) > 1:
            yield Kind.CONFLICTING, f"it ended as {' and as '.join(state.value for state in states)}"
        else:
            yield Kind.DUPLICATE, _too_often(found, states[0])
    for state in states:
        yield from _compare(found, law, state)


def _compare(found: Tally, law: Law, state: EndState) -> Iterator[tuple[Kind, str]]:
    """Audit against the topic of the end state."""
    audited, delivered = found.audited[state], found.delivered[state]
    if audited < delivered:
        if audited == 0:
            yield Kind.MISSING, f"audit has nothing of it, though it was delivered as {state.value}"
        else:
            yield (
                Kind.DUPLICATE,
                f"it was delivered {delivered} times as {state.value}, and stands {audited} times in audit",
            )
    elif audited > delivered and state in law.delivered:
        if delivered == 0:
            yield Kind.MISSING, f"it was never delivered, though audit has it as {state.value}"
        else:
            yield (
                Kind.DUPLICATE,
                f"it stands {audited} times in audit as {state.value}, and was delivered {delivered} times",
            )


def _too_often(found: Tally, state: EndState) -> str:
    parts = [
        f"{what} {count} times"
        for count, what in (
            (found.delivered[state], "was delivered"),
            (found.audited[state], "stands in audit"),
        )
        if count > found.ingested
    ]
    came = "once" if found.ingested == 1 else f"{found.ingested} times"
    return f"it was ingested {came}, and {' and '.join(parts)} as {state.value}"


_ORDER = {stage: number for number, stage in enumerate(Stage)}
