"""Peak memory of processes that come and go: those below one, sampled."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SAMPLE_SECONDS = 0.1


class Peak:
    """The most that all of them had together, each shared page counted once."""

    def __init__(self) -> None:
        self.mb = 0.0


@contextmanager
def peak_below(pid: int, *, except_for: int) -> Iterator[Peak]:
    """Watches the descendants of a process, without one of them and its own."""
    with _peak(lambda: _descendants(pid, except_for)) as peak:
        yield peak


@contextmanager
def peak_of(pid: int) -> Iterator[Peak]:
    """Watches a process and all its descendants."""
    with _peak(lambda: [pid, *_descendants(pid, 0)]) as peak:
        yield peak


@contextmanager
def _peak(find: Callable[[], Iterable[int]]) -> Iterator[Peak]:
    peak = Peak()
    over = threading.Event()

    def watch() -> None:
        while not over.is_set():
            begun = time.monotonic()
            peak.mb = max(peak.mb, sum(map(_proportional_mb, find())))
            over.wait(max(0.0, SAMPLE_SECONDS - (time.monotonic() - begun)))

    thread = threading.Thread(target=watch, name="peak", daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        over.set()
        thread.join()


def _descendants(pid: int, except_for: int) -> Iterator[int]:
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                for child in map(int, (task / "children").read_text().split()):
                    if child != except_for:
                        yield child
                        yield from _descendants(child, except_for)


def _proportional_mb(pid: int) -> float:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return 0.0
