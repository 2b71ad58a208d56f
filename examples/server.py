"""A Holdfast process for as long as an example lasts."""

import re
import select
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

START_S_MAX: Final = 20.0
STOP_S_MAX: Final = 20.0


class ExampleError(Exception):
    """A step did not do what it should."""


@contextmanager
def holdfast(directory: Path, *, partitions: int = 1, options: Sequence[str] = ()) -> Iterator[str]:
    """Starts it on a free port, with that many partitions in every new topic; yields its address."""
    log = directory / "holdfast.log"
    command = [sys.executable, "-m", "holdfast", "up", "--data", str(directory / "data")]
    command += ["--listen", "127.0.0.1:0", "--partitions", str(partitions), *options]
    with log.open("wb") as errors:
        # A process group of its own: ^C reaches the example alone, which then stops the server.
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, process_group=0)
    try:
        yield _address_of(server, log)
    finally:
        server.terminate()
        try:
            server.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _address_of(server: subprocess.Popen[bytes], log: Path) -> str:
    """Waits for the one line that says where the server listens."""
    assert server.stdout is not None
    ready, _, _ = select.select([server.stdout], [], [], START_S_MAX)
    line = server.stdout.readline().decode() if ready else ""
    found = re.search(r"listening on (\S+:\d+)", line)
    if found is None:
        said = (line + log.read_text()).strip() or "nothing"
        raise ExampleError(f"holdfast did not start; it said: {said}")
    return found[1]


def expect(holds: bool, otherwise: str) -> None:
    """Ends the example if something is not as it should be."""
    if not holds:
        raise ExampleError(otherwise)
