"""Who holds a removal offset back, why and since when: what an operator sees while cleanup waits."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from holdfast.rules.membership import Replica
from holdfast.rules.removal import Unreported
from holdfast.rules.removal_leader import Heard, LeaderState


class Track(Enum):
    """Which of the two removal offsets is meant."""

    TOMBSTONES = "MTRO"
    OUTCOMES = "MXRO"


class Reason(Enum):
    """Why a member holds a removal offset back."""

    SILENT = "has not been heard from in this term"
    JOINING = "has not been given its start yet"
    BEHIND = "has cleaned less than every other member"


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocker:
    """One member that keeps one removal offset from rising."""

    track: Track
    replica: Replica
    reason: Reason
    at: int | Unreported
    since_ms: int
    """When its value last moved, or when the term began that has not heard from it."""


def blockers(state: LeaderState) -> tuple[Blocker, ...]:
    """Those that hold MTRO or MXRO back now, by track; nobody if all members stand at the same offset."""
    return (*_blockers(state, Track.TOMBSTONES), *_blockers(state, Track.OUTCOMES))


def _blockers(state: LeaderState, track: Track) -> Iterator[Blocker]:
    values = {id_: _value(heard, track) for id_, heard in state.heard.items()}
    known = [value for value in values.values() if not isinstance(value, Unreported)]
    for member in state.membership.replicas:
        heard = state.heard.get(member.id)
        if heard is None:
            yield Blocker(
                track=track,
                replica=member,
                reason=Reason.SILENT,
                at=Unreported.UNREPORTED,
                since_ms=state.since_ms,
            )
            continue
        value = values[member.id]
        joining = isinstance(value, Unreported)
        if joining or (value == min(known) and min(known) < max(known)):
            yield Blocker(
                track=track,
                replica=member,
                reason=Reason.JOINING if joining else Reason.BEHIND,
                at=value,
                since_ms=heard.mcco_since_ms if track is Track.TOMBSTONES else heard.mxfo_since_ms,
            )


def _value(heard: Heard, track: Track) -> int | Unreported:
    return heard.cleaned.mcco if track is Track.TOMBSTONES else heard.cleaned.mxfo
