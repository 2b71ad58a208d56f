"""Scenarios on real brokers: the harm is there for everybody to see, and no broker outlives a run."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from holdfast.lab.kafka_broker import START_SECONDS_MAX

RUN_SECONDS_MAX = 400


def lab(version: str, *words: str) -> list[str]:
    """The command line of a run."""
    program = [sys.executable, "-W", "ignore", "-m", "holdfast", "lab", "run", *words]
    return [*program, "--engine", "kafka", "--kafka-version", version]


def children(pid: int) -> list[int]:
    """The processes that a process has started and that still run."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in found.split()]


@pytest.mark.timeout(RUN_SECONDS_MAX)
def test_a_run_that_is_interrupted_leaves_no_broker(pytestconfig: pytest.Config) -> None:
    """^C while brokers start: exit code 130, and every process is gone."""
    version = pytestconfig.getoption("kafka")
    with subprocess.Popen(lab(version, "tombstone"), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        deadline = time.monotonic() + START_SECONDS_MAX
        while len(started := children(run.pid)) < 3:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=START_SECONDS_MAX)
    assert (run.returncode, out) == (130, b"")
    assert b"Traceback" not in err
    for pid in started:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.timeout(RUN_SECONDS_MAX)
def test_a_delete_is_undone_on_real_brokers(pytestconfig: pytest.Config) -> None:
    """Exit code 1, the variant's name, and the account in the form that other engines give."""
    version = pytestconfig.getoption("kafka")
    run = subprocess.run(
        [*lab(version, "tombstone"), "--json"], capture_output=True, check=False, timeout=RUN_SECONDS_MAX
    )
    told = json.loads(run.stdout)
    assert (run.returncode, told["variant"], told["engine"]) == (1, "tombstone", "kafka")
    assert {each["id"]: each["read_committed"] for each in told["replicas"]} == {1: {}, 2: {}, 3: {"K": "V"}}
    assert told["evidence"] == [
        {"replica": 3, "variant": "tombstone", "what": "K reads V, but was deleted at offset 1"}
    ]
    assert told["removed"] == {"tombstones": 2, "outcomes": 0}
