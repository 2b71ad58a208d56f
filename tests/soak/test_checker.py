"""The checker of histories: what is right passes, and each way of being wrong is called by its name."""

from collections.abc import Iterable, Sequence

import pytest

from soak import checker
from soak.history import LogRecord, PositionEvent, PositionHistory, ProducerHistory, ReaderHistory, Violation

A, B, C, D = b"a", b"b", b"c", b"d"


def log_of(*values: bytes) -> list[LogRecord]:
    return [LogRecord(offset, value) for offset, value in enumerate(values)]


def producer(
    acknowledged: dict[bytes, int],
    *,
    sent: Sequence[bytes] = (A, B, C),
    failed: dict[bytes, str] | None = None,
    is_idempotent: bool = True,
) -> ProducerHistory:
    return ProducerHistory(
        name="p",
        partition=0,
        is_idempotent=is_idempotent,
        sent=list(sent),
        acknowledged=acknowledged,
        failed=failed or {},
    )


def rules(violations: Iterable[Violation]) -> list[str]:
    return [violation.rule for violation in violations]


def test_a_true_history_passes() -> None:
    """All there, once, in order, at their offsets, beside another producer's records."""
    history = producer({A: 0, B: 2, C: 3})
    assert not list(checker.check_producer(history, log_of(A, b"other", B, C)))


@pytest.mark.parametrize("log", [log_of(A, B), log_of(A, B, C)])
def test_what_was_not_acknowledged_may_have_happened(log: list[LogRecord]) -> None:
    """There or not: both are true to a history that does not know."""
    history = producer({A: 0, B: 1}, failed={C: "_TRANSPORT"}, is_idempotent=False)
    assert not list(checker.check_producer(history, log))


def test_a_lost_record_is_named() -> None:
    """Acknowledged, and nowhere."""
    (lost,) = checker.check_producer(producer({A: 0, B: 1, C: 2}), log_of(A, D, C))
    assert lost.rule == checker.LOST
    assert "'b' was acknowledged at offset 1 and is not there" in lost.what


def test_a_record_that_lies_elsewhere_is_named() -> None:
    """There, but not where its producer was told."""
    (violation,) = checker.check_producer(producer({A: 0, B: 1, C: 3}), log_of(A, B, C))
    assert violation.rule == checker.MOVED
    assert "'c' was acknowledged at offset 3 and lies at 2" in violation.what


def test_an_offset_that_two_were_told_is_named() -> None:
    """Whoever is not there was lost."""
    assert rules(checker.check_producer(producer({A: 0, B: 1, C: 1}), log_of(A, C, D))) == [
        checker.LOST,
    ]


@pytest.mark.parametrize("acknowledged", [{A: 0, B: 1, C: 3}, {A: 0, C: 3}])
@pytest.mark.parametrize("is_idempotent", [True, False])
def test_a_duplicate_is_named(acknowledged: dict[bytes, int], *, is_idempotent: bool) -> None:
    """Whether it was acknowledged or not: everything was sent once."""
    failed = {} if B in acknowledged or is_idempotent else {B: "_TRANSPORT"}
    history = producer(acknowledged, failed=failed, is_idempotent=is_idempotent)
    (violation,) = checker.check_producer(history, log_of(A, B, B, C))
    assert violation.rule == checker.TWICE
    assert "'b' lies at offsets [1, 2]" in violation.what


def test_a_reordered_record_is_named() -> None:
    """Sent first and stored second."""
    (violation,) = checker.check_producer(producer({A: 0, B: 2, C: 1}), log_of(A, C, B))
    assert violation.rule == checker.REORDERED
    assert "'b' was sent before 'c' and comes after it, at offset 2" in violation.what


def test_an_idempotent_producer_is_never_refused() -> None:
    """It tries again until the log is back, and whatever it sent is then in sequence."""
    failed = {C: "OUT_OF_ORDER_SEQUENCE_NUMBER"}
    (violation,) = checker.check_producer(producer({A: 0, B: 1}, failed=failed), log_of(A, B))
    assert violation.rule == checker.REFUSED
    assert "'c' was answered with OUT_OF_ORDER_SEQUENCE_NUMBER" in violation.what


