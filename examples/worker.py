"""A worker process that can be killed in the middle of a transaction."""

import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final, NoReturn

from examples.server import expect

READY: Final = "ready"
HOLDING: Final = "holding"
ANSWER_S_MAX: Final = 60.0


def say(word: str) -> None:
    """In the worker: tell whoever started it."""
    print(word, flush=True)


def hold() -> NoReturn:
    """In the worker: say that the transaction has everything but its commit, and wait for the end."""
    say(HOLDING)
    while True:
        signal.pause()


class Worker:
    """`python -m MODULE ARGUMENTS` as a process of its own, until `stop`."""

    def __init__(self, module: str, *arguments: str) -> None:
        command = [sys.executable, "-m", module, *arguments]
        root = Path(__file__).parents[1]
        self._process = subprocess.Popen(
            command, cwd=root, stdout=subprocess.PIPE, bufsize=0, process_group=0
        )

    def wait_for(self, word: str) -> None:
        """Until the worker has said it."""
        assert self._process.stdout is not None
        said = b""
        while said.decode().strip() != word:
            heard, _, _ = select.select([self._process.stdout], [], [], ANSWER_S_MAX)
            said = self._process.stdout.readline() if heard else b""
            expect(bool(said), f"the worker was to say {word!r}, and has not")

    def check(self) -> None:
        """Raise if it has ended by itself, which none of them does."""
        expect(self._process.poll() is None, f"a worker has ended with code {self._process.returncode}")

    def stop(self) -> None:
        """SIGKILL: nothing is tidied up, as in a crash."""
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
