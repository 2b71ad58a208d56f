"""The checker of transactions: what is right passes, and each anomaly is called by its name."""

from collections.abc import Iterable

import pytest

from soak import checker, txn_checker
from soak.history import LogRecord, Violation
from soak.txn_history import Answer, CommittedReader, Place, Sighting, Transaction, Write

LEFT, RIGHT = Place("left", 0), Place("right", 0)
COMMIT_NS = 1_000


def transaction(
    name: str,
    answer: Answer | None = Answer.COMMITTED,
    *,
    commit_sent_ns: int | None = COMMIT_NS,
    places: tuple[Place, ...] = (LEFT, RIGHT),
) -> Transaction:
    writes = [Write(place, f"{name}{number}".encode()) for number, place in enumerate(places)]
    return Transaction(name=name, writes=writes, commit_sent_ns=commit_sent_ns, answer=answer)


def logs(left: str = "", right: str = "") -> dict[Place, list[LogRecord]]:
    """Values by offset; a dash stands for an offset that shows nothing."""
    return {
        place: [
            LogRecord(offset, value.encode()) for offset, value in enumerate(values.split()) if value != "-"
        ]
        for place, values in ((LEFT, left), (RIGHT, right))
    }


def reader(*seen: tuple[int, str], at_ns: int = COMMIT_NS + 1) -> CommittedReader:
    return CommittedReader(
        name="r", seen=[Sighting(LEFT, offset, value.encode(), at_ns) for offset, value in seen]
    )


def rules(violations: Iterable[Violation]) -> list[str]:
    return [violation.rule for violation in violations]


A, B = transaction("a"), transaction("b")
ABORTED = transaction("x", Answer.ABORTED, commit_sent_ns=None)
ABANDONED = transaction("x", None, commit_sent_ns=None)
IN_DOUBT = transaction("x", None)


def test_a_true_history_passes() -> None:
    """Committed ones interleaved, an aborted one between them, and a reader that saw it all."""
    log = logs("a0 - b0", "b1 a1")
    assert not list(txn_checker.check_transactions([A, ABORTED, B], log))
    assert not list(txn_checker.check_reader(reader((0, "a0"), (2, "b0")), [A, ABORTED, B], log))


@pytest.mark.parametrize("log", [logs("a0", "a1"), logs("a0 x0", "a1 x1")])
def test_a_commit_without_an_answer_may_have_happened(log: dict[Place, list[LogRecord]]) -> None:
    """Whole or not at all: both are true to a history that does not know."""
    assert not list(txn_checker.check_transactions([A, IN_DOUBT], log))


@pytest.mark.parametrize("hidden", [ABORTED, ABANDONED], ids=["aborted", "abandoned"])
def test_an_aborted_read_is_named(hidden: Transaction) -> None:
    """In the log that is left, and by a reader on the way."""
    found = txn_checker.check_transactions([A, hidden], logs("a0 x0", "a1 x1"))
    assert rules(found) == [txn_checker.ABORTED_READ] * 2
    found = txn_checker.check_reader(reader((0, "a0"), (1, "x0")), [A, hidden], logs("a0", "a1"))
    assert rules(found) == [txn_checker.ABORTED_READ, checker.UNSTABLE]


def test_an_abort_after_a_commit_counts() -> None:
    """Told that it was aborted, a producer does it all again."""
    told = transaction("x", Answer.ABORTED)
    found = txn_checker.check_transactions([told], logs("x0", "x1"))
    assert rules(found) == [txn_checker.ABORTED_READ] * 2


def test_a_lost_write_is_named() -> None:
    """Committed, and nowhere."""
    found = list(txn_checker.check_transactions([A, B], logs("b0", "b1")))
    assert rules(found) == [txn_checker.LOST_WRITE] * 2
    assert "'a0' of a, committed, is not in left-0" in found[0].what


def test_a_duplicate_is_named() -> None:
    """In the log, and to a reader."""
    (twice,) = txn_checker.check_transactions([A], logs("a0 a0", "a1"))
    assert twice == (txn_checker.DUPLICATE, "'a0' lies at offsets [0, 1] of left-0")
    found = txn_checker.check_reader(reader((0, "a0"), (1, "a0")), [A], logs("a0 a0", "a1"))
    assert rules(found) == [txn_checker.DUPLICATE]


def test_a_non_monotonic_poll_is_named() -> None:
    """A reader that is taken back."""
    log = logs("a0 b0", "a1 b1")
    found = txn_checker.check_reader(reader((1, "b0"), (0, "a0")), [A, B], log)
    assert rules(found) == [txn_checker.NON_MONOTONIC_POLL]


def test_a_torn_transaction_is_named() -> None:
    """Half of it, whether its producer knows that it committed or not."""
    (torn,) = txn_checker.check_transactions([IN_DOUBT], logs("x0", ""))
    assert torn == (txn_checker.TORN, "of x 1 of 2 records are seen, 'x1' is not")
    found = txn_checker.check_transactions([A], logs("", "a1"))
    assert rules(found) == [txn_checker.LOST_WRITE, txn_checker.TORN]


def test_a_precommitted_read_is_named() -> None:
    """Seen before its producer had asked for the commit, which then came."""
    early = reader((0, "a0"), at_ns=COMMIT_NS - 1)
    (violation,) = txn_checker.check_reader(early, [A], logs("a0", "a1"))
    assert violation.rule == txn_checker.PRECOMMITTED_READ
    on_time = reader((0, "a0"), at_ns=COMMIT_NS)
    assert not list(txn_checker.check_reader(on_time, [A], logs("a0", "a1")))


def test_a_record_that_a_reader_passed_over_is_named() -> None:
    """It went on while a transaction was open below, which then committed."""
    (violation,) = txn_checker.check_reader(reader((1, "b0")), [A, B], logs("a0 b0", "b1 a1"))
    assert violation == (txn_checker.SKIPPED, "r passed over 'a0' at offset 0 of left-0")


def test_what_a_reader_saw_stays() -> None:
    """Another record, or none, where one was shown."""
    (violation,) = txn_checker.check_reader(reader((0, "a0")), [A, B], logs("b0 a0", "b1 a1"))
    assert violation.rule == checker.UNSTABLE


def test_order_within_a_transaction() -> None:
    """Records of one transaction in one partition come as they were sent."""
    pair = transaction("a", places=(LEFT, LEFT))
    assert not list(txn_checker.check_transactions([pair], logs("a0 a1")))
    assert rules(txn_checker.check_transactions([pair], logs("a1 a0"))) == [checker.REORDERED]


def test_what_nobody_sent_is_named() -> None:
    """In a partition that it was not sent to, too."""
    found = txn_checker.check_transactions([A], logs("a0 z0", "a1 a0"))
    assert rules(found) == [checker.UNSENT] * 2
    found = txn_checker.check_reader(reader((0, "z0")), [A], logs("z0"))
    assert rules(found) == [checker.UNSENT]
