"""A keeper that is killed at any step of a round: nothing is lost, doubled or half there, and all orphans go.

A step is whatever changes a file, or a question to the desk that changes something, before and after it is answered. A
round is killed at its first step, another (some writes later) at its second, and so on, up to the last of the longest.
"""

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.partition_key import PartitionKey
from holdfast.agent.writes import DeleteTopic
from holdfast.keeper.gateway import Gateway
from holdfast.keeper.round import Round
from holdfast.keeper.runner import InProcessRunner
from holdfast.store.store import CARRIED
from tests.keeper.engine import Engine
from tests.keeper.space import (
    QUICK,
    Transaction,
    files,
    lose_control_plane,
    read,
    rest,
    segments_on_disk,
    small_journals,
)

STEPS_MAX = 200
TRIES_MAX = 8
OPERATIONS = ("unlink", "rmdir", "mkdir", "open", "rename", "fsync", "fdatasync", "pwritev")
QUESTIONS = ("lease", "publish", "carried", "roll", "snapshot", "journals")
THEIRS = ("commit", "store-")
"""Threads that write frames: they are the server's, which lives on."""
LIMITS = replace(QUICK, collect_bytes_min=2000)


class Killed(BaseException):
    """The keeper is no more, and does nothing more."""


class Guillotine:
    """Counts steps, and kills at the one that it is told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left: int | None = None
        self.target: str | None = None
        self.is_dead = False
        self.kills: Counter[str] = Counter()
        for name in OPERATIONS:
            monkeypatch.setattr(os, name, self._guarded(name, getattr(os, name)))

    def step(self, name: str) -> None:
        """One more; Killed if it is the last, and ever after."""
        if self.is_dead:
            raise Killed
        if self.left is not None:
            self.left -= 1
            if self.left < 0 or name == self.target:
                self.is_dead = True
                self.kills[name] += 1
                raise Killed

    def _guarded(self, name: str, operation: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(*arguments: Any, **options: Any) -> Any:
            is_read = name == "open" and not arguments[1] & os.O_CREAT
            if not is_read and not threading.current_thread().name.startswith(THEIRS):
                self.step(name)
            # Nobody pulls the plug.
            return None if "sync" in name else operation(*arguments, **options)

        return guarded

    def ask(self, engine: Engine) -> Callable[[str, dict[str, Any]], Any]:
        """The desk, with a step before and after each answer."""

        def ask(question: str, about: dict[str, Any]) -> Any:
            if question not in QUESTIONS:
                return engine._ask(question, about)
            self.step(f"before {question}")
            answer = engine._ask(question, about)
            self.step(f"after {question}")
            return answer

        return ask


class Log:
    """What is written to a log, and what must be read from it whatever happens to keepers."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.plain = engine.create("plain", cleanup_policy="delete")
        self.table = engine.create("table")
        self.held = engine.create("held", cleanup_policy="delete")
        self.written: dict[PartitionKey, list[bytes]] = {self.plain: [], self.held: []}
        self.undecided: list[bytes] = []
        self.newest: dict[bytes | None, bytes] = {}
        self.transaction = Transaction(engine)
        self.gone: PartitionKey | None = None

    def write(self, number: int) -> None:
        """Something of everything: segments to replace, journals to leave, a transaction that is open across them."""
        if self.undecided and number % 3 == 0:
            self.transaction.end(commit=True)
            self.written[self.held] += self.undecided
            self.undecided = []
        self.undecided.append(b"held-%d" % number)
        self.transaction.append(self.held, self.undecided[-1])
        gone, self.gone = self.gone, None
        if gone is not None:
            self.engine.call(lambda: self.engine.cluster.commits.submit(DeleteTopic(gone.topic_id)))
        if number % 4 == 0:
            self.gone = self.engine.create(f"gone-{number}")
            self.engine.append(self.gone, (b"k", bytes(900)))
        for part in range(2):
            value = b"%d.%d" % (number, part) + bytes(1200)
            self.engine.append(self.plain, (None, value))
            self.written[self.plain].append(value)
            self.engine.append(self.table, (b"%d" % (number % 3), value))
            self.newest[b"%d" % (number % 3)] = value
            if part == 0:
                # The transaction lies in a journal that ends here.
                self.engine.cluster.stores.by_number[1].roll()

    def check(self) -> None:
        """Every record once, in order, under both isolation levels."""
        for key, values in self.written.items():
            assert [value for _, _, value in self.engine.read(key, 1)] == values
        unread = read(self.engine, self.held, 1, committed=False)
        assert len(unread) == len(self.written[self.held]) + len(self.undecided)
        assert self.engine.table(self.table, 1) == self.newest


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """One store with small journals, where everything is due at once."""
    small_journals(monkeypatch)
    made = Engine(tmp_path / "data", nodes=1, limits=LIMITS)
    yield made
    made.end()


class Attempts:
    """Rounds that are killed, and one after each that is not."""

    def __init__(self, engine: Engine, guillotine: Guillotine) -> None:
        self.engine = engine
        self.guillotine = guillotine
        self.log = Log(engine)
        self.longest = 0
        """Steps of the longest round so far."""
        self._number = 0

    def kill(self, *, step: int = STEPS_MAX, name: str | None = None) -> None:
        """At a step, or at the first of a name, if the round has it."""
        self.log.write(self._number)
        self._run(step, name)
        self.log.check()
        if self._number % 20 == 19:
            lose_control_plane(self.engine)
            self.log.transaction = Transaction.resumed(self.engine, self.log.transaction)
            self.log.check()
        self._run(STEPS_MAX, None)
        self.log.check()
        self._number += 1

    def _run(self, step: int, name: str | None) -> None:
        gateway = Gateway(self.guillotine.ask(self.engine), holder=f"keeper {self._number}")
        a_round = Round(gateway, lambda size_bytes: InProcessRunner())
        self.guillotine.left, self.guillotine.target = step, name
        try:
            a_round.run()
        except Killed:
            pass
        finally:
            self.longest = max(self.longest, step - self.guillotine.left)
            self.guillotine.left, self.guillotine.is_dead = None, False
            # Nobody hears of it any more, and its hold on the store runs out.
            self.engine.cluster.desk.let_go(f"keeper {self._number}")


def test_killed_at_every_step(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same server, and now and then with one that finds its control plane gone."""
    guillotine = Guillotine(monkeypatch)
    attempts = Attempts(engine, guillotine)
    step = 0
    while step <= attempts.longest:
        attempts.kill(step=step)
        step += 1
    # Rounds are not all the same: what was passed over is aimed at.
    named = {*OPERATIONS, *(f"{when} {each}" for each in QUESTIONS for when in ("before", "after"))}
    for name in sorted(named - guillotine.kills.keys()) * TRIES_MAX:
        if name not in guillotine.kills:
            attempts.kill(name=name)
    assert named <= guillotine.kills.keys()
    log = attempts.log
    rest(engine)
    log.check()
    assert segments_on_disk(engine, 1) == engine.cluster.plane.list_files(1)
    assert len(files(engine, 1, "segments")) == 2 * len(engine.cluster.plane.list_files(1))
    named = {f"{number - CARRIED:020d}.carried" for number in engine.cluster.plane.find_carried(1)}
    assert set(files(engine, 1, "carried")) == named
    assert sum(files(engine, 1, "journal").values()) < 20_000
    lose_control_plane(engine)
    log.check()
