"""Is a log what its clients were told? Pure functions from histories to violations, each named by its rule."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from soak.history import LogRecord, PositionHistory, ProducerHistory, ReaderHistory, Violation

LOST = "lost"
MOVED = "moved"
TWICE = "twice"
REORDERED = "reordered"
REFUSED = "refused"
UNSENT = "unsent"
HOLE = "hole"
UNSTABLE = "unstable"
REPLICAS = "replicas"
POSITION = "position"

NO_POSITION = -1
SHOWN_BYTES = 18

EXPECTED_FAILURES = frozenset({"_TRANSPORT", "_MSG_TIMED_OUT", "_TIMED_OUT"})
"""What a crash may tell a producer that sends everything once: the connection broke, or stayed away too long."""


def check_producer(history: ProducerHistory, log: Sequence[LogRecord]) -> Iterator[Violation]:
    """Acknowledged: there once, at its offset. Not acknowledged: at most once. All in the order of sending."""
    order = {value: number for number, value in enumerate(history.sent)}
    assert len(order) == len(history.sent), "a workload must send every value once"
    found: dict[bytes, list[int]] = defaultdict(list)
    for record in log:
        if record.value in order:
            found[record.value].append(record.offset)
    for value in history.sent:
        offsets = found.get(value, [])
        said = history.acknowledged.get(value)
        if said is not None and not offsets:
            yield _of(history, LOST, f"{_shown(value)} was acknowledged at offset {said} and is not there")
        elif said is not None and said not in offsets:
            yield _of(
                history, MOVED, f"{_shown(value)} was acknowledged at offset {said} and lies at {offsets[0]}"
            )
        if len(offsets) > 1:
            yield _of(history, TWICE, f"{_shown(value)} lies at offsets {offsets}")
    yield from _check_order(history, order, found)
    yield from _check_failures(history)


def _check_order(
    history: ProducerHistory, order: Mapping[bytes, int], found: Mapping[bytes, list[int]]
) -> Iterator[Violation]:
    # A repeat is reported as such, and not as a record in the wrong place too.
    in_log = sorted((offsets[0], value) for value, offsets in found.items())
    for (_, before), (offset, after) in pairwise(in_log):
        if order[after] < order[before]:
            yield _of(
                history,
                REORDERED,
                f"{_shown(after)} was sent before {_shown(before)} and comes after it, at offset {offset}",
            )


def _check_failures(history: ProducerHistory) -> Iterator[Violation]:
    expected = frozenset() if history.is_idempotent else EXPECTED_FAILURES
    for value, error in history.failed.items():
        if error not in expected:
            yield _of(history, REFUSED, f"{_shown(value)} was answered with {error}")


def check_sent(histories: Sequence[ProducerHistory], log: Sequence[LogRecord]) -> Iterator[Violation]:
    """A partition holds what was sent to it and nothing else."""
    sent = {value for history in histories for value in history.sent}
    for record in log:
        if record.value not in sent:
            yield Violation(UNSENT, f"nobody sent {_shown(record.value)}, found at offset {record.offset}")


def check_offsets(log: Sequence[LogRecord]) -> Iterator[Violation]:
    """Offsets begin at 0 and go up by one: nothing was deleted here."""
    for expected, record in enumerate(log):
        if record.offset != expected:
            yield Violation(HOLE, f"offset {record.offset} where {expected} is next")
            return


def check_reader(history: ReaderHistory, log: Sequence[LogRecord]) -> Iterator[Violation]:
    """What was read once stays what it is, and a reader passes over nothing and reads nothing twice."""
    where = f"a reader of partition {history.partition}"
    by_offset = {record.offset: record.value for record in log}
    for expected, record in enumerate(history.seen):
        if record.offset != expected:
            yield Violation(HOLE, f"{where} was given offset {record.offset} where {expected} is next")
            return
    for offset, value in history.seen:
        if by_offset.get(offset) != value:
            now = _shown(by_offset[offset]) if offset in by_offset else "nothing"
            yield Violation(UNSTABLE, f"{where} saw {_shown(value)} at offset {offset}; now there is {now}")


def check_replicas(logs: Mapping[int, Sequence[LogRecord]], partition: int) -> Iterator[Violation]:
    """Every replica (by node) holds the same records at the same offsets."""
    (first, log), *others = logs.items()
    for node, other in others:
        if list(other) != list(log):
            at = next((n for n, (a, b) in enumerate(zip(log, other, strict=False)) if a != b), None)
            at = min(len(log), len(other)) if at is None else at
            yield Violation(
                REPLICAS, f"nodes {first} and {node} differ in partition {partition} from {at} on"
            )


def check_positions(history: PositionHistory) -> Iterator[Violation]:
    """A position read is the last one acknowledged, or one sent since that may have happened; reads settle it."""
    possible = {NO_POSITION}
    for kind, offset in history.events:
        if kind == "sent":
            possible.add(offset)
            continue
        if kind == "found" and offset not in possible:
            expected = " or ".join(map(str, sorted(possible)))
            yield Violation(
                POSITION,
                f"group {history.group} is at {offset} in partition {history.partition}, not at {expected}",
            )
        possible = {offset}


def _of(history: ProducerHistory, rule: str, what: str) -> Violation:
    return Violation(rule, f"{what} (partition {history.partition}, producer {history.name})")


def _shown(value: bytes) -> str:
    return repr(value[:SHOWN_BYTES])[1:]
