"""The file that a guard goes on from: whole at any moment, and one guard's at a time."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

import msgspec

from holdfast.errors import GuardRefused
from holdfast.guard.lever import MARKS_MAX
from holdfast.guard.state import FORMAT, State
from holdfast.store.durable import write_file


class StateFile:
    """Reads and writes the state; beside it lies a lock that a guard holds as long as it lives, however it ends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = path.with_name(path.name + ".lock")

    @contextmanager
    def held(self) -> Iterator[None]:
        """Be the only guard with this file."""
        with self._naming_failures(), self._lock.open("w") as lock:
            if not _try_lock(lock.fileno(), fcntl.LOCK_EX):
                raise GuardRefused(f"{self.path} is another guard's, which is running")
            yield

    def is_held(self) -> bool:
        """Whether a guard is running with it."""
        with suppress(FileNotFoundError), self._lock.open() as lock:
            return not _try_lock(lock.fileno(), fcntl.LOCK_SH)
        return False

    def open(self, cluster_id: str, rng: Random) -> State:
        """The state of a guard of this cluster; where there is no file yet, a new one with a mark of its own."""
        state = self.read()
        if state is None:
            state = State(cluster_id=cluster_id, mark=rng.randint(1, MARKS_MAX))
            self.write(state)
        if state.cluster_id != cluster_id:
            raise GuardRefused(
                f"{self.path} belongs to the cluster {state.cluster_id}, and this is {cluster_id}: name another --state"
            )
        return state

    def read(self) -> State | None:
        """What lies there; None if nothing does."""
        try:
            with self._naming_failures():
                content = self.path.read_bytes()
            found = msgspec.json.decode(content)
            if isinstance(found, dict) and found.get("format") != FORMAT:
                raise GuardRefused(f"{self.path} was written by another version of Holdfast")
            return msgspec.convert(found, State)
        except FileNotFoundError:
            return None
        except (msgspec.DecodeError, UnicodeDecodeError) as broken:
            raise GuardRefused(
                f"{self.path} cannot be read ({broken}): restore it, for it says how topics were before their pause"
            ) from None

    def write(self, state: State) -> None:
        """Durable on return, all of it or nothing."""
        with self._naming_failures():
            write_file(self.path, msgspec.json.format(msgspec.json.encode(state), indent=1))

    @contextmanager
    def _naming_failures(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            if self.path.parent.is_dir():
                raise
            raise GuardRefused(f"{self.path.parent} is no directory: name another --state") from None
        except OSError as failure:
            raise GuardRefused(f"{self.path} cannot be used: {failure.strerror}") from None


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
