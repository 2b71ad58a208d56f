"""Random frames, fitting and not, for both control planes: the same refusals, the same answers to every verb."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.control.memory import MemoryControlPlane
from holdfast.control.plane import ControlPlane
from holdfast.control.sqlite import SqliteControlPlane
from holdfast.rules.transaction import NO_INSTANCE
from holdfast.store.footer import (
    Change,
    ExtentAppended,
    GroupOffsetStaged,
    TopicCreated,
    TransactionalIdSet,
    TransactionBegun,
    TransactionEnded,
)
from holdfast.store.store import StoredFrame
from tests.control.answers import IDS, answer_or_refusal, answers, log_answers
from tests.control.drafts import DRAFT, HELD_BY, STORE, Draft, plan
from tests.control.frames import stored

LOST: st.SearchStrategy[list[int]] = st.sampled_from([[], [], [], [], [], [], [1], [2], [3]])

TRANSACTIONAL = (
    TransactionBegun.kind,
    "extent of an instance",
    GroupOffsetStaged.kind,
    "commit",
    "abort",
    TransactionalIdSet.kind,
)
ACCEPTED_MIN = 50
"""So many of each are in frames that were not refused."""


class Frame(NamedTuple):
    """Changes that were planned together, the stores that took them, and one that did not."""

    drafts: list[Draft]
    stores: list[int]
    lost: list[int]


class Step(NamedTuple):
    """What else happens, as a method of `Pair` and what to call it with."""

    name: str
    arguments: tuple[object, ...]


FRAME = st.builds(Frame, st.lists(DRAFT, min_size=1, max_size=5), HELD_BY, LOST)
STEPS: list[st.SearchStrategy[Frame] | st.SearchStrategy[Step]] = [
    *[FRAME] * 12,
    st.builds(Step, st.just("trim"), st.tuples(st.integers(1, 9))),
    st.builds(Step, st.just("replay_from_too_early"), st.tuples(st.integers(1, 3), LOST)),
    st.builds(Step, st.just("add_store"), st.tuples(STORE)),
    st.builds(Step, st.just("drop_stores"), st.tuples(st.lists(STORE, max_size=2))),
    st.builds(Step, st.just("restart"), st.just(())),
]


class Pair:
    """Both control planes, and all frames that they were given."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sqlite = SqliteControlPlane(path)
        self._memory = MemoryControlPlane()
        self._said: list[object] = []
        self._given: list[tuple[list[StoredFrame], list[Change]]] = []
        self.accepted: Counter[str] = Counter()
        for store in (1, 2):
            self.add_store(store)
        self._apply([TopicCreated("a", IDS[0], [[1, 2]], {}), TopicCreated("b", IDS[1], [[2]], {})], [1], [])

    def apply(self, frame: Frame) -> object:
        """Plan the frame on what is known now, and apply it."""
        return self._apply(plan(self._memory, frame.drafts), frame.stores, frame.lost)

    def _apply(self, changes: list[Change], stores: list[int], lost: list[int]) -> object:
        frames = stored(len(self._given) + 1, *stores)
        self._given.append((frames, changes))
        answer = self._ask(lambda plane: plane.apply(frames, changes, lost=lost))
        if answer is None:
            self.accepted.update(map(_kind, changes))
        return answer

    def replay_from_too_early(self, back: int, lost: list[int]) -> None:
        """Frames that are there come again, and nothing changes."""
        for frames, changes in self._given[-back:]:
            self._sqlite.apply(frames, changes, lost=lost)
            self._memory.apply(frames, changes, lost=lost)
        assert answers(self._sqlite) == answers(self._memory) == self._said

    def trim(self, rows_max: int) -> object:
        """As many rows on both, and no reader notices."""
        before = self._said
        trimmed = self._ask(lambda plane: plane.trim(rows_max))
        assert self._said == before
        return trimmed

    def add_store(self, store: int) -> None:
        """Perhaps once more."""
        self._ask(lambda plane: plane.add_store(store))

    def drop_stores(self, stores: list[int]) -> None:
        """Perhaps some that nobody knows."""
        self._ask(lambda plane: plane.drop_stores(stores))

    def restart(self) -> None:
        """What SQLite keeps in memory is found again in its file."""
        self._sqlite.close()
        self._sqlite = SqliteControlPlane(self._path)
        assert answers(self._sqlite) == self._said

    def finish(self) -> None:
        """Everything is trimmed; and the frames alone, refused ones too, make the same log again."""
        while self.trim(7):
            pass
        anew = MemoryControlPlane()
        for frames, changes in self._given:
            answer_or_refusal(partial(anew.apply, frames, changes))
        assert log_answers(anew) == log_answers(self._sqlite)

    def close(self) -> None:
        """Let go of the file."""
        self._sqlite.close()

    def _ask(self, verb: Callable[[ControlPlane], object]) -> object:
        """Both the same: one answer or refusal, word for word, and one state after it."""
        answer = answer_or_refusal(lambda: verb(self._sqlite))
        assert answer_or_refusal(lambda: verb(self._memory)) == answer
        self._said = answers(self._memory)
        assert self._said == answers(self._sqlite)
        return answer


def _kind(change: Change) -> str:
    if isinstance(change, ExtentAppended) and change.instance != NO_INSTANCE:
        return "extent of an instance"
    if isinstance(change, TransactionEnded):
        return "commit" if change.committed else "abort"
    return change.kind


def test_both_planes_agree_on_everything() -> None:
    """After every step; and of each kind enough was accepted for that to mean something."""
    accepted: Counter[str] = Counter()

    @settings(derandomize=True, max_examples=60, deadline=None)
    @given(st.lists(st.sampled_from(STEPS).flatmap(lambda step: step), min_size=20, max_size=30))
    def run(steps: list[Frame | Step]) -> None:
        with TemporaryDirectory() as folder:
            pair = Pair(Path(folder) / "control.db")
            try:
                for step in steps:
                    if isinstance(step, Frame):
                        pair.apply(step)
                    else:
                        getattr(pair, step.name)(*step.arguments)
                pair.finish()
            finally:
                pair.close()
            accepted.update(pair.accepted)

    run()
    assert not [kind for kind in TRANSACTIONAL if accepted[kind] < ACCEPTED_MIN], accepted
