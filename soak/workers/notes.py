"""What a worker tells whoever started it, line by line: told before it is done, so that a kill hides nothing."""

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from soak.clients.client import Abortable, TransactionalClient
from soak.txn_history import Answer, Place, Transaction, Write

READY = "ready"
FAILED = "failed"
BEGIN = "begin"
COMMIT = "commit"

BECAUSE = "; because of "

STDOUT = 1


def note(kind: str, **what: Any) -> None:
    """Past all buffers: what was noted outlives the process."""
    os.write(STDOUT, json.dumps({"kind": kind, **what}).encode() + b"\n")


def run_transaction(
    client: TransactionalClient,
    name: str,
    writes: Sequence[Write],
    send: Callable[[], None],
    *,
    is_aborted: bool,
) -> bool:
    """One transaction with all its notes; whether it was committed."""
    note(BEGIN, name=name, writes=[[*place, value.decode()] for place, value in writes])
    client.begin()
    try:
        send()
        if not is_aborted:
            note(COMMIT, name=name, at_ns=time.monotonic_ns())
            client.commit()
            note(Answer.COMMITTED.value, name=name)
            return True
    except Abortable:
        pass
    client.abort()
    note(Answer.ABORTED.value, name=name)
    return False


def fail(failure: BaseException) -> None:
    """The client gave up, and so does the worker: what can go on is up to the next one."""
    chain: list[str] = []
    cause: BaseException | None = failure
    while cause is not None:
        chain.append(f"{type(cause).__name__}: {cause}")
        cause = cause.__cause__
    note(FAILED, what=BECAUSE.join(chain))
    sys.stdout.flush()
    os._exit(1)


class Notes:
    """The transactions of one worker, as far as its notes go."""

    def __init__(self) -> None:
        self.transactions: dict[str, Transaction] = {}
        self.committed = 0
        self.committed_records = 0
        self.is_ready = False
        self.failure: str | None = None
        self.last_kind = ""
        self.last_seconds = time.monotonic()

    @property
    def seconds_in_step(self) -> float:
        """How long it has been in the middle of a transaction without a word; 0 if it is in none."""
        return time.monotonic() - self.last_seconds if self.last_kind in (BEGIN, COMMIT) else 0.0

    def add(self, line: bytes) -> None:
        """One line; half a line is what a kill left of it."""
        try:
            told = json.loads(line)
        except ValueError:
            return
        kind = self.last_kind = told["kind"]
        self.last_seconds = time.monotonic()
        if kind == READY:
            self.is_ready = True
        elif kind == FAILED:
            self.failure = told["what"]
        elif kind == BEGIN:
            writes = [
                Write(Place(topic, partition), value.encode()) for topic, partition, value in told["writes"]
            ]
            self.transactions[told["name"]] = Transaction(name=told["name"], writes=writes)
        elif kind == COMMIT:
            self.transactions[told["name"]].commit_sent_ns = told["at_ns"]
        else:
            self._answer(self.transactions[told["name"]], Answer(kind))

    def _answer(self, transaction: Transaction, answer: Answer) -> None:
        transaction.answer = answer
        if answer is Answer.COMMITTED:
            self.committed += 1
            self.committed_records += len(transaction.writes)
