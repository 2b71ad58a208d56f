"""Whom the removal offsets wait for.

The log has one answer, and nothing in production gives another: for every member, here or not. The lab has a second
one, to show on the same stores what happens where only the replicas that are here are asked, as on Kafka.
"""

from dataclasses import dataclass

from holdfast.control.replicas import StorePhase


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordination:
    """Given to a control plane when it is opened."""

    waits_for_absent: bool = True
    """False is for the lab alone: it loses deletes, and outcomes that a replica which is away still needs."""

    def counts(self, phase: StorePhase | None) -> bool:
        """Whether MTRO and MXRO wait for a member on a store in this phase; None: not known yet."""
        return self.waits_for_absent or phase in (None, StorePhase.IN_SYNC)


COORDINATED = Coordination()
