"""What is seen once may be lag: a finding is what is still there when nobody can be behind any more."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from holdfast.doctor.examine import Examination, Examiner
from holdfast.doctor.source import Answer, Position
from holdfast.errors import ConnectionFailed
from holdfast.rules.entry import Entry
from tests.doctor.model_source import PLACE, batch_of

VALUE = Entry(offset=0, key="k", value="v")
FILLER = Entry(offset=9, key="filler", value="1")
DELETE = Entry(offset=4, key="k", value=None)

Item = TypeVar("Item")

GONE = (FILLER,)
STALE = (VALUE, FILLER)
WHOLE = (VALUE, DELETE, FILLER)


@dataclass
class Scripted:
    """A replica whose answers are written down, one for each time that it is asked; the last one stays."""

    name: int
    logs: list[tuple[Entry, ...]]
    opens: list[dict[int, int]] = field(default_factory=lambda: [{}])
    high_watermarks: list[int] = field(default_factory=lambda: [10])
    log_end: int = 10
    fails: bool = False

    def find_position(self) -> Position:
        if self.fails:
            raise ConnectionFailed("nobody answers")
        return Position(log_start=0, high_watermark=_next(self.high_watermarks), log_end=self.log_end)

    def read(self, start: int) -> Iterator[Answer]:
        log = _next(self.logs)
        yield Answer(batches=tuple(batch_of(entry) for entry in log), aborted=(), stable=10)
        yield Answer(batches=(), aborted=(), stable=10)

    def list_open(self) -> dict[int, int]:
        return _next(self.opens)


def _next(answers: list[Item]) -> Item:
    return answers.pop(0) if len(answers) > 1 else answers[0]


def examine(*sources: Scripted, coordinated: frozenset[int] = frozenset()) -> tuple[Examination, float]:
    """The examination, and how long it waited."""
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    examiner = Examiner(
        PLACE,
        sources,
        list_coordinated=lambda: coordinated,
        wait_s_max=5.0,
        clock=lambda: now[0],
        sleep=sleep,
    )
    return examiner.examine(), now[0]


def test_what_is_there_twice_is_found() -> None:
    """A value that outlived its delete."""
    examined, waited_s = examine(Scripted(1, [GONE]), Scripted(3, [STALE]))
    (finding,) = examined.findings
    assert (finding.replica, finding.variant, finding.key, finding.offsets) == (3, "tombstone", b"k", (0,))
    assert finding.what == 'key "k" reads "v" (offset 0), but is deleted on replica 1'
    assert waited_s == 0.0


def test_what_is_gone_at_the_second_look_was_lag() -> None:
    """The delete comes between the looks, or the cleaner swapped a segment under the first one."""
    assert examine(Scripted(1, [GONE]), Scripted(3, [STALE, WHOLE]))[0].findings == []
    assert examine(Scripted(1, [GONE]), Scripted(3, [STALE, GONE]))[0].findings == []


def test_what_is_new_at_the_second_look_is_not_believed() -> None:
    """It has been seen once."""
    other = (Entry(offset=1, key="other", value="1"), *STALE)
    examined, _ = examine(Scripted(1, [GONE]), Scripted(3, [STALE, other]))
    assert [finding.key for finding in examined.findings] == [b"k"]


def test_the_second_look_waits_for_the_high_watermark() -> None:
    """Everybody has to pass the highest log end; who does in time is compared."""
    slow = Scripted(3, [STALE], high_watermarks=[10, 10, 10, 10, 2, 2, 2, 10])
    examined, waited_s = examine(Scripted(1, [GONE]), slow)
    assert [finding.replica for finding in examined.findings] == [3]
    assert waited_s > 0


def test_who_stays_behind_is_left_out() -> None:
    """However different it looks; the others are compared."""
    behind = Scripted(3, [STALE], high_watermarks=[7])
    examined, waited_s = examine(Scripted(1, [GONE]), Scripted(2, [GONE]), behind)
    assert (examined.findings, examined.replicas) == ([], [1, 2])
    (missed,) = examined.not_examined
    assert (missed.replica, missed.why) == (3, "it is 3 offsets behind: look again when it has caught up")
    assert waited_s >= 5.0


def test_who_cannot_be_reached_is_named() -> None:
    """And is no reason not to compare the others."""
    examined, _ = examine(Scripted(1, [GONE]), Scripted(2, [GONE], fails=True), Scripted(3, [STALE]))
    assert [(missed.replica, missed.why) for missed in examined.not_examined] == [(2, "nobody answers")]
    assert [finding.replica for finding in examined.findings] == [3]


def test_a_transaction_counts_if_it_is_open_twice() -> None:
    """The same one, on the same replica; one that a coordinator knows is in progress."""
    stuck = Scripted(3, [GONE], opens=[{7: 4}])
    (finding,) = examine(Scripted(1, [GONE]), stuck)[0].findings
    assert (finding.variant, finding.replica, finding.producer_id, finding.offsets) == ("stuck", 3, 7, (4,))
    assert examine(Scripted(1, [GONE]), Scripted(3, [GONE], opens=[{7: 4}, {}]))[0].findings == []
    assert examine(Scripted(1, [GONE]), Scripted(3, [GONE], opens=[{7: 4}, {7: 8}]))[0].findings == []
    assert examine(Scripted(1, [GONE]), stuck, coordinated=frozenset({7}))[0].findings == []
