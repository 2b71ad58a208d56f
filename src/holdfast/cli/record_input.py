"""What `holdfast produce` reads: lines of bytes, and how each becomes a record."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from holdfast.cli.record_format import GivenRecord, from_json
from holdfast.errors import UsageError
from holdfast.records.record import Record

READ_BYTES = 512 << 10
"""At most so much is sent at once; well below the megabyte that brokers take by default."""
LINE_BYTES_MAX = 64 << 20


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
                timestamp_ms=record.timestamp_ms,
            ),
            partition=self.partition if given.partition is None else given.partition,
        )

    def _given(self, key: bytes | None, value: bytes | None) -> GivenRecord:
        return GivenRecord(
            record=Record(key=key, value=value, headers=self.headers), partition=self.partition
        )


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
