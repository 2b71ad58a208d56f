"""The real command line in a process of its own, and what it answered."""

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

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
    """Run a command that takes no `--bootstrap` to its end."""
    result = subprocess.run(
        [sys.executable, "-m", "holdfast", *arguments], capture_output=True, timeout=SECONDS_MAX, check=False
    )
    return Answer(code=result.returncode, out=result.stdout, err=result.stderr.decode())


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

    def run(self, *arguments: str, stdin: bytes = b"") -> Answer:
        """Run a command to its end, whatever that is."""
        with self.start(*arguments) as process:
            out, err = process.communicate(stdin, SECONDS_MAX)
        return Answer(code=process.returncode, out=out, err=err.decode())

    def ok(self, *arguments: str, stdin: bytes = b"") -> Answer:
        """Run a command that has to succeed."""
        answer = self.run(*arguments, stdin=stdin)
        assert answer.code == 0, answer.err
        return answer

    def refused(self, *arguments: str, code: int = 1, stdin: bytes = b"") -> str:
        """Run a command that has to fail, in this process to save time; the one line that it says."""
        words = ["holdfast", *arguments, "--bootstrap", self.bootstrap]
        with CliRunner().isolation(stdin) as (_, err, _), patch.object(sys, "argv", words):
            try:
                main()
            except SystemExit as leave:
                ended = leave.code
            said = err.getvalue().decode()
        assert (ended, said[:10]) == (code, "holdfast: "), said
        (line,) = said.splitlines()
        return line.removeprefix("holdfast: ")
