"""Fetch requests, and their answers read where they lie: kafka-python copies the records, most of what is received."""

import struct
from dataclasses import dataclass
from typing import Any, Final

from holdfast.client.aborted import AbortedTransaction
from holdfast.client.connection import Allocate, Connection, Taker, allocate

FETCH_VERSIONS: Final = (4, 11)
"""From 4 on: isolation levels and batches v2. From 12 on headers are flexible and 13 names topics by id."""

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_SESSION = struct.Struct(">hi")
"""Error and session id."""
_PARTITION = struct.Struct(">ihqq")
"""Partition, error, high watermark and last stable offset."""
_LOG_START = struct.Struct(">q")
_ABORTED = struct.Struct(">qq")


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedPartition:
    """What a broker says of one partition."""

    topic: str
    partition: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    aborted: tuple[AbortedTransaction, ...]
    """Told to readers of committed records only."""
    records: memoryview
    """As they were received; the last batch may be cut off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """One answer."""

    error_code: int
    partitions: tuple[FetchedPartition, ...]

    def find(self, topic: str, partition: int) -> FetchedPartition | None:
        """What it says of this partition, unless it leaves it out."""
        wanted = (topic, partition)
        return next((each for each in self.partitions if (each.topic, each.partition) == wanted), None)


def fetch(
    broker: Connection,
    request: Any,
    *,
    versions: tuple[int, int] = FETCH_VERSIONS,
    allocate: Allocate = allocate,
) -> Fetched:
    """Sends a kafka-python FetchRequest."""
    assert FETCH_VERSIONS[0] <= versions[0] <= versions[1] <= FETCH_VERSIONS[1], versions
    taker = Taker(decode=decode_fetched, allocate=allocate)
    answer: Fetched = broker.send(request, versions=versions, taker=taker)
    return answer


def decode_fetched(answer: memoryview, version: int) -> Fetched:
    """The answer's body; EOFError, struct.error or ValueError if it is none."""
    rest = _Rest(answer)
    rest.take(_INT32)  # for how long the broker throttles us: it holds back its answer itself
    error_code = 0
    if version >= 7:
        error_code, _ = rest.take(_SESSION)
    partitions: list[FetchedPartition] = []
    for _ in range(rest.count()):
        topic = str(rest.take_bytes(rest.take(_INT16)[0]), "utf-8")
        partitions += (_take_partition(rest, topic, version) for _ in range(rest.count()))
    rest.check_end()
    return Fetched(error_code=error_code, partitions=tuple(partitions))


def _take_partition(rest: "_Rest", topic: str, version: int) -> FetchedPartition:
    partition, error_code, high_watermark, last_stable_offset = rest.take(_PARTITION)
    if version >= 5:
        rest.take(_LOG_START)
    aborted = [rest.take(_ABORTED) for _ in range(rest.count())]
    if version >= 11:
        rest.take(_INT32)  # the replica that it would rather have us read
    return FetchedPartition(
        topic=topic,
        partition=partition,
        error_code=error_code,
        high_watermark=high_watermark,
        last_stable_offset=last_stable_offset,
        aborted=tuple(AbortedTransaction(producer_id=who, first_offset=at) for who, at in aborted),
        records=rest.take_bytes(rest.count()),
    )


class _Rest:
    """What of an answer has not been read yet."""

    def __init__(self, answer: memoryview) -> None:
        self._answer = answer
        self._position = 0

    def take(self, layout: struct.Struct) -> tuple[int, ...]:
        values = layout.unpack_from(self._answer, self._position)
        self._position += layout.size
        return values

    def count(self) -> int:
        """Of items or bytes; null is none."""
        return max(self.take(_INT32)[0], 0)

    def take_bytes(self, length: int) -> memoryview:
        end = self._position + length
        if not self._position <= end <= len(self._answer):
            raise EOFError(f"{length} bytes are announced at byte {self._position} of {len(self._answer)}")
        taken = self._answer[self._position : end]
        self._position = end
        return taken

    def check_end(self) -> None:
        if self._position != len(self._answer):
            raise EOFError(f"the answer ends at byte {self._position} of {len(self._answer)}")
