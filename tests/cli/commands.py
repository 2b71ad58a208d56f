"""The real command line, here or in a process of its own, and what it answered."""

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import pytest
from click.testing import CliRunner

from holdfast.cli.main import main

SECONDS_MAX = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One command's end."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        """What stood on stdout."""
        return self.out.decode()

    @property
    def json(self) -> Any:
        """What stood on stdout, as one document."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """What stood on stdout, as one document a line."""
        return [json.loads(line) for line in self.out.splitlines()]


def run_holdfast(*arguments: str) -> Answer:
    """Run a command that takes no `--bootstrap` to its end, in a process of its own."""
    result = subprocess.run(
        [sys.executable, "-m", "holdfast", *arguments], capture_output=True, timeout=SECONDS_MAX, check=False
    )
    return Answer(code=result.returncode, out=result.stdout, err=result.stderr.decode())


def run_here(*arguments: str) -> Answer:
    """Run a command to its end in this process, where all is imported: a new one takes half a second for that."""
    with CliRunner().isolation() as (out, err, _), patch.object(sys, "argv", ["holdfast", *arguments]):
        with pytest.raises(SystemExit) as leave:
            main()
        assert isinstance(leave.value.code, int)
        return Answer(code=leave.value.code, out=out.getvalue(), err=err.getvalue().decode())


class Command:
    """Runs `holdfast` against one cluster."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def start(self, *arguments: str) -> "subprocess.Popen[bytes]":
        """Begin a command and leave it running."""
        return subprocess.Popen(
            [sys.executable, "-m", "holdfast", *arguments, "--bootstrap", self.bootstrap],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # What `select` does not see must not wait in a buffer of ours.
            bufsize=0,
        )

    def run(self, *arguments: str, stdin: bytes | None = None) -> Answer:
        """Run a command to its end, whatever that is; one that reads, in a process of its own."""
        if stdin is None:
            return run_here(*arguments, "--bootstrap", self.bootstrap)
        with self.start(*arguments) as process:
            out, err = process.communicate(stdin, SECONDS_MAX)
        return Answer(code=process.returncode, out=out, err=err.decode())

    def ok(self, *arguments: str, stdin: bytes | None = None) -> Answer:
        """Run a command that has to succeed."""
        answer = self.run(*arguments, stdin=stdin)
        assert answer.code == 0, answer.err
        return answer

    def refused(self, *arguments: str, code: int = 1, stdin: bytes | None = None) -> str:
        """Run a command that has to fail; the one line that it says."""
        answer = self.run(*arguments, stdin=stdin)
        assert (answer.code, answer.err[:10]) == (code, "holdfast: "), answer.err
        (line,) = answer.err.splitlines()
        return line.removeprefix("holdfast: ")
