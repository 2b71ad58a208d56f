"""What a process costs: memory and processor time, as the kernel counts them."""

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    """Resident memory."""
    return _status_mb(pid, "VmRSS:")


def peak_resident_mb(pid: int) -> float:
    """The most that it was; unlike getrusage's, not what its parent had when it was started."""
    return _status_mb(pid, "VmHWM:")


def _status_mb(pid: int, field: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    raise ProcessLookupError(pid)


def cpu_seconds(pid: int) -> float:
    """User and system time of all threads so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND


def begin() -> None:
    """Take precedence over other work on this machine, where that is allowed; end in order when told to.

    Brokers that are started from here on inherit the priority.
    """
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, -10)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
