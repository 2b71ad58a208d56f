"""kafka-python's own integration tests, from its source distribution, against a Holdfast process.

Run by `make compat`. The suite is fetched to build/compat and stays out of the repository; `may_fail.txt` names
the tests that do not pass, with the reason. Exit code 1: another one failed, or one of those passed.
"""

import os
import re
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path

import click

from tests.process import HoldfastProcess

ROOT = Path(__file__).parents[1]
SUITE = ROOT / "build" / "compat"
MODULES = ("test_admin_integration.py", "test_consumer_integration.py", "test_producer_integration.py")
KAFKA_VERSION = "4.2.0"
SECONDS_MAX = 540

# The suite imports this module, which its source distribution leaves out, to start brokers of its own.
SERVICE = '''
class ExternalService:
    """A broker that runs already."""

    def __init__(self, host, port):
        pass

    def open(self):
        pass

    close = stop = dump_logs = open


SpawnedService = ExternalService
'''

_RESULT = re.compile(r"^(PASSED|FAILED|ERROR) \S+::(\w+)", re.MULTILINE)


def main() -> int:
    """Fetch, run, compare with the list."""
    suite = fetch()
    may_fail = read_may_fail()
    with (
        tempfile.TemporaryDirectory(dir=SUITE) as directory,
        HoldfastProcess(Path(directory, "data"), "--partitions", "4") as process,
    ):
        output = run(suite, process.bootstrap)
    passed, failed = results(output)
    for name in sorted(failed - may_fail.keys()):
        click.echo(f"FAILED  {name}")
    for name in sorted(passed & may_fail.keys()):
        click.echo(f"PASSED  {name}: take it off compat/may_fail.txt")
    for name in sorted(failed & may_fail.keys()):
        click.echo(f"as known  {name}: {may_fail[name]}")
    surprises = (failed - may_fail.keys()) | (passed & may_fail.keys())
    if surprises or not passed:
        click.echo(output)
    click.echo(
        f"kafka-python's suite: {len(passed)} passed, {len(failed)} failed, {len(surprises)} surprises"
    )
    return int(bool(surprises) or not passed)


def fetch() -> Path:
    """The unpacked source distribution of the kafka-python that is installed."""
    release = f"kafka_python-{version('kafka-python')}"
    suite = SUITE / release
    if not suite.is_dir():
        SUITE.mkdir(parents=True, exist_ok=True)
        download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
        subprocess.run([*download, f"kafka-python=={version('kafka-python')}", "-d", SUITE], check=True)
        with tarfile.open(SUITE / f"{release}.tar.gz") as archive:
            archive.extractall(SUITE, filter="data")
    # Without it the standard library's own `test` package would be found instead.
    (suite / "test" / "__init__.py").touch()
    (suite / "test" / "service.py").write_text(SERVICE)
    (suite / "servers" / KAFKA_VERSION / "kafka-bin").mkdir(parents=True, exist_ok=True)
    return suite


def run(suite: Path, bootstrap: str) -> str:
    """What pytest printed; it names the result of every test."""
    modules = [f"test/integration/{name}" for name in MODULES]
    quiet = ["-q", "-rA", "--tb=short", "--show-capture=no", "--log-level=CRITICAL", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *quiet, "--timeout=60", *modules],
        cwd=suite,
        env={**os.environ, "KAFKA_VERSION": KAFKA_VERSION, "KAFKA_URI": f"kafka://{bootstrap}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    return done.stdout


def results(output: str) -> tuple[set[str], set[str]]:
    """Tests that passed with all their parameters, and those that did not."""
    found = _RESULT.findall(output)
    failed = {name for result, name in found if result != "PASSED"}
    return {name for _, name in found} - failed, failed


def read_may_fail() -> dict[str, str]:
    """Names and reasons."""
    lines = (Path(__file__).parent / "may_fail.txt").read_text().splitlines()
    pairs = (line.split(maxsplit=1) for line in lines if line and not line.startswith("#"))
    return dict(pairs)


if __name__ == "__main__":
    sys.exit(main())
