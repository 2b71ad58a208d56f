"""What a running part of a pipeline leaves in the checkpoint directory for those outside: see `docs/formats.md`.

PART.lock is held as long as the process lives, however it ends. PART.json tells how far it is. PART.stop asks it to
leave when the batch at hand is done. PART.trace is what its last failure was told with.
"""

import fcntl
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from holdfast.errors import PipelineRefused

FORMAT: Final = 1
LOCK_S_MAX: Final = 1.0
"""Somebody who looks whether a part is running has its lock for a moment."""
POLL_S: Final = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryState:
    """How far one streaming query is."""

    name: str
    topic: str
    group: str
    batch_id: int = -1
    rows: int = 0
    """Messages since the start; of an adapter, as often as Spark has read them."""
    positions: dict[str, int] = field(default_factory=dict)
    """By partition: the offset after the last one that is done with."""
    messages: dict[str, int] = field(default_factory=dict)
    """By stage, since the start, with those that were given up."""
    given_up: dict[str, int] = field(default_factory=dict)
    """By topic, since the start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartState:
    """One process of a pipeline, as it tells of itself."""

    pid: int
    started_ms: int
    updated_ms: int
    phase: str
    """starting, running, stopped or failed."""
    error: str = ""
    spark_ui: str = ""
    queries: tuple[QueryState, ...] = ()


class PartFiles:
    """The files of one part of a pipeline, for itself and for others."""

    def __init__(self, checkpoint: Path, part: str) -> None:
        self.part = part
        self._directory = checkpoint
        self._lock = checkpoint / f"{part}.lock"
        self._state = checkpoint / f"{part}.json"
        self._stop = checkpoint / f"{part}.stop"
        self._trace = checkpoint / f"{part}.trace"

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Be the only one. A stop that was meant for somebody before does not count."""
        self._directory.mkdir(parents=True, exist_ok=True)
        with self._lock.open("w") as lock:
            deadline = time.monotonic() + LOCK_S_MAX
            while not _try_lock(lock.fileno(), fcntl.LOCK_EX):
                if time.monotonic() > deadline:
                    state = self.read()
                    who = f" as process {state.pid}" if state is not None else ""
                    raise PipelineRefused(f"the {self.part} is running already{who}, on {self._directory}")
                time.sleep(POLL_S)
            self._stop.unlink(missing_ok=True)
            yield

    def is_running(self) -> bool:
        """Whether somebody holds it; a process that was killed does not."""
        with suppress(FileNotFoundError), self._lock.open() as lock:
            return not _try_lock(lock.fileno(), fcntl.LOCK_SH)
        return False

    def write(self, state: PartState) -> None:
        """Whole or not at all, for whoever reads it just now."""
        fresh = self._state.with_suffix(".json.new")
        fresh.write_text(json.dumps({"format": FORMAT, **asdict(state)}, indent=1), encoding="utf-8")
        fresh.replace(self._state)

    def read(self) -> PartState | None:
        """What it told last, if anything that can be read."""
        try:
            fields = json.loads(self._state.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return None
        if fields.pop("format", None) != FORMAT:
            raise PipelineRefused(f"{self._state} was written by another version of Holdfast")
        queries = tuple(QueryState(**each) for each in fields.pop("queries"))
        return PartState(**_known(fields), queries=queries)

    def keep_trace(self, text: str) -> Path:
        """All that is known of a failure, in place of what was known of the one before; where it is."""
        self._trace.write_text(f"{text.rstrip()}\n", encoding="utf-8")
        return self._trace

    def ask_to_stop(self) -> None:
        """It will see it within a second."""
        self._stop.touch()

    def was_asked_to_stop(self) -> bool:
        """Whether somebody wants it to leave."""
        return self._stop.exists()


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _known(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name in PartState.__dataclass_fields__}