def test_a_plain_producer_meets_broken_connections_only() -> None:
    """Any other error is the log's own."""
    failed = {B: "_TRANSPORT", C: "KAFKA_STORAGE_ERROR"}
    found = checker.check_producer(producer({A: 0}, failed=failed, is_idempotent=False), log_of(A))
    assert rules(found) == [checker.REFUSED]


def test_what_nobody_sent_is_named() -> None:
    """Altered bytes look like that too."""
    (violation,) = checker.check_sent([producer({A: 0})], log_of(A, D, B))
    assert violation == (checker.UNSENT, "nobody sent 'd', found at offset 1")


def test_a_hole_in_the_offsets_is_named() -> None:
    """And so is an offset that comes twice."""
    assert not list(checker.check_offsets(log_of(A, B)))
    assert rules(checker.check_offsets([LogRecord(0, A), LogRecord(2, B)])) == [checker.HOLE]
    assert rules(checker.check_offsets([LogRecord(0, A), LogRecord(0, B)])) == [checker.HOLE]


def test_what_a_reader_saw_stays() -> None:
    """A record that was shown and is gone, or is another now, was shown too early."""
    history = ReaderHistory(partition=0, seen=log_of(A, B, C))
    assert not list(checker.check_reader(history, log_of(A, B, C, D)))
    (gone,) = checker.check_reader(history, log_of(A, B))
    assert gone.rule == checker.UNSTABLE
    assert "saw 'c' at offset 2; now there is nothing" in gone.what
    (changed,) = checker.check_reader(history, log_of(A, D, C))
    assert "saw 'b' at offset 1; now there is 'd'" in changed.what


def test_a_reader_passes_over_nothing() -> None:
    """Nor does it go back by itself."""
    for seen in ([LogRecord(0, A), LogRecord(2, C)], [LogRecord(0, A), LogRecord(0, A)]):
        found = checker.check_reader(ReaderHistory(partition=0, seen=seen), log_of(A, B, C))
        assert rules(found) == [checker.HOLE]


def test_replicas_that_differ_are_named() -> None:
    """By the first offset that differs, or the end of the shorter one."""
    assert not list(checker.check_replicas({1: log_of(A, B), 2: log_of(A, B)}, 0))
    (violation,) = checker.check_replicas({1: log_of(A, B), 2: log_of(A, C), 3: log_of(A, B)}, 0)
    assert violation == (checker.REPLICAS, "nodes 1 and 2 differ in partition 0 from 1 on")
    (violation,) = checker.check_replicas({1: log_of(A, B), 3: log_of(A)}, 7)
    assert violation.what == "nodes 1 and 3 differ in partition 7 from 1 on"


def positions(*events: str) -> PositionHistory:
    kinds = {"?": "sent", "!": "acknowledged", "=": "found"}
    return PositionHistory(
        group="g",
        partition=0,
        events=[PositionEvent(kinds[event[0]], int(event[1:])) for event in events],  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    "events",
    [
        ("=-1",),
        ("?0", "!0", "=0"),
        ("?0", "!0", "?1", "=0", "?2", "!2", "=2"),
        ("?0", "!0", "?1", "=1", "=1"),
        ("?0", "?1", "=0"),
    ],
)
def test_positions_that_may_be(events: tuple[str, ...]) -> None:
    """The last acknowledged, or one sent since."""
    assert not list(checker.check_positions(positions(*events)))


@pytest.mark.parametrize(
    ("events", "what"),
    [
        (("?0", "!0", "?1", "!1", "=0"), "is at 0 in partition 0, not at 1"),
        (("?0", "!0", "=-1"), "is at -1 in partition 0, not at 0"),
        (("?0", "!0", "?1", "=0", "=1"), "is at 1 in partition 0, not at 0"),
        (("?0", "!0", "?1", "=7"), "is at 7 in partition 0, not at 0 or 1"),
    ],
    ids=["went-back", "forgotten", "came-later", "from-nowhere"],
)
def test_positions_that_cannot_be(events: tuple[str, ...], what: str) -> None:
    """Each is named with what was possible."""
    (violation,) = checker.check_positions(positions(*events))
    assert violation.rule == checker.POSITION
    assert what in violation.what
