"""A day of payments of three tenants: a pipeline judges each on Spark, and reconciliation proves that none was lost.

Run it with `python -m examples.payments_day`; `make demo` runs it too. It types the commands that a user would, with
the files of `examples/compliance`: `holdfast topic create`, `pipeline run --once`, `recon close`.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from examples.server import ExampleError, expect, holdfast
from examples.steps import console, step
from holdfast.spark.master import MASTER_DEFAULT

COMPLIANCE: Final = Path(__file__).parent / "compliance"
TOPICS: Final = ("payments.in", "payments.qualified", "payments.audit", "payments.tally")
PARTITIONS: Final = 4
MESSAGES: Final = 20_000
TENANT: Final = "acme"
COMMAND_S_MAX: Final = 300.0
SEALED_DAYS_AGO: Final = 2
"""Yesterday may still have late messages to come."""


def run(master: str) -> None:
    """From the first message to the closed day."""
    day = (datetime.now(UTC) - timedelta(days=SEALED_DAYS_AGO)).date().isoformat()
    with tempfile.TemporaryDirectory(prefix="holdfast-payments-") as name, holdfast(Path(name)) as address:
        directory = Path(name)
        shutil.copytree(COMPLIANCE, directory / "pipeline", ignore=shutil.ignore_patterns("__pycache__"))
        file = str(directory / "pipeline" / "pipeline.yaml")
        for topic in TOPICS:
            _type(address, "topic", "create", topic, "--partitions", str(PARTITIONS))
        with step(f"{MESSAGES:,} payments of three tenants are ingested"):
            _generate(address, day)
        with step("holdfast pipeline run --once pipeline.yaml"):
            told = _type(address, "pipeline", "run", "--once", file, "--master", master)
        _quote(told.stderr.splitlines()[-1])
        with step(f"holdfast recon close {TENANT} {day}"):
            told = _type(address, "recon", "close", TENANT, day, "--pipeline", file, "--master", master)
        _quote(*told.stdout.splitlines()[:2])


def _generate(address: str, day: str) -> None:
    words = ["--bootstrap", address, "--messages", str(MESSAGES), "--day", day]
    command = [sys.executable, "-m", "examples.compliance.generator", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=COMMAND_S_MAX)
    expect(done.returncode == 0, f"the payments were not taken: {done.stderr.strip()}")


def _type(address: str, *words: str) -> subprocess.CompletedProcess[str]:
    """One command of `holdfast`, which has to succeed."""
    command = [sys.executable, "-W", "ignore", "-m", "holdfast", *words]
    environment = os.environ | {"HOLDFAST_BOOTSTRAP": address}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=COMMAND_S_MAX
    )
    said = done.stdout + done.stderr
    expect(done.returncode == 0, f"holdfast {' '.join(words[:2])} ended with {done.returncode}: {said}")
    return done


def _quote(*lines: str) -> None:
    for line in lines:
        console.print(f"    {line}", highlight=False, markup=False, soft_wrap=True)


def main() -> int:
    """Exit code 0 if the day is closed, 1 if not."""
    try:
        run(MASTER_DEFAULT)
    except ExampleError as error:
        console.print(f"[red]the example failed:[/] {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
