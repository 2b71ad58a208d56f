"""Which failures of a query pass, and for how long they are borne with."""

import pytest
from pyspark.errors import StreamingQueryException

from holdfast.pipelines.outage import OUTAGE_S_MAX, Outage, passing

TRACE = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception:
Traceback (most recent call last):
  File "reader.py", line 1, in latestOffset
{}
"""


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
    assert (passing(StreamingQueryException(TRACE.format(last))) is not None) is passes
    assert passing(None) is None


def test_borne_with_for_some_time() -> None:
    """Counted from the last time that all was well; who never was is not borne with at all."""
    now = [0.0]
    outage = Outage(clock=lambda: now[0])
    assert not outage.may_pass(was_well=False)
    assert outage.may_pass(was_well=True)
    now[0] = OUTAGE_S_MAX - 1
    assert outage.may_pass(was_well=False)
    now[0] = OUTAGE_S_MAX
    assert not outage.may_pass(was_well=False)


def test_second_outage_of_an_idle_query() -> None:
    """A night without a batch between two restarts of the log is no outage."""
    now = [0.0]
    outage = Outage(clock=lambda: now[0])
    assert outage.may_pass(was_well=True)
    now[0] = 8 * 3600.0
    assert outage.may_pass(was_well=True)
