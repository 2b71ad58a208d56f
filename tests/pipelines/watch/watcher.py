"""A watcher in a process of its own."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

WAIT_S_MAX = 60.0


@contextmanager
def watching(file: Path, *words: str) -> Iterator[str]:
    """`holdfast watch` over a pipeline, on a free port, which it tells first; yields its address."""
    with watcher_of(file, *words) as (_, address):
        yield address


@contextmanager
def watcher_of(file: Path, *words: str) -> "Iterator[tuple[subprocess.Popen[str], str]]":
    """The same for those who mean to do something to its process."""
    command = [sys.executable, "-m", "holdfast", "watch", "--pipeline", str(file), "--listen", "127.0.0.1:0"]
    process = subprocess.Popen([*command, *words], stdout=subprocess.PIPE, text=True, process_group=0)
    assert process.stdout is not None
    try:
        found = re.search(r"http://(\S+)/alarms", process.stdout.readline())
        assert found is not None
        yield process, found[1]
    finally:
        process.terminate()
        process.wait(WAIT_S_MAX)
        process.stdout.close()
