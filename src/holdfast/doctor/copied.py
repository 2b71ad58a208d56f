"""Copied log directories: the same comparison without a cluster, from the segments alone.

What a broker keeps beside the segments is not trusted: `.txnindex` and `.snapshot` are what a diverged replica got
wrong, or a copy left behind. Transactions are followed anew by Kafka's rules (`rules/kafka_transactions.py`).
"""

import mmap
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, takewhile
from pathlib import Path
from typing import Final

from holdfast.client.aborted import AbortedTransaction
from holdfast.client.groups import TopicPartition
from holdfast.doctor.source import Answer, Position
from holdfast.errors import CorruptBatch, UsageError
from holdfast.records.batch import HEADER_BYTES, BatchView, validate
from holdfast.records.control import ControlType, read_control
from holdfast.records.walk import zero_tail_bytes
from holdfast.rules.entry import Entry
from holdfast.rules.kafka_transactions import AbortedTransaction as AbortedSpan
from holdfast.rules.kafka_transactions import KafkaTransactions
from holdfast.rules.transaction import Outcome

BATCHES_PER_ANSWER: Final = 1000
_PARTITION = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)")
_SEGMENT = re.compile(r"(\d{20})\.log")


def find_partitions(directory: Path) -> dict[TopicPartition, Path]:
    """The partitions in a broker's log directory; a partition's own directory is one by itself."""
    if not directory.is_dir():
        raise UsageError(f"{directory} is no directory")
    found = {}
    for path in [directory, *sorted(directory.iterdir())]:
        name = _PARTITION.fullmatch(path.resolve().name)
        if name and path.is_dir() and any(_SEGMENT.fullmatch(file.name) for file in path.iterdir()):
            found[TopicPartition(name["topic"], int(name["partition"]))] = path
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """What a replay of the whole log gave."""

    log_end: int
    stable: int
    aborted: tuple[AbortedSpan, ...]
    open: dict[int, int]

    def aborted_between(self, first: int, last: int) -> tuple[AbortedTransaction, ...]:
        """The entries of the index that overlap a range, as a broker would tell them."""
        return tuple(
            AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
            for each in self.aborted
            if each.first_offset <= last and each.last_offset >= first
        )


class CopiedSource:
    """Implements `source.Source`: one copied partition directory."""

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self._segments = sorted(file for file in path.iterdir() if _SEGMENT.fullmatch(file.name))
        self._followed: Followed | None = None

    def find_position(self) -> Position:
        """All of a copy counts as replicated: it will hear of no more."""
        end = self._follow().log_end
        return Position(log_start=int(self._segments[0].stem), high_watermark=end, log_end=end)

    def read(self, start: int) -> Iterator[Answer]:
        """Some batches at a time, up to the last stable offset that the log's markers give."""
        followed = self._follow()
        wanted = (batch for batch in self._batches() if batch.next_offset > start)
        below = takewhile(lambda batch: batch.base_offset < followed.stable, wanted)
        while some := tuple(islice(below, BATCHES_PER_ANSWER)):
            yield Answer(
                batches=some,
                aborted=followed.aborted_between(some[0].base_offset, some[-1].last_offset),
                stable=followed.stable,
            )
        yield Answer(batches=(), aborted=(), stable=followed.stable)

    def list_open(self) -> dict[int, int]:
        """What no marker in the log ends."""
        return self._follow().open

    def _follow(self) -> Followed:
        if self._followed is None:
            transactions = KafkaTransactions()
            end = int(self._segments[0].stem)
            for batch in self._batches():
                transactions.append(_entry(batch))
                end = batch.next_offset
            first_open = transactions.unstable.first_open()
            self._followed = Followed(
                log_end=end,
                stable=end if first_open is None else first_open,
                aborted=tuple(transactions.aborted),
                open={
                    number: producer.transaction_first_offset
                    for number, producer in transactions.producers.items()
                    if producer.transaction_first_offset is not None
                },
            )
        return self._followed

    def _batches(self) -> Iterator[BatchView]:
        for segment in self._segments:
            yield from _batches(segment, is_last=segment is self._segments[-1])


def _batches(segment: Path, *, is_last: bool) -> Iterator[BatchView]:
    """Every batch of a segment; where the last segment ends in the middle of a batch, those before it.

    The file is mapped, so that memory does not grow with it, for as long as somebody holds one of its batches.
    """
    if not segment.stat().st_size:
        return
    with segment.open("rb") as opened:
        content = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
    position = 0
    while position < len(content) and not zero_tail_bytes(content, position):
        if is_last and not _is_whole(content, position):
            return
        try:
            batch = validate(content, position)
        except CorruptBatch as fault:
            raise CorruptBatch(f"{segment}: {fault.why}", position) from None
        yield batch
        position += batch.size_bytes


def _is_whole(content: mmap.mmap, position: int) -> bool:
    left = len(content) - position
    return left >= HEADER_BYTES and BatchView(content, position).size_bytes <= left


def _entry(batch: BatchView) -> Entry:
    """A batch as far as the rules of transactions look into it."""
    marker = None
    if batch.is_control:
        control = read_control(batch)
        committed = control is None or control.type == ControlType.COMMIT
        marker = Outcome.COMMITTED if committed else Outcome.ABORTED
    return Entry(
        offset=batch.base_offset,
        marker=marker,
        timestamp_ms=batch.max_timestamp,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        transactional=batch.is_transactional,
        empty=not batch.record_count,
    )
