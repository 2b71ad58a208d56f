"""Tenants and groups numbered while records are read, and cells for each group.

A group is a tenant, a stage and a window. Its number is the block of its cells. What a book holds outlasts the buffer
that it was read from: names of tenants are copied. It is of a fixed size; whoever finds it FULL takes out what it holds
and begins another one.
"""

from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.records.kernel.fingerprint import WORDS, Cells
from holdfast.records.kernel.hashing import hash_bytes, hash_words, same_bytes
from holdfast.records.kernel.jit import compiled, inlined
from holdfast.records.kernel.memory import Octets, copy_bytes, load_word
from holdfast.records.kernel.texts import is_utf8

ODD: Final = -1
"""In place of a number: there is something that is not plain."""
UNKNOWN: Final = -2
"""In place of a number, of a book that takes in nothing new."""
FULL: Final = -3

TENANTS_MAX: Final = 1 << 10
TENANT_BYTES: Final = 64
"""On average, that there is room for."""
STAGES: Final = 16
CELLS: Final = 1 << 16
"""2 MB."""

_U = np.uint64
_TENANTS, _GROUPS = range(2)
_GUESS_BITS: Final = 8
_SPREAD: Final = _U(0x9E3779B97F4A7C15)


class Book(NamedTuple):
    """All arrays; see `make`."""

    counts: NDArray[np.int64]
    """Of tenants and of groups."""
    grows: NDArray[np.bool_]
    """One flag: whether it takes in what it does not know."""
    names: Octets
    name_ends: NDArray[np.int64]
    """Number n reaches from name_ends[n] to name_ends[n + 1]."""
    tenant_table: NDArray[np.int32]
    guesses: NDArray[np.int32]
    """By a few bits of a name, the tenant that was last found there, or -1."""
    latest: NDArray[np.int32]
    """By tenant and stage the group that was last asked for, or -1."""
    tenant: NDArray[np.int32]
    """By group, as are all below."""
    stage: NDArray[np.int64]
    window: NDArray[np.int64]
    first: NDArray[np.int64]
    """The first offset, and the last one, of its records."""
    last: NDArray[np.int64]
    group_table: NDArray[np.int32]
    cells: Cells

    @classmethod
    def make(cls, *, bucket_bits: int, groups_max: int = CELLS) -> "Book":
        """An empty one, for as many groups as there are cells for, but `groups_max` at most."""
        groups = max(1, min(CELLS >> bucket_bits, groups_max))
        slots = 1 << (2 * groups - 1).bit_length()
        return cls(
            counts=np.zeros(2, np.int64),
            grows=np.ones(1, np.bool_),
            names=np.empty(TENANTS_MAX * TENANT_BYTES, np.uint8),
            name_ends=np.zeros(TENANTS_MAX + 1, np.int64),
            tenant_table=np.full(2 * TENANTS_MAX, -1, np.int32),
            guesses=np.full(1 << _GUESS_BITS, -1, np.int32),
            latest=np.full(TENANTS_MAX * STAGES, -1, np.int32),
            tenant=np.empty(groups, np.int32),
            stage=np.empty(groups, np.int64),
            window=np.empty(groups, np.int64),
            first=np.empty(groups, np.int64),
            last=np.empty(groups, np.int64),
            group_table=np.full(slots, -1, np.int32),
            cells=np.zeros((groups, 1 << bucket_bits, WORDS), np.uint64),
        )

    def copy(self) -> "Book":
        """One of its own."""
        return Book._make(column.copy() for column in self)

    def list_names(self) -> list[str]:
        """Of all tenants by number."""
        ends = self.name_ends[: self.counts[_TENANTS] + 1].tolist()
        octets = self.names[: ends[-1]].tobytes()
        return [octets[start:end].decode() for start, end in pairwise(ends)]

    @property
    def group_count(self) -> int:
        """How many there are."""
        return int(self.counts[_GROUPS])


@inlined
def guess_tenant(data: Octets, start: Any, length: Any, secret: NDArray[np.uint64], book: Book) -> Any:
    """What `number_tenant` says, mostly without asking it.

    Tenants that take turns at random are all guessed: one branch that nearly always goes the same way, where a
    comparison with the tenant before would be a toss-up, which costs a processor as much as the rest of this.
    """
    word = _U(0)
    if length >= 8:
        word = load_word(data, start + length - 8)
    elif length > 0 and start + 8 <= len(data):
        word = load_word(data, start) << _U(64 - 8 * length)
    slot = np.uintp((word * _SPREAD) >> _U(64 - _GUESS_BITS))
    tenant = np.int64(book.guesses[slot])
    if tenant < 0 or not is_tenant(data, start, length, book, tenant):
        tenant = np.int64(number_tenant(data, start, length, secret, book))
        if tenant >= 0:
            book.guesses[slot] = tenant
    return tenant


@compiled
def number_tenant(data: Octets, start: int, length: int, secret: NDArray[np.uint64], book: Book) -> int:
    """The tenant's number; ODD for a name that is no UTF-8, FULL, or UNKNOWN."""
    mask = len(book.tenant_table) - 1
    slot = np.intp(hash_bytes(data, start, length, secret) & _U(mask))
    while book.tenant_table[slot] >= 0:
        if is_tenant(data, start, length, book, book.tenant_table[slot]):
            return int(book.tenant_table[slot])
        slot = (slot + 1) & mask
    # Whether a name is sound does not depend on what the book takes in.
    if not is_utf8(data, start, length):
        return ODD
    if not book.grows[0]:
        return UNKNOWN
    count = book.counts[_TENANTS]
    end = book.name_ends[count]
    if count == len(book.name_ends) - 1 or length > len(book.names) - end:
        return FULL
    copy_bytes(book.names, end, data, start, length)
    book.name_ends[count + 1] = end + length
    book.tenant_table[slot] = count
    book.counts[_TENANTS] = count + 1
    return int(count)


@inlined
def is_tenant(data: Octets, start: Any, length: Any, book: Book, number: Any) -> bool:
    """Whether this is the name of the tenant with this number."""
    begin = book.name_ends[number]
    return length == book.name_ends[number + 1] - begin and same_bytes(data, start, book.names, begin, length)


@inlined
def number_group(tenant: Any, stage: Any, window: Any, secret: NDArray[np.uint64], book: Book) -> Any:
    """The group's number, FULL, or UNKNOWN. Mostly it is the one that was last asked for of this tenant and stage."""
    group: Any = np.int64(book.latest[tenant * STAGES + stage])
    if group < 0 or book.window[group] != window:
        group = look_up_group(tenant, stage, window, secret, book)
        if group >= 0:
            book.latest[tenant * STAGES + stage] = group
    return group


@compiled
def look_up_group(tenant: int, stage: int, window: int, secret: NDArray[np.uint64], book: Book) -> int:
    """The same without a guess."""
    mask = len(book.group_table) - 1
    slot = np.intp(hash_words(_U(window), _U(tenant), _U(stage), secret) & _U(mask))
    while book.group_table[slot] >= 0:
        known = book.group_table[slot]
        if book.tenant[known] == tenant and book.stage[known] == stage and book.window[known] == window:
            return int(known)
        slot = (slot + 1) & mask
    if not book.grows[0]:
        return UNKNOWN
    count = book.counts[_GROUPS]
    if count == len(book.tenant):
        return FULL
    book.tenant[count], book.stage[count], book.window[count] = tenant, stage, window
    book.first[count] = np.int64((1 << 63) - 1)
    book.last[count] = -1
    book.group_table[slot] = count
    book.counts[_GROUPS] = count + 1
    return int(count)
