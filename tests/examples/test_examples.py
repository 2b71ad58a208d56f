"""The examples run to their ends, with small counts, and find what they promise."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECONDS_MAX = 100.0


@pytest.mark.parametrize(
    ("module", "option", "told"),
    [
        (
            "examples.exactly_once",
            "--records",
            [
                "t1 holds 2,000 records",
                "worker-1 is killed in the middle of a transaction; another one takes its place",
                "t2 holds 1,000 and t3 1,000 committed records",
                "input and output match: every record is there once",
            ],
        ),
        (
            "examples.clicks_per_hour",
            "--clicks",
            [
                "2,000 clicks of 20 users",
                "the counter is killed in its transaction number 2",
                "the counter is killed in its transaction number 3",
                "counts and clicks match: every click is counted once",
            ],
        ),
    ],
)
def test_exactly_once(module: str, option: str, told: list[str]) -> None:
    """Workers are killed on the way, and the output is right all the same."""
    result = subprocess.run(
        [sys.executable, "-m", module, option, "2000"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert [line for line in lines if line in told] == told


def test_too_few() -> None:
    """With so few records that nobody would be killed in time, there is nothing to show."""
    words = [sys.executable, "-m", "examples.exactly_once", "--records", "10"]
    result = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert result.returncode == 2
    assert "at least 2000" in result.stderr


def test_outage() -> None:
    """The delete is held while the replica is away, and cleaned up when it is back; under Kafka's rules it is lost."""
    result = subprocess.run(
        [sys.executable, "-m", "examples.outage"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    told = [
        "three replicas hold two customers",
        "the delete is held",
        "verified, caught up, and is in sync",
        "ada is gone, and so is her delete",
        "replica 3: K reads V, but was deleted",
    ]
    positions = [result.stdout.find(line) for line in told]
    assert -1 not in positions, result.stdout
    assert positions == sorted(positions)
