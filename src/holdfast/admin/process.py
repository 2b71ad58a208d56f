"""What the operating system knows of this process, as Prometheus's client libraries name it."""

import os
import resource
import time
from collections.abc import Iterator
from pathlib import Path

from holdfast.admin.prometheus import Family, counter, gauge

_STARTED_AT = time.time()
_STARTED_MONOTONIC = time.monotonic()


def resident_bytes() -> int:
    """Memory in use, from Linux's /proc; elsewhere the most that it ever was."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def uptime_seconds() -> float:
    """Since this module was first imported, which `holdfast up` does at once."""
    return time.monotonic() - _STARTED_MONOTONIC


def families() -> Iterator[Family]:
    """Memory, CPU, files and the start."""
    yield gauge("process_resident_memory_bytes", "Resident memory size in bytes.", resident_bytes())
    yield counter(
        "process_cpu_seconds_total", "Total user and system CPU time spent in seconds.", time.process_time()
    )
    yield gauge("process_start_time_seconds", "Start time since unix epoch in seconds.", _STARTED_AT)
    files = Path("/proc/self/fd")
    if files.exists():
        yield gauge("process_open_fds", "Number of open file descriptors.", sum(1 for _ in files.iterdir()))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield gauge("process_max_fds", "Maximum number of open file descriptors.", soft)
