"""The anomalies that Jepsen looks for in Kafka's transactions: pure functions from histories to violations."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from soak.checker import REORDERED, UNSENT, UNSTABLE
from soak.history import LogRecord, Violation
from soak.txn_history import Answer, CommittedLogs, CommittedReader, Place, Sighting, Transaction

ABORTED_READ = "aborted-read"
LOST_WRITE = "lost-write"
DUPLICATE = "duplicate"
NON_MONOTONIC_POLL = "non-monotonic-poll"
TORN = "torn"
PRECOMMITTED_READ = "precommitted-read"
SKIPPED = "skipped"

SHOWN_BYTES = 40

Writers = Mapping[bytes, Transaction]


def writers_of(transactions: Iterable[Transaction]) -> dict[bytes, Transaction]:
    """Every value's transaction."""
    writers: dict[bytes, Transaction] = {}
    for transaction in transactions:
        for write in transaction.writes:
            assert write.value not in writers, "a workload must send every value once"
            writers[write.value] = transaction
    return writers


def check_transactions(transactions: Sequence[Transaction], logs: CommittedLogs) -> Iterator[Violation]:
    """Committed: there, once, in order. Not committed: nowhere. Without an answer: the one or the other, whole."""
    writers = writers_of(transactions)
    offsets: dict[tuple[Place, bytes], list[int]] = defaultdict(list)
    for place, log in logs.items():
        for record in log:
            offsets[place, record.value].append(record.offset)
            yield from _check_origin(writers, place, record)
    for transaction in transactions:
        yield from _check_transaction(transaction, offsets)


def _check_origin(writers: Writers, place: Place, record: LogRecord) -> Iterator[Violation]:
    transaction = writers.get(record.value)
    where = f"{_shown(record.value)} at offset {record.offset} of {place}"
    if transaction is None or (place, record.value) not in transaction.writes:
        yield Violation(UNSENT, f"nobody sent {where}")
    elif not transaction.may_be_seen:
        yield Violation(ABORTED_READ, f"{where} is of {transaction.name}, which {_fate(transaction)}")


def _check_transaction(
    transaction: Transaction, offsets: Mapping[tuple[Place, bytes], list[int]]
) -> Iterator[Violation]:
    found = {write: offsets[write] for write in transaction.writes if write in offsets}
    missing = [write for write in transaction.writes if write not in found]
    if transaction.answer is Answer.COMMITTED:
        for write in missing:
            yield Violation(
                LOST_WRITE, f"{_shown(write.value)} of {transaction.name}, committed, is not in {write.place}"
            )
    if found and missing:
        yield Violation(
            TORN,
            f"of {transaction.name} {len(found)} of {len(transaction.writes)} records are seen, "
            f"{_shown(missing[0].value)} is not",
        )
    for write, at in found.items():
        if len(at) > 1:
            yield Violation(DUPLICATE, f"{_shown(write.value)} lies at offsets {at} of {write.place}")
    last: dict[Place, int] = {}
    for write, at in found.items():
        if at[0] < last.get(write.place, -1):
            yield Violation(
                REORDERED, f"{_shown(write.value)} lies before what {transaction.name} sent first"
            )
        last[write.place] = at[0]


def check_reader(
    reader: CommittedReader, transactions: Sequence[Transaction], logs: CommittedLogs
) -> Iterator[Violation]:
    """Nothing before its commit was asked for, nothing aborted, nothing twice, nothing passed over."""
    writers = writers_of(transactions)
    for sighting in reader.seen:
        yield from _check_sighting(reader, sighting, writers.get(sighting.value))
    by_place: dict[Place, list[Sighting]] = defaultdict(list)
    for sighting in reader.seen:
        by_place[sighting.place].append(sighting)
    for place, seen in by_place.items():
        yield from _check_polls(reader, place, seen)
        yield from _check_against_log(reader, place, seen, logs.get(place, ()))


def _check_sighting(
    reader: CommittedReader, sighting: Sighting, transaction: Transaction | None
) -> Iterator[Violation]:
    what = f"{reader.name} saw {_shown(sighting.value)} at offset {sighting.offset} of {sighting.place}"
    if transaction is None:
        yield Violation(UNSENT, f"{what}: nobody sent it")
    elif not transaction.may_be_seen:
        yield Violation(ABORTED_READ, f"{what}: {transaction.name} {_fate(transaction)}")
    elif transaction.commit_sent_ns is not None and sighting.at_ns < transaction.commit_sent_ns:
        early_ms = (transaction.commit_sent_ns - sighting.at_ns) / 1e6
        yield Violation(PRECOMMITTED_READ, f"{what}, {early_ms:.1f} ms before {transaction.name} committed")


def _check_polls(reader: CommittedReader, place: Place, seen: Sequence[Sighting]) -> Iterator[Violation]:
    for before, after in pairwise(seen):
        if after.offset <= before.offset:
            yield Violation(
                NON_MONOTONIC_POLL,
                f"{reader.name} was given offset {after.offset} of {place} after {before.offset}",
            )
    for value, times in Counter(sighting.value for sighting in seen).items():
        if times > 1:
            yield Violation(DUPLICATE, f"{reader.name} saw {_shown(value)} {times} times in {place}")


def _check_against_log(
    reader: CommittedReader, place: Place, seen: Sequence[Sighting], log: Sequence[LogRecord]
) -> Iterator[Violation]:
    by_offset = {record.offset: record.value for record in log}
    for sighting in seen:
        if by_offset.get(sighting.offset) != sighting.value:
            now = _shown(by_offset[sighting.offset]) if sighting.offset in by_offset else "nothing"
            yield Violation(
                UNSTABLE,
                f"{reader.name} saw {_shown(sighting.value)} at offset {sighting.offset} of {place}; "
                f"now there is {now}",
            )
    given = {sighting.offset for sighting in seen}
    passed = max(given)
    for offset, value in by_offset.items():
        if offset < passed and offset not in given:
            yield Violation(
                SKIPPED, f"{reader.name} passed over {_shown(value)} at offset {offset} of {place}"
            )


def _fate(transaction: Transaction) -> str:
    return "was aborted" if transaction.answer is Answer.ABORTED else "never asked for its commit"


def _shown(value: bytes) -> str:
    return repr(value[:SHOWN_BYTES])[1:]
