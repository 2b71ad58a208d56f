"""A Kafka replica's state, rebuilt from its own log: statements R1 to R11."""

from typing import Any

import pytest

from holdfast.errors import InvalidTxnState
from holdfast.rules.entry import Entry, Isolation
from holdfast.rules.kafka_transactions import KafkaTransactions
from holdfast.rules.transaction import Outcome


def replay(*entries: Entry) -> KafkaTransactions:
    transactions = KafkaTransactions()
    for entry in entries:
        transactions.append(entry)
    return transactions


def committed(transactions: KafkaTransactions, log: Any) -> list[str]:
    read = transactions.visible(log.entries, end=log.next_offset, isolation=Isolation.READ_COMMITTED)
    return [f"{entry.key}={entry.value}" for entry in read]


def test_data_opens_a_transaction_and_a_marker_ends_it(log: Any) -> None:
    """R3, R5, R8: the first batch pins the LSO, the marker releases it once it is replicated."""
    first = log.txn("a", "1")
    transactions = replay(first)
    assert transactions.unstable.first() == first.offset
    transactions.append(log.end(Outcome.COMMITTED))
    assert transactions.unstable.first() == first.offset
    transactions.unstable.replicated_to(log.next_offset)
    assert transactions.unstable.first() is None


@pytest.mark.parametrize("epoch", [0, 1])
def test_data_joins_an_open_transaction_whatever_its_epoch(log: Any, epoch: int) -> None:
    """R3: with the marker lost, the next transaction's COMMIT commits what was aborted (V2), TV1 and TV2."""
    lost_abort = log.txn("poison", "x")
    log.next_offset = 5
    good = log.txn("good", "y", epoch=epoch)
    transactions = replay(lost_abort, good, log.end(Outcome.COMMITTED, epoch=epoch))
    transactions.unstable.replicated_to(log.next_offset)
    assert transactions.unstable.first() is None
    assert committed(transactions, log) == ["poison=x", "good=y"]


def test_an_abort_reaches_back_to_the_first_open_batch(log: Any) -> None:
    """R5, R7: with a COMMIT lost, the next ABORT lists the committed data as aborted (V3)."""
    lost_commit = log.txn("K", None)
    log.next_offset = 5
    transactions = replay(lost_commit, log.txn("junk", "z"), log.end(Outcome.ABORTED))
    assert [(a.first_offset, a.last_offset) for a in transactions.aborted] == [(0, 6)]
    assert transactions.hides(lost_commit)


def test_an_empty_control_batch_says_nothing(log: Any) -> None:
    """R6: the remnant of a marker neither ends a transaction nor touches the producer's epoch."""
    data = log.txn("a", "1")
    marker = log.end(Outcome.COMMITTED, epoch=1)
    transactions = replay(data, log.empty(marker))
    assert transactions.unstable.first() == data.offset
    assert transactions.producers[7].epoch == 0


def test_an_empty_data_batch_still_opens_a_transaction(log: Any) -> None:
    """R3: the header alone is enough."""
    data = log.txn("a", "1")
    assert replay(log.empty(data)).unstable.first() == data.offset


def test_a_plain_batch_inside_a_transaction_is_refused(log: Any) -> None:
    """R4: the follower's append fails."""
    transactions = replay(log.txn("a", "1"))
    with pytest.raises(InvalidTxnState):
        transactions.append(log.data("b", "2", producer_id=7, producer_epoch=0))


def test_a_new_epoch_clears_the_newest_data_batch(log: Any) -> None:
    """R2, R5: under TV2 the marker carries the next epoch, and so becomes the producer's newest batch."""
    data = log.txn("a", "1", epoch=3)
    same_epoch = replay(data, log.end(Outcome.COMMITTED, epoch=3))
    assert same_epoch.is_newest_of_producer(data)
    marker = log.end(Outcome.COMMITTED, epoch=4)
    bumped = replay(data, marker)
    assert not bumped.is_newest_of_producer(data)
    assert bumped.is_newest_of_producer(marker)


def test_an_idle_producer_expires(log: Any) -> None:
    """R9: after producer.id.expiration.ms without a batch the producer is forgotten."""
    transactions = replay(log.txn("a", "1"), log.end(Outcome.COMMITTED))
    transactions.expire(999, 1000)
    assert 7 in transactions.producers
    transactions.expire(1000, 1000)
    assert 7 not in transactions.producers


def test_a_producer_with_an_open_transaction_never_expires(log: Any) -> None:
    """R9: so no expiry releases a stuck LSO (V4), other than the article says."""
    transactions = replay(log.txn("a", "1"))
    transactions.expire(10**12, 1000)
    assert 7 in transactions.producers
    assert transactions.unstable.first() == 0


def test_consumers_skip_what_the_index_lists(log: Any) -> None:
    """R11: aborted data of the right producer is hidden from read_committed and shown to read_uncommitted."""
    transactions = replay(
        log.txn("a", "1", pid=7),
        log.txn("b", "2", pid=8),
        log.end(Outcome.ABORTED, pid=7),
        log.end(Outcome.COMMITTED, pid=8),
        log.txn("c", "3", pid=7),
        log.end(Outcome.COMMITTED, pid=7),
    )
    assert committed(transactions, log) == ["b=2", "c=3"]
    everything = transactions.visible(log.entries, end=6, isolation=Isolation.READ_UNCOMMITTED)
    assert [entry.offset for entry in everything] == [0, 1, 4]
