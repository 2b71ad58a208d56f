"""Parts of a pipeline as the processes that users run."""

import subprocess
import sys
import time
from collections.abc import Callable

from holdfast.pipelines.config import Pipeline
from holdfast.pipelines.state import PartFiles, PartState, QueryState
from tests.spark.streams import SHORT_LIVED

START_S_MAX = 1000.0
POLL_S = 0.02


def start(pipeline: Pipeline, part: str) -> "subprocess.Popen[bytes]":
    """`holdfast pipeline run FILE --only PART`."""
    options = [word for name, value in SHORT_LIVED.items() for word in ("--conf", f"{name}={value}")]
    words = ["pipeline", "run", str(pipeline.path), "--only", part, "--master", "local[1]", *options]
    with (pipeline.path.parent / f"{part}.log").open("wb") as log:
        return subprocess.Popen([sys.executable, "-m", "holdfast", *words], stderr=log, stdout=log)


def wait_for(
    pipeline: Pipeline,
    part: str,
    process: "subprocess.Popen[bytes]",
    is_there: Callable[[QueryState], bool],
) -> PartState:
    """Until the part tells that its query has come so far."""
    files = PartFiles(pipeline.checkpoint, part)
    deadline = time.monotonic() + START_S_MAX
    log = pipeline.path.parent / f"{part}.log"
    while True:
        state = files.read()
        if state is not None and state.pid == process.pid and state.queries and is_there(state.queries[0]):
            return state
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(POLL_S)
