"""What a running part leaves for others: its lock, its state, and how it is asked to leave."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.errors import PipelineRefused
from holdfast.pipelines.state import PartFiles, PartState, QueryState
from holdfast.pipelines.status import PartStatus

STATE = PartState(
    pid=os.getpid(),
    started_ms=1,
    updated_ms=2,
    phase="running",
    spark_ui="http://127.0.0.1:4040",
    queries=(QueryState(name="service", topic="in", group="g", batch_id=3, rows=7, positions={"0": 7}),),
)

HOLDER = """
import sys
from pathlib import Path
from holdfast.pipelines.state import PartFiles
with PartFiles(Path(sys.argv[1]), "service").hold():
    print("held", flush=True)
    sys.stdin.read()
"""


def test_state_and_stop(tmp_path: Path) -> None:
    """Written whole, read again; a stop is seen by who runs, and not by who comes after."""
    files = PartFiles(tmp_path / "checkpoint", "service")
    assert files.read() is None
    assert not files.is_running()
    with files.hold():
        assert files.is_running()
        files.write(STATE)
        assert not files.was_asked_to_stop()
        files.ask_to_stop()
        assert files.was_asked_to_stop()
    assert not files.is_running()
    assert files.read() == STATE
    with files.hold():
        assert not files.was_asked_to_stop()
    (tmp_path / "checkpoint" / "service.json").write_text('{"format": 2}')
    with pytest.raises(PipelineRefused, match="another version"):
        files.read()


def test_one_at_a_time_and_killed(tmp_path: Path) -> None:
    """A second one is refused with the first one's process id; one that was killed holds nothing."""
    files = PartFiles(tmp_path, "service")
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        assert files.is_running()
        files.write(STATE)
        with pytest.raises(PipelineRefused, match=f"running already as process {STATE.pid}"), files.hold():
            pass
        other.kill()
        other.wait()
        assert not files.is_running()
        status = PartStatus(part="service", is_running=files.is_running(), state=files.read(), lags=())
        assert status.phase == "killed"
        with files.hold():
            pass
