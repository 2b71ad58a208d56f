"""A server whose keeper works when a test says so, and not before."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.process import HoldfastProcess

KEEPER_SECONDS_MAX = 60.0
SETTINGS = """
expire_seconds = 86400
[keeper]
round_seconds = 86400
settle_ms_max = 0
segment_bytes_max = 400
"""
"""Whatever is decided is settled in the next round, into small segments."""


@contextmanager
def server_without_keeper(directory: Path) -> Iterator[HoldfastProcess]:
    """One node; it must come to its end in good order."""
    config = directory / "holdfast.toml"
    config.write_text(SETTINGS)
    with HoldfastProcess(directory / "data", "--config", str(config)) as process:
        yield process
        assert process.stop() == 0
        assert "Traceback" not in process.log


def run_keeper(process: HoldfastProcess, rounds: int = 1) -> None:
    """So many rounds; what the keeper says if it fails."""
    command = [sys.executable, "-m", "holdfast", "keeper", "run", "--once", "--data", str(process.data)]
    for _ in range(rounds):
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=KEEPER_SECONDS_MAX, check=False
        )
        assert done.returncode == 0, done.stderr
