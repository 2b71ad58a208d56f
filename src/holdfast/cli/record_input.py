"""What `holdfast produce` reads: lines of bytes, how each becomes a record, and where that goes."""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from holdfast.cli.endpoint import require_partitions
from holdfast.cli.record_format import GivenRecord, from_json
from holdfast.client.cluster import Topic
from holdfast.client.producer import partition_of_key
from holdfast.errors import UsageError
from holdfast.records.record import Record

READ_BYTES = 512 << 10
"""At most so much is sent at once; well below the megabyte that brokers take by default."""
LINE_BYTES_MAX = 64 << 20
STICKY_BYTES = 16 << 10
"""So much without keys goes to one partition before the next has its turn, as with Kafka's clients."""
KEYS_REMEMBERED_MAX = 10_000


class ByteStream(Protocol):
    """A buffered binary file; `read1` gives what is there and waits only for the first byte."""

    def read1(self, size: int, /) -> bytes:
        """Up to `size` bytes, none at the end."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordForm:
    """What the command line says of all records."""

    key: bytes | None = None
    separator: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    is_null: bool = False
    partition: int | None = None
    as_base64: bool = False

    def from_value(self, value: bytes) -> GivenRecord:
        """The value, under the key that all records have."""
        return self._given(self.key, None if self.is_null else value)

    def from_line(self, line: bytes) -> GivenRecord:
        """Key and value, or the value alone; for tombstones the key."""
        if self.is_null:
            return self._given(line, None)
        if self.separator is None:
            return self.from_value(line)
        key, separator, value = line.partition(self.separator)
        if not separator:
            raise UsageError(f"there is no {self.separator.decode(errors='replace')!r} between key and value")
        return self._given(key, value)

    def from_json_line(self, line: bytes) -> GivenRecord:
        """What the object says; headers and partition of the command line are added."""
        given = from_json(line, as_base64=self.as_base64)
        record = given.record
        return GivenRecord(
            record=Record(
                key=record.key,
                value=record.value,
                headers=(*record.headers, *self.headers),
                timestamp_ms=record.timestamp_ms if record.timestamp_ms >= 0 else _now_ms(),
            ),
            partition=self.partition if given.partition is None else given.partition,
        )

    def _given(self, key: bytes | None, value: bytes | None) -> GivenRecord:
        record = Record(key=key, value=value, headers=self.headers, timestamp_ms=_now_ms())
        return GivenRecord(record=record, partition=self.partition)


class Spread:
    """Where each record goes: as asked, by its key as Kafka's clients do it, else to each in turn."""

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self._count = len(topic.partitions)
        # Many commands of one record each must not all meet in the first partition.
        self._keyless_bytes = random.randrange(self._count) * STICKY_BYTES
        # The hash is pure Python, and keys repeat.
        self._of_key = lru_cache(KEYS_REMEMBERED_MAX)(partition_of_key)

    def assign(self, given: Sequence[GivenRecord]) -> dict[int, list[Record]]:
        """The records by partition, in their order."""
        chosen: dict[int, list[Record]] = {}
        for each in given:
            chosen.setdefault(self._choose(each), []).append(each.record)
        return chosen

    def _choose(self, given: GivenRecord) -> int:
        if given.partition is not None:
            return require_partitions(self._topic, (given.partition,))[0]
        if given.record.key is not None:
            return self._of_key(given.record.key, self._count)
        turn = self._keyless_bytes // STICKY_BYTES
        self._keyless_bytes += len(given.record.value or b"")
        return turn % self._count


def read_records(stream: ByteStream, read: Callable[[bytes], GivenRecord]) -> Iterator[list[GivenRecord]]:
    """Records as they arrive: what came together is one list. UsageError names the line that is wrong.

    What stands before a wrong line is given out first.
    """
    number = 0
    for lines in read_lines(stream):
        found: list[GivenRecord] = []
        for line in lines:
            number += 1
            try:
                found.append(read(line))
            except UsageError as failure:
                yield found
                raise UsageError(f"line {number}: {failure}") from None
        yield found


def read_lines(stream: ByteStream) -> Iterator[list[bytes]]:
    """Whole lines without their ends; a slow writer's lines are not held back until a buffer is full."""
    parts: list[bytes] = []
    held_bytes = 0
    while chunk := stream.read1(READ_BYTES):
        head, newline, tail = chunk.rpartition(b"\n")
        if newline:
            yield (b"".join(parts) + head).split(b"\n")
            parts, held_bytes = [], 0
        parts.append(tail)
        held_bytes += len(tail)
        if held_bytes > LINE_BYTES_MAX:
            raise UsageError(f"a line of the input is longer than {LINE_BYTES_MAX} bytes")
    if held_bytes:
        yield [b"".join(parts)]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
