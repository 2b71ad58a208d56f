"""Fingerprints of sets of ids, one for each group: added to, merged, folded, compared.

A group is whatever one counts by, such as a tenant, a stage and a window. Its fingerprint is a row of cells, into
which ids fall by a keyed hash. Two groups with the same ids, each as often, have equal cells. Where cells differ,
something differs for certain; where they are equal, nothing does but by a chance of 2⁻⁶⁴ or less that nobody can
bring about without the seed.

Memory is bounded: when there are more groups than cells for them, every two neighbouring cells become one. What is
lost by that is precision in where to look, never in whether.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import FingerprintsFull
from holdfast.records.grouping import read_only
from holdfast.records.kernel.fingerprint import (
    CHECK,
    COUNT,
    HIGH,
    LANES_BYTES,
    LONG,
    LOW,
    SKIPPED,
    WORDS,
    Cells,
    add_ids,
    check_of,
    mark_ids,
)
from holdfast.records.kernel.hashing import make_secret
from holdfast.records.kernel.memory import Octets

BUCKET_BITS: Final = 6
BUCKET_BITS_MAX: Final = 20
CELLS_MAX: Final = 1 << 20
"""32 MB of cells in one process."""

Group = TypeVar("Group", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ids:
    """Ids one behind the other, as Arrow lays them out: number n reaches from offsets[n] to offsets[n + 1]."""

    octets: Octets
    offsets: NDArray[np.int32]

    def __post_init__(self) -> None:
        object.__setattr__(self, "octets", read_only(self.octets))
        object.__setattr__(self, "offsets", read_only(self.offsets))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @classmethod
    def of(cls, ids: Sequence[bytes]) -> "Ids":
        """From single ids."""
        offsets = np.zeros(len(ids) + 1, np.int32)
        np.cumsum([len(each) for each in ids], out=offsets[1:])
        # One byte more, so that there is an address to point to when all ids are empty.
        return cls(octets=np.frombuffer(b"".join(ids) + b"\0", np.uint8), offsets=offsets)


@dataclass(frozen=True, slots=True, kw_only=True)
class Peeled:
    """The one id by which a cell of two sides differs, and on which side it is once too often."""

    bucket: int
    excess: int
    """1 for the left side, -1 for the right."""
    id: bytes | None
    """None for an id of more than 16 bytes: its lanes are known, its name has to be looked for."""
    lanes: tuple[int, int]


class Fingerprints(Generic[Group]):
    """Cells by group. Those of the same seed can be merged and compared, whatever their number of buckets."""

    def __init__(self, *, seed: int, bucket_bits: int = BUCKET_BITS, cells_max: int = CELLS_MAX) -> None:
        if not 0 <= bucket_bits <= BUCKET_BITS_MAX:
            raise ValueError(f"{bucket_bits} bits for buckets")
        self.seed: Final = seed
        self.bucket_bits = bucket_bits
        self._cells_max = cells_max
        self._secrets = make_secrets(seed)
        self._blocks: dict[Group, int] = {}
        self._cells: Cells = np.zeros((0, 1 << bucket_bits, WORDS), np.uint64)

    def add(self, groups: Sequence[Group], codes: NDArray[np.int32], ids: Ids) -> None:
        """Adds each id to groups[its code]; a code of SKIPPED leaves the id out."""
        assert len(codes) == len(ids)
        blocks = np.array([self._block(group) for group in groups], np.int32)
        add_ids(
            ids.octets, ids.offsets, read_only(codes), blocks, self.bucket_bits, self._secrets, self._cells
        )

    def merge(self, groups: Sequence[Group], cells: Cells) -> None:
        """Adds cells that were made with the same seed elsewhere: a block for each group, and no group twice."""
        assert len(set(groups)) == len(groups), "only one of them would count"
        if not groups:
            return
        bucket_bits = cells.shape[1].bit_length() - 1
        if bucket_bits < self.bucket_bits:
            self._fold_to(bucket_bits)
        blocks = np.array([self._block(group) for group in groups], np.intp)
        self._cells[blocks] += _folded(cells, self.bucket_bits)

    def cells(self, group: Group) -> Cells:
        """The group's cells by bucket; zeros if it was never seen."""
        block = self._blocks.get(group)
        return np.zeros((1 << self.bucket_bits, WORDS), np.uint64) if block is None else self._cells[block]

    def sum(self, groups: Iterable[Group]) -> Cells:
        """The cells of all these groups together."""
        total = np.zeros((1 << self.bucket_bits, WORDS), np.uint64)
        for group in groups:
            if (block := self._blocks.get(group)) is not None:
                total += self._cells[block]
        return total

    def count(self, group: Group) -> int:
        """How many ids the group was given."""
        block = self._blocks.get(group)
        return 0 if block is None else int(self._cells[block, :, COUNT].sum())

    @property
    def groups(self) -> list[Group]:
        """All that were seen, in the order of their blocks."""
        return list(self._blocks)

    @property
    def blocks(self) -> Cells:
        """The cells of all groups."""
        return self._cells[: len(self._blocks)]

    def peel(self, difference: Cells) -> list[Peeled]:
        """The ids of those buckets that differ by one id alone, as their checks prove."""
        return [
            found for bucket in differing(difference) if (found := self._peel_one(difference, int(bucket)))
        ]

    def _peel_one(self, difference: Cells, bucket: int) -> Peeled | None:
        words = difference[bucket]
        excess = int(words[COUNT].astype(np.int64))
        if abs(excess) != 1:
            return None
        low, high, check = (int(words[word]) * excess % 2**64 for word in (LOW, HIGH, CHECK))
        packed = (low | high << 64).to_bytes(LANES_BYTES, "little")
        # Whether zeros at the end are the id's own cannot be seen in the lanes: the check knows.
        for length in range(len(packed.rstrip(b"\0")), LONG + 1):
            if check == int(check_of(np.uint64(low), np.uint64(high), length, self._secrets)):
                name = None if length == LONG else packed[:length]
                return Peeled(bucket=bucket, excess=excess, id=name, lanes=(low, high))
        return None

    def _block(self, group: Group) -> int:
        """Where the group's cells are; new ones are zero. Older cells may move and fold."""
        block = self._blocks.get(group)
        if block is not None:
            return block
        block = self._blocks[group] = len(self._blocks)
        if block == len(self._cells):
            self._grow()
        return block

    def _grow(self) -> None:
        wanted = max(8, 2 * len(self._cells))
        while self.bucket_bits and wanted << self.bucket_bits > self._cells_max:
            self._fold_to(self.bucket_bits - 1)
        if wanted > max(8, self._cells_max):
            raise FingerprintsFull(
                f"more than {len(self._cells):,} groups of ids: take longer windows, or fewer tenants at a time"
            )
        grown = np.zeros((wanted, 1 << self.bucket_bits, WORDS), np.uint64)
        grown[: len(self._cells)] = self._cells
        self._cells = grown

    def _fold_to(self, bucket_bits: int) -> None:
        self._cells = _folded(self._cells, bucket_bits)
        self.bucket_bits = bucket_bits


