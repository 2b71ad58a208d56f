"""The processes below `holdfast up`: its keeper, the keeper's JVM, and the JVM's Python workers."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

KEEPER = ("keeper", "run")
WORKER = "holdfast.spark.daemon"


def find_keeper(up: int) -> int | None:
    """The keeper that this `holdfast up` has started, if one is there."""
    return next((pid for pid in _children(up) if _is_keeper(_command(pid))), None)


def find_jvm(up: int) -> int | None:
    """The JVM of its keeper."""
    return next((pid for pid in _below(find_keeper(up)) if _command(pid)[0].endswith("java")), None)


def find_busy_jvm(up: int) -> int | None:
    """The JVM of its keeper, once it has been given something to do."""
    return find_jvm(up) if find_worker(up) is not None else None


def find_worker(up: int) -> int | None:
    """A Python worker of that JVM."""
    return next(find_workers(find_jvm(up)), None)


def find_workers(pid: int | None) -> Iterator[int]:
    """All Python workers below a process: children of daemons."""
    daemons = [each for each in _below(pid) if WORKER in _command(each)]
    return (worker for daemon in daemons for worker in _children(daemon))


def list_below(up: int) -> list[int]:
    """All of them."""
    return list(_below(up))


def is_alive(pid: int) -> bool:
    """Whether it runs; one that has ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def kill(pid: int) -> None:
    """SIGKILL; one that has just ended is dead, too."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _below(pid: int | None) -> Iterator[int]:
    for child in _children(pid) if pid is not None else ():
        yield child
        yield from _below(child)


def _children(pid: int) -> list[int]:
    """Of all its threads: Java starts processes in any of them."""
    found: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += map(int, file.read_text().split())
    return sorted(found)


def _is_keeper(command: list[str]) -> bool:
    return KEEPER in pairwise(command)


def _command(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return [""]
