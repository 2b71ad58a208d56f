"""Batches from records, and records from batches, in plain Python.

Compiled code for whole buffers is in `kernel` and `arrow`; this is for control batches, tools and tests.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from holdfast.errors import CorruptBatch
from holdfast.records.batch import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_BYTES,
    LENGTH_STARTS_AT,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    NO_TIMESTAMP,
    RECORD_BYTES_MIN,
    TRANSACTIONAL_BIT,
    BatchView,
    Codec,
    seal,
)
from holdfast.records.codecs import INFLATED_BYTES_MAX, compress, decompress
from holdfast.records.record import Record, RecordReader, encode_record

__all__ = ["Record", "build_batch", "read_records"]


def build_batch(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    last_offset: int | None = None,
    leader_epoch: int = -1,
    codec: Codec = Codec.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    log_append_time_ms: int | None = None,
    delete_horizon_ms: int | None = None,
    max_timestamp: int | None = None,
) -> bytes:
    """One whole batch. Records may leave gaps between them, and `last_offset` one after them.

    Without records it is the empty batch that a cleaner leaves behind, for which `max_timestamp` is given.
    """
    placed = _place(records, base_offset)
    last_placed = placed[-1][0] if placed else base_offset
    last_offset = last_placed if last_offset is None else last_offset
    if last_offset < last_placed:
        raise ValueError(f"last_offset {last_offset} lies before the last record's {last_placed}")
    base_timestamp = _base_timestamp(placed, delete_horizon_ms)
    payload = b"".join(
        encode_record(
            record, offset_delta=offset - base_offset, timestamp_delta=record.timestamp_ms - base_timestamp
        )
        for offset, record in placed
    )
    if codec and placed:
        payload = compress(codec, payload)
    batch = bytearray(HEADER_BYTES + len(payload))
    HEADER.pack_into(
        batch,
        0,
        base_offset,
        len(batch) - LENGTH_STARTS_AT,
        leader_epoch,
        MAGIC,
        0,
        (codec if placed else Codec.NONE)
        | (LOG_APPEND_TIME_BIT if log_append_time_ms is not None else 0)
        | (TRANSACTIONAL_BIT if transactional else 0)
        | (CONTROL_BIT if control else 0)
        | (DELETE_HORIZON_BIT if delete_horizon_ms is not None else 0),
        last_offset - base_offset,
        base_timestamp,
        _max_timestamp(placed, log_append_time_ms, max_timestamp),
        producer_id,
        producer_epoch,
        base_sequence,
        len(placed),
    )
    batch[HEADER_BYTES:] = payload
    seal(batch)
    return bytes(batch)


def read_records(view: BatchView, *, bytes_max: int = INFLATED_BYTES_MAX) -> Iterator[Record]:
    """The batch's records with their offsets; raises CorruptBatch when their bytes do not add up."""
    try:
        yield from _read(view, bytes_max)
    except CorruptBatch as error:
        raise CorruptBatch(error.why, view.position) from None


def _read(view: BatchView, bytes_max: int) -> Iterator[Record]:
    if not view.record_count and not view.records:
        return
    payload = decompress(view.codec, view.records, bytes_max=bytes_max)
    if not 0 <= view.record_count * RECORD_BYTES_MIN <= len(payload):
        raise CorruptBatch(f"{view.record_count} records in {len(payload)} bytes")
    reader = RecordReader(payload)
    offset_min = view.base_offset
    for _ in range(view.record_count):
        record = reader.read(base_offset=view.base_offset, base_timestamp=view.base_timestamp)
        offset = record.offset
        assert offset is not None
        if not offset_min <= offset <= view.last_offset:
            raise CorruptBatch(f"offset {offset} is out of order")
        offset_min = offset + 1
        if view.is_log_append_time:
            record = replace(record, timestamp_ms=view.max_timestamp)
        yield record
    if not reader.exhausted:
        raise CorruptBatch("bytes are left over after the last record")


def _place(records: Iterable[Record], base_offset: int) -> list[tuple[int, Record]]:
    placed: list[tuple[int, Record]] = []
    next_offset = base_offset
    for record in records:
        offset = next_offset if record.offset is None else record.offset
        if offset < next_offset:
            raise ValueError(f"offset {offset} where {next_offset} or more is due")
        placed.append((offset, record))
        next_offset = offset + 1
    return placed


def _base_timestamp(placed: list[tuple[int, Record]], delete_horizon_ms: int | None) -> int:
    if delete_horizon_ms is not None:
        return delete_horizon_ms
    return placed[0][1].timestamp_ms if placed else NO_TIMESTAMP


def _max_timestamp(
    placed: list[tuple[int, Record]], log_append_time_ms: int | None, max_timestamp: int | None
) -> int:
    if log_append_time_ms is not None:
        return log_append_time_ms
    if max_timestamp is not None:
        return max_timestamp
    return max((record.timestamp_ms for _, record in placed), default=NO_TIMESTAMP)