def differing(difference: Cells) -> NDArray[np.int64]:
    """The buckets in which anything differs."""
    return np.flatnonzero(difference.any(axis=1))


def select(
    groups: Sequence[Group],
    codes: NDArray[np.int32],
    ids: Ids,
    *,
    wanted: Mapping[Group, Iterable[int]],
    bucket_bits: int,
    seed: int,
) -> NDArray[np.bool_]:
    """Marks the ids whose group and bucket are wanted: what a second look has to read."""
    flags = np.zeros((len(groups), 1 << bucket_bits), np.bool_)
    for block, group in enumerate(groups):
        flags[block, list(wanted.get(group, ()))] = True
    blocks = np.where(flags.any(axis=1), np.arange(len(groups)), SKIPPED).astype(np.int32)
    marks = np.empty(len(codes), np.bool_)
    mark_ids(ids.octets, ids.offsets, read_only(codes), blocks, bucket_bits, make_secrets(seed), flags, marks)
    return marks


def _folded(cells: Cells, bucket_bits: int) -> Cells:
    """The same with fewer buckets: neighbours are added up."""
    blocks, buckets, words = cells.shape
    assert buckets >= 1 << bucket_bits
    if buckets == 1 << bucket_bits:
        return cells
    return cells.reshape(blocks, 1 << bucket_bits, buckets >> bucket_bits, words).sum(axis=2, dtype=np.uint64)


def make_secrets(seed: int) -> NDArray[np.uint64]:
    """One for checks and one for the lanes of long ids, as the kernels take them."""
    return np.stack([make_secret(seed * 2 + number) for number in range(2)])
