"""Both control planes side by side: the same frames, the same refusals, the same answers to every verb."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

from holdfast.control.memory import MemoryControlPlane
from holdfast.control.plane import ControlPlane
from holdfast.control.replicas import StorePhase
from holdfast.control.sqlite import SqliteControlPlane
from holdfast.rules.transaction import NO_INSTANCE
from holdfast.store.footer import Change, ExtentAppended, TopicCreated, TransactionEnded
from holdfast.store.replica_changes import StoreLeft
from holdfast.store.store import StoredFrame
from tests.control.answers import IDS, answer_or_refusal, answers, frame_answers
from tests.control.frames import stored


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
        self.apply([TopicCreated("a", IDS[0], [[1, 2]], {}), TopicCreated("b", IDS[1], [[2]], {})], [1], [])

    @property
    def plane(self) -> ControlPlane:
        """One of them, to plan on."""
        return self._memory

    def apply(self, changes: list[Change], stores: list[int], lost: list[int]) -> object:
        """The next frame; and if it lost a store, one that says so."""
        frames = stored(len(self._given) + 1, *stores)
        self._given.append((frames, changes))
        answer = self._ask(lambda plane: plane.apply(frames, changes, lost=lost))
        if answer is None:
            self.accepted.update(map(_kind, changes))
        self._say_who_left()
        return answer

    def _say_who_left(self) -> None:
        """In the next frame, before anything else: it is the only one that may come between."""
        lost = [state.store for state in self._memory.list_stores() if state.phase is StorePhase.LOST]
        if lost:
            left = [StoreLeft(store, tuple(self._memory.list_behind(store))) for store in lost]
            self.apply(list(left), [1], [])

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
        self._say_who_left()

    def restart(self) -> None:
        """What SQLite keeps in memory is found again in its file."""
        self._sqlite.close()
        self._sqlite = SqliteControlPlane(self._path)
        assert answers(self._sqlite) == self._said

    def finish(self) -> None:
        """Everything is trimmed; and the frames alone, refused ones too, make the same log again.

        So do the frames of one store alone, but for where the others have it.
        """
        while self.trim(7):
            pass
        anew, of_one_store = _two_stores(), _two_stores()
        for frames, changes in self._given:
            answer_or_refusal(partial(anew.apply, frames, changes))
            on_first = [frame for frame in frames if frame.store == 1] or stored(frames[0].number, 9)
            answer_or_refusal(partial(of_one_store.apply, on_first, changes))
        assert answers(anew) == answers(self._sqlite)
        assert frame_answers(of_one_store) == frame_answers(self._sqlite)

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


def _two_stores() -> MemoryControlPlane:
    plane = MemoryControlPlane()
    for store in (1, 2):
        plane.add_store(store)
    return plane


def _kind(change: Change) -> str:
    if isinstance(change, ExtentAppended) and change.instance != NO_INSTANCE:
        return "extent of an instance"
    if isinstance(change, TransactionEnded):
        return "commit" if change.committed else "abort"
    return change.kind
