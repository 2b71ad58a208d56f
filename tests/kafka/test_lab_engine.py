"""A run on real brokers that is interrupted leaves nothing behind; what runs show is in test_doctor.py."""

import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast.lab.kafka_broker import START_SECONDS_MAX

RUN_SECONDS_MAX = 400


def lab(version: str, *words: str) -> list[str]:
    """The command line of a run."""
    program = [sys.executable, "-W", "ignore", "-m", "holdfast", "lab", "run", *words]
    return [*program, "--engine", "kafka", "--kafka-version", version]


def children(pid: int, program: str) -> list[int]:
    """The processes of a program that a process has started and that still run."""
    words = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(word) for word in words if program in Path(f"/proc/{word}/cmdline").read_text()]


@pytest.mark.timeout(RUN_SECONDS_MAX)
@pytest.mark.parametrize("program", ["kafka.tools.StorageTool", "kafka.Kafka"])
def test_a_run_that_is_interrupted_leaves_no_broker(program: str, pytestconfig: pytest.Config) -> None:
    """^C as soon as the last process of a kind was started: exit code 130, and every one is gone."""
    version = pytestconfig.getoption("kafka")
    with subprocess.Popen(lab(version, "tombstone"), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        deadline = time.monotonic() + START_SECONDS_MAX
        started: list[int] = []
        while len(started) < 3:
            assert time.monotonic() < deadline
            time.sleep(0.02)
            with suppress(FileNotFoundError):  # one that has just ended
                started = children(run.pid, program)
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=START_SECONDS_MAX)
    assert (run.returncode, out) == (130, b"")
    assert b"Traceback" not in err
    for pid in started:
        with suppress(FileNotFoundError):
            # Nobody may have waited for it yet, but it runs no more.
            assert Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
