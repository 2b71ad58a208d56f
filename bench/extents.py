"""Does a request cost more in a long log? The control plane's part of each, at a thousand extents and at a million.

`make bench-extents`. Both logs are filled through `apply`, with frames of many extents, since a million durable
commits would measure the disk; extents of 10 offsets, times that rise. The value is that of the long log, and the
ratio is short ÷ long, CPU time of one thread.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from uuid import UUID

from bench.report import Figure, publish
from holdfast.control.sqlite import SqliteControlPlane
from holdfast.store.footer import Change, ExtentAppended, ProducerAdvanced, TopicCreated
from holdfast.store.store import Place, StoredFrame

SHORT, LONG = 1_000, 1_000_000
ROUNDS = 7
REPEATS = 200
FILL_EXTENTS = 2_000
OFFSETS = 10
FETCH_BYTES = 4_000
TOPIC = UUID(int=1)
GOAL = 0.5
"""A search takes a statement more where the log is a level of spans higher; one that looked at every extent would
be at 0.001."""


class Log:
    """One partition of so many extents."""

    def __init__(self, directory: Path, extents: int) -> None:
        self.plane = SqliteControlPlane(directory / f"{extents}.db")
        self.plane.add_store(1)
        self.extents = 0
        self._frame = 0
        self._sequence = 0
        self._apply([TopicCreated("bench", TOPIC, [[1]], {})])
        while self.extents < extents:
            self._apply([self._next() for _ in range(min(FILL_EXTENTS, extents - self.extents))])

    @property
    def end(self) -> int:
        """Its log end."""
        return self.extents * OFFSETS

    def commit(self) -> None:
        """What one small produce of an idempotent producer leaves behind."""
        first, sequence = self.end, self._sequence
        self._sequence += OFFSETS
        batch = ProducerAdvanced(TOPIC, 0, 1, 0, sequence, self._sequence - 1, first, first + OFFSETS - 1, -1)
        self._apply([batch, self._next()])

    def _next(self) -> ExtentAppended:
        first = self.end
        self.extents += 1
        return ExtentAppended(TOPIC, 0, first, first + OFFSETS - 1, [1], 1000, self.extents, 0)

    def _apply(self, changes: list[Change]) -> None:
        self._frame += 1
        place = Place(journal=1, position=self._frame)
        frame = StoredFrame(store=1, number=self._frame, body=place, footer=b"", end=place)
        self.plane.apply([frame], changes)


Work = Callable[[Log], object]


def main() -> int:
    """Fill both, then let them take turns at everything."""
    with tempfile.TemporaryDirectory(dir=Path(__file__).parents[1]) as name:
        short, long = Log(Path(name), SHORT), Log(Path(name), LONG)
        figures = [_compare(what, work, short, long) for what, work in _works().items()]
        short.plane.close()
        long.plane.close()
    return publish("extents", figures)


def _works() -> dict[str, Work]:
    parts = {"head": 0.0, "middle": 0.5, "tail": 0.999}
    return {
        "produce, one commit": Log.commit,
        **{f"fetch, {where}": partial(_fetch, part=part) for where, part in parts.items()},
        **{f"ListOffsets by time, {where}": partial(_find, part=part) for where, part in parts.items()},
        "ListOffsets by a time to come": partial(_find, part=2.0),
        "ListOffsets, greatest time": lambda log: log.plane.find_extent_of_max_time(TOPIC, 0, 1, 0),
        "size of the log": lambda log: log.plane.find_size(TOPIC, 0, 1),
    }


def _fetch(log: Log, *, part: float) -> None:
    _, extents = log.plane.find_extents(TOPIC, 0, int(log.end * part), FETCH_BYTES)
    assert extents


def _find(log: Log, *, part: float) -> None:
    extent = log.plane.find_extent_by_time(TOPIC, 0, 1, 0, int(log.extents * part))
    assert (extent is None) == (part > 1)


def _compare(what: str, work: Work, short: Log, long: Log) -> Figure:
    for log in (short, long):
        _cpu_us(work, log)
    turns = [(_cpu_us(work, short), _cpu_us(work, long)) for _ in range(ROUNDS)]
    return Figure(
        name=what,
        value=round(statistics.median(turn[1] for turn in turns), 1),
        unit="µs",
        baseline=round(statistics.median(turn[0] for turn in turns), 1),
        ratio=round(statistics.median(turn[0] / turn[1] for turn in turns), 2),
        goal=GOAL,
    )


def _cpu_us(work: Work, log: Log) -> float:
    begun = time.thread_time()
    for _ in range(REPEATS):
        work(log)
    return (time.thread_time() - begun) / REPEATS * 1e6


if __name__ == "__main__":
    sys.exit(main())
