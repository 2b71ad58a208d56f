"""Worker processes that are killed, and replaced, at drawn moments; some of them come back as zombies."""

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Literal

from soak.clients import GIVES_UP_BY_ITSELF
from soak.txn_history import Transaction
from soak.workers.notes import BECAUSE, Notes

ROOT = Path(__file__).parents[1]
LIVES_MAX = 40
WAIT_SECONDS = 0.01
HANG_SECONDS = 20.0
"""A step of a transaction that takes longer will not end: longer than the log is ever down, busy machine included."""

FENCED_WORDS = ("fenced", "invalidproducerepoch", "invalid_producer_epoch")
"""How clients tell a zombie, in lower case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFault:
    """What ends a worker's life: SIGKILL, or a pause that lasts until somebody else does its work."""

    kind: Literal["kill", "zombie"]
    after_committed: int
    """Transactions, in this life."""
    pause_ms: int


def draw_faults(chance: Random, count_max: int) -> tuple[WorkerFault, ...]:
    """Often within the very first transactions."""
    return tuple(
        WorkerFault(
            kind=chance.choice(["kill", "kill", "zombie"]),
            after_committed=chance.choice([0, 1, chance.randrange(1, 30)]),
            pause_ms=chance.randrange(30),
        )
        for _ in range(chance.randrange(1, count_max + 1))
    )


class Worker:
    """One process and its notes."""

    def __init__(self, module: str, arguments: Mapping[str, Any]) -> None:
        self.notes = Notes()
        self.is_zombie = False
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", module, json.dumps(arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=ROOT,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        """Nothing, if it is over."""
        if self.is_running:
            self._process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, and all that it had noted."""
        self.signal(signal.SIGKILL)
        self._process.wait()
        self._reader.join()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self.notes.add(line)


class Slot:
    """A worker's place: whoever is in it has the same transactional id; killed and replaced by a thread."""

    def __init__(
        self,
        module: str,
        arguments_of: Callable[[int], Mapping[str, Any]],
        faults: Sequence[WorkerFault],
    ) -> None:
        self._module = module
        self._arguments_of = arguments_of
        self._faults = faults
        self._stop = threading.Event()
        self.has_met_all_faults = threading.Event()
        self.workers: list[Worker] = []
        self.hung: list[str] = []
        """Workers that had to be ended, by the step that they hung in."""
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """The first worker."""
        self._thread.start()

    def stop(self) -> None:
        """No more workers, and an end to all that there are."""
        self._stop.set()
        self._thread.join()
        for worker in self.workers:
            worker.kill()

    @property
    def transactions(self) -> list[Transaction]:
        """Of all lives."""
        return [each for worker in self.workers for each in list(worker.notes.transactions.values())]

    def failures(self, client: str) -> list[str]:
        """What ended workers that nobody had killed or paused; being fenced ends a zombie."""
        told = [
            worker.notes.failure
            for worker in self.workers
            if worker.notes.failure is not None
            and not (worker.is_zombie and any(word in worker.notes.failure.lower() for word in FENCED_WORDS))
        ]
        its_own = GIVES_UP_BY_ITSELF.get(client, ())
        return [f"hung after {step!r}" for step in self.hung] + [
            f"{client} gave up: {failure}"
            for failure in told
            if not failure.split(BECAUSE)[-1].startswith(its_own)
        ]

    def _run(self) -> None:
        worker = self._spawn()
        for fault in self._faults:
            worker = self._await_due(worker, fault)
            if self._stop.is_set():
                return
            if fault.kind == "kill":
                worker.kill()
                worker = self._spawn()
            else:
                worker = self._replace(worker)
        self.has_met_all_faults.set()
        while not self._stop.wait(WAIT_SECONDS):
            worker = self._replaced_if_over(worker)

    def _await_due(self, worker: Worker, fault: WorkerFault) -> Worker:
        while not self._stop.is_set():
            if worker.notes.is_ready and worker.notes.committed >= fault.after_committed:
                time.sleep(fault.pause_ms / 1000)
                return worker
            worker = self._replaced_if_over(worker)
            self._stop.wait(WAIT_SECONDS)
        return worker

    def _replace(self, worker: Worker) -> Worker:
        """Pause it, and let it go on once another has taken over: it does not know that its time has passed."""
        worker.signal(signal.SIGSTOP)
        worker.is_zombie = True
        replacement = self._spawn()
        while not (replacement.notes.committed or self._stop.is_set()):
            replacement = self._replaced_if_over(replacement)
            self._stop.wait(WAIT_SECONDS)
        worker.signal(signal.SIGCONT)
        return replacement

    def _replaced_if_over(self, worker: Worker) -> Worker:
        if worker.notes.seconds_in_step > HANG_SECONDS:
            self.hung.append(worker.notes.last_kind)
            worker.kill()
        return worker if worker.is_running else self._spawn()

    def _spawn(self) -> Worker:
        # A client that cannot go on at all would be replaced for ever.
        if len(self.workers) >= LIVES_MAX:
            self._stop.set()
            return self.workers[-1]
        self.workers.append(Worker(self._module, self._arguments_of(len(self.workers))))
        return self.workers[-1]
