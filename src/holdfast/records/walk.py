"""Going from batch to batch through a buffer of many."""

import struct
from collections.abc import Iterator

from holdfast.errors import CorruptBatch
from holdfast.records.batch import HEADER_BYTES, LENGTH_STARTS_AT, BatchView, check_length, validate
from holdfast.records.buffers import ReadableBytes

_LENGTH = struct.Struct(">8xi")
_PIECE_BYTES = 1 << 20


def walk(buffer: ReadableBytes, *, position: int = 0, end: int | None = None) -> Iterator[BatchView]:
    """Every batch in buffer[position:end]; checks that each is whole and v2, but no CRC."""
    end = len(buffer) if end is None else end
    while position < end:
        view = BatchView(buffer, position)
        check_length(view, end)
        yield view
        position += view.size_bytes


def walk_valid(buffer: ReadableBytes, *, position: int = 0, end: int | None = None) -> Iterator[BatchView]:
    """Every batch in buffer[position:end], each one validated when the iterator comes to it."""
    for view in walk(buffer, position=position, end=end):
        yield validate(buffer, view.position)


def zero_tail_bytes(buffer: ReadableBytes, position: int) -> int:
    """How many bytes follow, if all of them are zero, as in a segment that was preallocated; else 0."""
    # No batch begins with as many zeros: most calls end here.
    if any(buffer[position : position + HEADER_BYTES]):
        return 0
    pieces = range(position, len(buffer), _PIECE_BYTES)
    if any(bytes(buffer[start : start + _PIECE_BYTES]).strip(b"\0") for start in pieces):
        return 0
    return len(buffer) - position


def whole_bytes(buffer: ReadableBytes) -> int:
    """Length of the prefix made of whole batches: a fetch answer may end in the middle of one.

    A length that no batch can have is corruption, not a short tail, and raises CorruptBatch.
    """
    position = 0
    while len(buffer) - position >= LENGTH_STARTS_AT:
        size_bytes = _LENGTH.unpack_from(buffer, position)[0] + LENGTH_STARTS_AT
        if size_bytes < HEADER_BYTES:
            raise CorruptBatch(f"a batch of {size_bytes} bytes is shorter than its header", position)
        if position + size_bytes > len(buffer):
            break
        position += size_bytes
    return position
