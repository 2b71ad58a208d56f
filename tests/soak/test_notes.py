"""What workers note: before the deed, past a kill, and enough to tell what may have happened."""

import json
from collections.abc import Callable
from contextlib import suppress

import pytest

from soak.clients.client import Abortable
from soak.txn_history import Answer, Place, Write
from soak.workers.notes import Notes, run_transaction

WRITES = [Write(Place("t", 0), b"a"), Write(Place("t", 1), b"b")]


class Client:
    """Does nothing, and lets a test look at every step."""

    def __init__(self, **on_step: Callable[[], None]) -> None:
        self._on_step = on_step
        self.steps: list[str] = []

    def _step(self, name: str) -> None:
        self.steps.append(name)
        self._on_step.get(name, lambda: None)()

    def begin(self) -> None:
        self._step("begin")

    def send(self) -> None:
        self._step("send")

    def commit(self) -> None:
        self._step("commit")

    def abort(self) -> None:
        self._step("abort")


def played(client: Client, capfd: pytest.CaptureFixture[str], *, is_aborted: bool = False) -> Notes:
    """One transaction, and what was noted until it ended or broke off."""
    with suppress(ConnectionError):
        run_transaction(client, "w0.0", WRITES, client.send, is_aborted=is_aborted)  # type: ignore[arg-type]
    return noted(capfd)


def noted(capfd: pytest.CaptureFixture[str]) -> Notes:
    notes = Notes()
    for line in capfd.readouterr().out.splitlines():
        notes.add(line.encode())
    return notes


def fail() -> None:
    raise ConnectionError


def refuse() -> None:
    raise Abortable


def test_a_commit_is_noted_with_all_that_it_wrote(capfd: pytest.CaptureFixture[str]) -> None:
    """Its time is that of asking for it."""
    notes = played(Client(), capfd)
    (transaction,) = notes.transactions.values()
    assert transaction.writes == WRITES
    assert transaction.answer is Answer.COMMITTED
    assert transaction.commit_sent_ns is not None
    assert (notes.committed, notes.committed_records) == (1, 2)


def test_an_abort_is_noted(capfd: pytest.CaptureFixture[str]) -> None:
    """It never asked for a commit."""
    (transaction,) = played(Client(), capfd, is_aborted=True).transactions.values()
    assert transaction.answer is Answer.ABORTED
    assert transaction.commit_sent_ns is None


@pytest.mark.parametrize("step", ["begin", "send", "commit"])
def test_notes_come_before_the_deed(step: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Whoever dies in a step has noted it; only one who had asked for the commit may have committed."""
    (transaction,) = played(Client(**{step: fail}), capfd).transactions.values()
    assert transaction.writes == WRITES
    assert transaction.answer is None
    assert transaction.may_be_seen is (step == "commit")


@pytest.mark.parametrize("step", ["send", "commit"])
def test_what_may_be_aborted_is(step: str, capfd: pytest.CaptureFixture[str]) -> None:
    """And is tried again as another transaction."""
    client = Client(**{step: refuse})
    (transaction,) = played(client, capfd).transactions.values()
    assert transaction.answer is Answer.ABORTED
    assert client.steps[-1] == "abort"


def test_half_a_line_is_what_a_kill_left() -> None:
    """What came before it counts."""
    notes = Notes()
    notes.add(json.dumps({"kind": "ready"}).encode())
    notes.add(b'{"kind": "beg')
    assert notes.is_ready
    assert not notes.transactions
