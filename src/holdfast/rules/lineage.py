"""Lineages: within one, removal offsets only rise; the one legal decrease starts the next.

An operator's truncation (or a control plane restored from backup) lets offsets be used again for other
records. What was said about them is then void, so all four values are clipped to the truncation point under
`lineage + 1`.
"""

from dataclasses import dataclass, replace
from typing import NewType

Lineage = NewType("Lineage", int)
FIRST_LINEAGE = Lineage(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncation:
    """Where a lineage began, and whether its leader's log was whole there.

    It was whole if no record below `at` had gone for the sake of one at or above it. Otherwise what the
    leader still holds is the truth from then on, and nobody else's log can be brought to it by truncating.
    """

    at: int
    whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageHistory:
    """Where each lineage after the first began, oldest first."""

    truncations: tuple[Truncation, ...] = ()

    @property
    def current(self) -> Lineage:
        """The lineage of the log as it is now."""
        return Lineage(FIRST_LINEAGE + len(self.truncations))

    def truncate(self, at: int, *, leader_thinned_to: int) -> "LineageHistory":
        """Begin a new lineage whose log ends at `at`."""
        truncation = Truncation(at=at, whole=leader_thinned_to <= at)
        return replace(self, truncations=(*self.truncations, truncation))

    def clip_since(self, lineage: Lineage) -> int | None:
        """How far a replica that still lives in `lineage` must go back; None if it is up to date."""
        return min((truncation.at for truncation in self._missed(lineage)), default=None)

    def may_follow(self, lineage: Lineage, thinned_to: int) -> bool:
        """Whether such a replica may keep its log, truncated, or must be rebuilt under a new incarnation."""
        return all(truncation.whole and thinned_to <= truncation.at for truncation in self._missed(lineage))

    def _missed(self, lineage: Lineage) -> tuple[Truncation, ...]:
        return self.truncations[lineage - FIRST_LINEAGE :]
