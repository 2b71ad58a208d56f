"""One batch of a log as far as the rules look into it.

An entry holds one record: what a pass does to a batch of many, it does to each of its records, and the delete
horizon stands in the batch header either way.
"""

from dataclasses import dataclass
from enum import Enum

from holdfast.rules.producer import NO_PRODUCER_ID
from holdfast.rules.transaction import NO_INSTANCE, Outcome


class Isolation(Enum):
    """A consumer's isolation.level."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A data batch or a control batch (a transaction's COMMIT or ABORT marker)."""

    offset: int
    key: str | None = None
    value: str | None = None
    marker: Outcome | None = None
    timestamp_ms: int = 0
    leader_epoch: int = 0
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = -1
    transactional: bool = False
    instance: int = NO_INSTANCE
    """Holdfast's own: Kafka's batches carry no instance, and Kafka's rules here never read it."""
    horizon_ms: int | None = None
    """Kafka's delete horizon (KIP-534), stamped by the first pass that finds the batch deletable."""
    empty: bool = False
    """The header is left, the record is gone."""

    @property
    def is_tombstone(self) -> bool:
        """A record that says its key is deleted."""
        return self.marker is None and self.value is None and not self.empty
