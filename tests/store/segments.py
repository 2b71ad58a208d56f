"""Segments for tests: random batches with gaps between them, written in pieces."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

from holdfast.records.batch import NO_TIMESTAMP
from holdfast.records.build import Record, build_batch
from holdfast.records.walk import walk
from holdfast.store.segment import SegmentWriter, WrittenSegment, segment_file
from holdfast.store.segment_index import index_entries
from tests.store.frames import TOPIC

FILE = segment_file(TOPIC, 0, 100, 7, "5f3c")


def random_batches(chance: Random, count: int) -> list[bytes]:
    """Batches in offset order, small and large, times up and down, offsets missing in and between them."""
    batches = []
    offset = chance.randrange(100)
    for _ in range(count):
        value = bytes(chance.choice([10, 1000, chance.randrange(40_000)]))
        last = offset + chance.choice([0, 0, chance.randrange(1, 50)])
        record = Record(value=value, timestamp_ms=chance.randrange(-1, 5000))
        batches.append(build_batch([record], base_offset=offset, last_offset=last))
        offset = last + 1 + chance.choice([0, 0, chance.randrange(100)])
    return batches


def in_pieces(chance: Random, batches: Sequence[bytes]) -> list[bytes]:
    """The same in buffers of one or several batches."""
    pieces = []
    at = 0
    while at < len(batches):
        end = at + chance.randrange(1, 8)
        pieces.append(b"".join(batches[at:end]))
        at = end
    return pieces


def append_pieces(writer: SegmentWriter, pieces: Sequence[bytes]) -> None:
    """Append the pieces with the index entries that a walk finds."""
    max_timestamp = NO_TIMESTAMP
    for piece in pieces:
        writer.append(piece, index_entries(piece, max_timestamp=max_timestamp))
        max_timestamp = max(max_timestamp, *(batch.max_timestamp for batch in walk(piece)))


def write_segment(directory: Path, pieces: Sequence[bytes], file: str = FILE) -> WrittenSegment:
    """A finished segment."""
    writer = SegmentWriter(directory, file)
    append_pieces(writer, pieces)
    return writer.finish()
