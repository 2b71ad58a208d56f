"""Which failures of a query pass, and for how long they are borne with."""

import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from pyspark.errors import StreamingQueryException

from holdfast.client.endpoint import Endpoint
from holdfast.errors import PipelineRefused
from holdfast.pipelines.loading import load_pipeline
from holdfast.pipelines.outage import ALONE_S_MAX, OUTAGE_S_MAX, Outage, passing
from holdfast.pipelines.queries import RunningQuery
from holdfast.pipelines.run import Run, RunOptions
from holdfast.pipelines.state import QueryState
from holdfast.pipelines.status import SERVICE
from tests.spark.failed import read_failure

EXAMPLE = Path(__file__).parents[2] / "examples" / "compliance"


def text(last: str) -> str:
    """What Spark says of a query whose traceback ends with that line: behind it come offsets, state and plan."""
    return read_failure("transform").replace("KeyError: 'column'", last)


@pytest.mark.parametrize(
    ("last", "passes"),
    [
        ("holdfast.errors.ConnectionFailed: option bootstrap: 127.0.0.1:1 cannot be reached", True),
        ("holdfast.errors.NotLeaderOrFollower: producing to a-0: it has moved", True),
        ("holdfast.errors.OffsetOutOfRange: what was to be read is gone", False),
        ("holdfast.errors.UsageError: the transform gives back no column", False),
        ("ZeroDivisionError: division by zero", False),
    ],
)
def test_what_passes(last: str, passes: bool) -> None:
    """What may be tried again, by the error of ours that the trace ends with."""
    assert (passing(StreamingQueryException(text(last))) is not None) is passes
    assert passing(None) is None


def test_borne_with_for_some_time() -> None:
    """Counted from the last time that all was well, or from the beginning."""
    now = [0.0]
    outage = Outage(clock=lambda: now[0])
    for now_s, may_pass in (
        (1.0, True),
        (ALONE_S_MAX, True),
        (OUTAGE_S_MAX - 1, True),
        (OUTAGE_S_MAX, False),
    ):
        now[0] = now_s
        assert outage.may_pass(was_well=False) is may_pass
        outage.start_again()
    assert outage.may_pass(was_well=True)
    now[0] += OUTAGE_S_MAX - 1
    outage.start_again()
    assert outage.may_pass(was_well=False)


def test_a_batch_that_takes_longer_than_an_outage_may() -> None:
    """Who lives that long has reached somebody, though the first batch since the last outage is not done yet."""
    now = [0.0]
    outage = Outage(clock=lambda: now[0])
    assert outage.may_pass(was_well=True)
    outage.start_again()
    now[0] = OUTAGE_S_MAX + 60
    assert outage.may_pass(was_well=False)


def test_second_outage_of_an_idle_query() -> None:
    """A night without a batch between two restarts of the log is no outage."""
    now = [0.0]
    outage = Outage(clock=lambda: now[0])
    assert outage.may_pass(was_well=True)
    now[0] = 8 * 3600.0
    assert outage.may_pass(was_well=True)


class MortalQuery:
    """Stands in for a query: it has ended of what it is told to, until it is started again."""

    name = SERVICE

    def __init__(self, *lives: str | None) -> None:
        self.lives = list(lives)
        self.was_well = True
        self.starts = 0
        self.is_in_a_batch = False

    @property
    def is_active(self) -> bool:
        """Only the last life goes on, until it is stopped."""
        return bool(self.lives) and self.lives[0] is None

    def failure(self) -> StreamingQueryException | None:
        """What this life ended of."""
        told = self.lives[0] if self.lives else None
        return None if told is None else StreamingQueryException(text(told))

    def start_again_if_python_was_slow(self) -> bool:
        """It never is."""
        return False

    def start_again(self) -> None:
        """The next life."""
        self.starts += 1
        del self.lives[0]

    def look(self) -> QueryState:
        """Nothing was done."""
        return QueryState(name="service", topic="in", group="g")

    def stop(self) -> None:
        """It ends well."""
        self.lives = []


AWAY = "holdfast.errors.ConnectionFailed: 127.0.0.1:1 cannot be reached"
WRONG = "holdfast.errors.UsageError: the transform gives back no column"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """One that waits for nothing between two starts, and tells no group."""
    monkeypatch.setattr("holdfast.pipelines.run.AGAIN_S", 0.0)
    shutil.copytree(EXAMPLE, tmp_path / "compliance")
    pipeline = load_pipeline(tmp_path / "compliance" / "pipeline.yaml")
    pipeline = replace(pipeline, endpoint=Endpoint("127.0.0.1:1"))
    run = Run(pipeline, "service", RunOptions(), on_state=lambda state: None)
    with run._files.hold():
        yield run


def test_a_query_is_started_again_until_the_log_is_back(run: Run) -> None:
    """Each life that ends of an outage is followed by another; one that ends of something else is told."""
    query = MortalQuery(AWAY, AWAY, WRONG)
    with pytest.raises(PipelineRefused, match="no column"):
        run._watch([cast("RunningQuery", query)], [])
    assert query.starts == 2


@pytest.mark.parametrize("how", ["signal", "file"])
def test_who_stops_it_during_an_outage_hears_of_no_failure(run: Run, how: str) -> None:
    """The query has just ended of the outage: it is not started again, and what it ended of passes."""
    if how == "signal":
        run._on_signal(signal.SIGTERM, None)
    else:
        run._files.ask_to_stop()
    query = MortalQuery(AWAY, None)
    run._watch([cast("RunningQuery", query)], [])
    assert query.starts == 0
    with pytest.raises(PipelineRefused, match="no column"):
        run._watch([cast("RunningQuery", MortalQuery(WRONG))], [])


@pytest.mark.parametrize(
    ("last", "told"),
    [
        (WRONG, "the query ended: the transform gives back no column"),
        ("KeyError: 'amount'", "the query ended: KeyError: 'amount' (checks.py:26, in deeper)"),
    ],
)
def test_what_a_query_has_ended_of_is_one_line(run: Run, last: str, told: str) -> None:
    """The error itself and its place, not what Spark adds; all of that is kept in a file."""
    with pytest.raises(PipelineRefused) as caught:
        run._watch([cast("RunningQuery", MortalQuery(last))], [])
    assert str(caught.value) == told
    trace = (run._pipeline.checkpoint / "service.trace").read_text()
    assert trace.startswith("An exception was raised by the Python Proxy.")
    assert last in trace
