"""kcat, and with it the librdkafka that a Debian release froze, against a Holdfast process.

Run by `make compat`. Root gets kcat by apt; anybody else without it gets a line and exit code 0.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import click

from tests.process import HoldfastProcess

ROOT = Path(__file__).parents[1]
SECONDS_MAX = 60


class Kcat:
    """The command, bound to one broker."""

    def __init__(self, command: str, bootstrap: str) -> None:
        self._command = command
        self._bootstrap = bootstrap

    def __call__(self, *options: str, data: str = "") -> str:
        """What it printed; CalledProcessError if it failed."""
        done = subprocess.run(
            [self._command, "-b", self._bootstrap, *options],
            input=data,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=True,
        )
        return done.stdout


def keys_values_headers(kcat: Kcat) -> None:
    """What is produced comes back, a null value and headers included."""
    kcat("-P", "-t", "plain", "-K:", "-Z", "-H", "one=1", data="k1:v1\nk2:\n")
    found = kcat("-C", "-t", "plain", "-e", "-q", "-f", "%o %k %S %s %h\n")
    assert found == "0 k1 2 v1 one=1\n1 k2 -1  one=1\n", found


def codecs(kcat: Kcat) -> None:
    """Every codec, by an older librdkafka."""
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        kcat("-P", "-t", f"codec-{codec}", "-z", codec, data="some text\n" * 1000)
        found = kcat("-C", "-t", f"codec-{codec}", "-e", "-q")
        assert found == "some text\n" * 1000, codec


def metadata(kcat: Kcat) -> None:
    """Topics and brokers are listed."""
    listed = kcat("-L")
    assert "1 brokers:" in listed, listed
    assert 'topic "plain" with 2 partitions' in listed, listed


def offsets(kcat: Kcat) -> None:
    """Offsets by time, and reading from the end backwards."""
    kcat("-P", "-t", "many", "-p", "0", data="".join(f"{n}\n" for n in range(100)))
    assert kcat("-Q", "-t", "many:0:0") == "many [0] offset 0\n"
    assert kcat("-C", "-t", "many", "-p", "0", "-o", "-3", "-e", "-q") == "97\n98\n99\n"
    assert kcat("-C", "-t", "many", "-p", "0", "-o", "50", "-c", "2", "-q") == "50\n51\n"


def group(kcat: Kcat) -> None:
    """A group consumes every partition once and goes on where it stopped."""
    for partition in ("0", "1"):
        kcat("-P", "-t", "grouped", "-p", partition, data=f"from {partition}\n")
    options = ("-X", "auto.offset.reset=earliest", "-e", "-q", "-G", "readers", "grouped")
    assert sorted(kcat(*options).splitlines()) == ["from 0", "from 1"]
    kcat("-P", "-t", "grouped", "-p", "0", data="later\n")
    assert kcat(*options) == "later\n"


def idempotence(kcat: Kcat) -> None:
    """An idempotent producer stores each record once."""
    records = "".join(f"{n}\n" for n in range(1000))
    kcat("-P", "-t", "idempotent", "-p", "0", "-X", "enable.idempotence=true", data=records)
    assert kcat("-C", "-t", "idempotent", "-p", "0", "-e", "-q") == records


CHECKS: list[Callable[[Kcat], None]] = [keys_values_headers, codecs, metadata, offsets, group, idempotence]


def main() -> int:
    """Run all checks in order."""
    command = find_kcat()
    if command is None:
        click.echo("kcat: skipped, as it is not installed and apt cannot bring it here")
        return 0
    build = ROOT / "build" / "compat"
    build.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(dir=build) as directory,
        HoldfastProcess(Path(directory, "data"), "--partitions", "2") as process,
    ):
        failures = sum(not passes(check, Kcat(command, process.bootstrap)) for check in CHECKS)
    click.echo(f"kcat: {len(CHECKS) - failures} passed, {failures} failed")
    return int(failures > 0)


def passes(check: Callable[[Kcat], None], kcat: Kcat) -> bool:
    """Run one check and say what went wrong."""
    try:
        check(kcat)
    except (AssertionError, subprocess.SubprocessError) as failure:
        click.echo(f"FAILED  {check.__name__}: {failure}\n{getattr(failure, 'stderr', '') or ''}")
        return False
    return True


def find_kcat() -> str | None:
    """The command, installed if need be and if that is possible."""
    apt = shutil.which("apt-get")
    if shutil.which("kcat") is None and apt is not None and os.geteuid() == 0:
        subprocess.run([apt, "install", "-qq", "-y", "kcat"], stdout=subprocess.DEVNULL, check=False)
    return shutil.which("kcat")


if __name__ == "__main__":
    sys.exit(main())
