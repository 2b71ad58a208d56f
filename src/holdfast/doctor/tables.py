"""What one replica shows of each key: the newest record that a reader of committed records is given.

Raw logs differ between healthy replicas, because each compacts when it likes; what a reader ends up with does not.
"""

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from holdfast.client.aborted import AbortedTransaction, without_aborted
from holdfast.errors import KeyIndexFull
from holdfast.records.batch import BatchView
from holdfast.records.build import read_records

KEYS_MAX: Final = 500_000
"""Of each replica, about 130 MB; more are examined in parts, each with a reading of its own."""
DIGEST_BYTES: Final = 12


@dataclass(frozen=True, slots=True)
class Newest:
    """A key's newest record: where it lies, and what it says."""

    offset: int
    digest: bytes | None
    """None for a delete."""


@dataclass(frozen=True, slots=True)
class Part:
    """The keys whose hash leaves `index` when divided by `count`."""

    index: int = 0
    count: int = 1

    def holds(self, key: bytes) -> bool:
        """Whether the key belongs to this part."""
        # Python's own hash has a secret of this process: nobody can choose keys that all fall into one part.
        return self.count == 1 or hash(key) % self.count == self.index

    def halves(self) -> "tuple[Part, Part]":
        """The same keys in two parts."""
        return Part(self.index, 2 * self.count), Part(self.index + self.count, 2 * self.count)


@dataclass(frozen=True, slots=True)
class Some:
    """These keys, and no others."""

    keys: Collection[bytes]

    def holds(self, key: bytes) -> bool:
        """Whether it is one of them."""
        return key in self.keys


def digest_of(value: bytes | None) -> bytes | None:
    """A value as it is compared; collisions are out of reach of chance."""
    return None if value is None else blake2b(value, digest_size=DIGEST_BYTES).digest()


class KeyTable:
    """The newest visible record of every key that is wanted, in the order of the log."""

    __slots__ = ("_keys_max", "_wanted", "newest")

    def __init__(self, wanted: Part | Some, *, keys_max: float = KEYS_MAX) -> None:
        self.newest: dict[bytes, Newest] = {}
        self._wanted = wanted
        self._keys_max = keys_max

    def feed(
        self,
        batches: Iterable[BatchView],
        aborted: Iterable[AbortedTransaction],
        *,
        start: int = 0,
        end: float = math.inf,
    ) -> None:
        """Take what one answer of the replica has of a range; KeyIndexFull if its keys are too many."""
        for batch in without_aborted(batches, aborted):
            if batch.is_control:
                continue
            for record in read_records(batch):
                assert record.offset is not None
                if record.key is None or not start <= record.offset < end:
                    continue
                if self._wanted.holds(record.key):
                    self.newest[record.key] = Newest(record.offset, digest_of(record.value))
            if len(self.newest) > self._keys_max:
                raise KeyIndexFull(f"more than {self._keys_max} keys at a time")
