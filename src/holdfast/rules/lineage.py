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
class LineageHistory:
    """Where each lineage after the first began: the truncation points, oldest first."""

    truncations: tuple[int, ...] = ()

    @property
    def current(self) -> Lineage:
        """The lineage of the log as it is now."""
        return Lineage(FIRST_LINEAGE + len(self.truncations))

    def truncate(self, at: int) -> "LineageHistory":
        """Begin a new lineage whose log ends at `at`."""
        return replace(self, truncations=(*self.truncations, at))

    def clip_since(self, lineage: Lineage) -> int | None:
        """How far a replica that still lives in `lineage` must go back; None if it is up to date."""
        missed = self.truncations[lineage - FIRST_LINEAGE :]
        return min(missed, default=None)
