"""What the doctor needs of one replica, wherever it is."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from holdfast.client.aborted import AbortedTransaction
from holdfast.doctor.compare import Replica
from holdfast.records.batch import BatchView


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where a replica stands."""

    log_start: int
    high_watermark: int
    log_end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A piece of a replica's log, as readers of committed records are given it; `stable` is how far they may read."""

    batches: tuple[BatchView, ...]
    aborted: tuple[AbortedTransaction, ...]
    stable: int


class Source(Protocol):
    """One replica that can be read, wherever it is."""

    @property
    def name(self) -> Replica:
        """What findings call it."""

    def find_position(self) -> Position:
        """Where it stands now."""

    def read(self, start: int) -> Iterator[Answer]:
        """Its log from an offset on, up to its last stable offset; the last answer has no batches."""

    def list_open(self) -> dict[int, int]:
        """The first offset of each transaction that it holds for undecided, by producer."""
