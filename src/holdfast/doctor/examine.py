"""One partition under the doctor's eyes: look, wait until nobody can be behind any more, look again.

A difference counts only if it is still there after every replica's high watermark has passed the highest log end of
the first look. Before that it may be replication lag; after it, whatever a replica had to hear of it has heard of.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol, TypeVar

from holdfast.client.aborted import AbortedTransaction
from holdfast.client.groups import TopicPartition
from holdfast.doctor.compare import (
    OpenDifference,
    OpenTransactions,
    Replica,
    View,
    differing_keys,
    differing_transactions,
)
from holdfast.doctor.findings import Finding, key_finding, open_finding
from holdfast.doctor.tables import KEYS_MAX, KeyTable, Part
from holdfast.doctor.traces import KeyTraces
from holdfast.errors import HoldfastError, KeyIndexFull, RightMissing
from holdfast.records.batch import BatchView

SUSPECTS_MAX: Final = 10_000
"""Keys of a partition that are looked at twice; so many are found at most, and more are worth no other cure."""
CATCH_UP_PAUSE_S: Final = 0.1

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where a replica stands."""

    log_start: int
    high_watermark: int
    log_end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A piece of a replica's log, as readers of committed records are given it; `stable` is how far they may read."""

    batches: tuple[BatchView, ...]
    aborted: tuple[AbortedTransaction, ...]
    stable: int


class Source(Protocol):
    """One replica that can be read, wherever it is."""

    @property
    def name(self) -> Replica:
        """What findings call it."""

    def find_position(self) -> Position:
        """Where it stands now."""

    def read(self, start: int) -> Iterator[Answer]:
        """Its log from an offset on, up to its last stable offset; the last answer has no batches."""

    def list_open(self) -> dict[int, int]:
        """The first offset of each transaction that it holds for undecided, by producer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotExamined:
    """What could not be looked at, and why."""

    place: TopicPartition
    replica: Replica | None
    why: str


@dataclass(slots=True, kw_only=True)
class Examination:
    """What was found in one partition."""

    place: TopicPartition
    replicas: list[Replica] = field(default_factory=list)
    """Those that were compared."""
    findings: list[Finding] = field(default_factory=list)
    not_examined: list[NotExamined] = field(default_factory=list)


class Examiner:
    """Examines one partition once."""

    def __init__(
        self,
        place: TopicPartition,
        sources: Sequence[Source],
        *,
        list_coordinated: Callable[[], AbstractSet[int]],
        wait_s_max: float,
        keys_max: int = KEYS_MAX,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._examination = Examination(place=place)
        self._sources = list(sources)
        self._list_coordinated = list_coordinated
        self._wait_s_max = wait_s_max
        self._keys_max = keys_max
        self._clock = clock
        self._sleep = sleep

    def examine(self) -> Examination:
        """Findings are confirmed ones; a replica that cannot be read or stays behind is named instead."""
        self._await_all(self._last_end())
        if len(self._sources) > 1:
            starts = {name: position.log_start for name, position in self._positions().items()}
            unended = self._find_open()
            suspects = self._suspect_keys(starts, stuck={each.replica for each in unended})
            if suspects or unended:
                self._await_all(self._last_end())
                self._confirm(starts, suspects, unended)
        self._examination.replicas = [source.name for source in self._sources]
        return self._examination

    def _confirm(
        self, starts: dict[Replica, int], suspects: set[bytes], unended: list[OpenDifference]
    ) -> None:
        place, findings = self._examination.place, self._examination.findings
        known = {(each.replica, each.producer_id, each.start) for each in unended}
        still = [each for each in self._find_open() if (each.replica, each.producer_id, each.start) in known]
        findings += [open_finding(place, each) for each in still]
        stuck = {each.replica for each in still}
        traces = self._each(lambda source: self._trace(source, starts[source.name], suspects))
        views = [view for name, (_, view) in traces.items() if name not in stuck]
        for difference in differing_keys(views):
            for replica in difference.blamed:
                mine = traces[replica][0].by_key[difference.key]
                findings.append(key_finding(place, difference, replica, mine))

    def _suspect_keys(self, starts: dict[Replica, int], stuck: AbstractSet[Replica]) -> set[bytes]:
        """Keys that differ at first sight, in as many parts as memory asks for."""
        suspects: set[bytes] = set()
        parts = [Part()]
        while parts and len(suspects) < SUSPECTS_MAX:
            part = parts.pop()
            try:
                views = self._each(partial(self._view, starts, part))
            except KeyIndexFull:
                parts += part.halves()
                continue
            found = differing_keys([view for name, view in views.items() if name not in stuck])
            suspects.update(difference.key for difference in found[: SUSPECTS_MAX - len(suspects)])
        return suspects

    def _view(self, starts: dict[Replica, int], part: Part, source: Source) -> View:
        start = starts[source.name]
        table = KeyTable(part, keys_max=self._keys_max)
        end = start
        for answer in source.read(start):
            table.feed(answer.batches, answer.aborted)
            end = answer.stable
        return View(replica=source.name, start=start, end=end, newest=table.newest)

    def _trace(self, source: Source, start: int, keys: set[bytes]) -> tuple[KeyTraces, View]:
        traces = KeyTraces(keys)
        end = start
        for answer in source.read(start):
            traces.feed(answer.batches, answer.aborted)
            end = answer.stable
        return traces, View(replica=source.name, start=start, end=end, newest=traces.newest)

    def _find_open(self) -> list[OpenDifference]:
        """Replicas before coordinators: what ends in between is gone at the second look."""
        starts = self._each(lambda source: source.list_open())
        ends = {name: position.log_end for name, position in self._positions().items()}
        replicas = [
            OpenTransactions(replica=name, end=ends[name], starts=starts[name])
            for name in ends
            if name in starts
        ]
        if not any(starts.values()):
            return []
        return differing_transactions(replicas, self._list_coordinated())

    def _last_end(self) -> int:
        return max((position.log_end for position in self._positions().values()), default=0)

    def _await_all(self, end: int) -> None:
        """Wait for every replica to be told that all below `end` is replicated; who is not in time is left out."""
        deadline = self._clock() + self._wait_s_max
        while behind := {
            name: position for name, position in self._positions().items() if position.high_watermark < end
        }:
            if self._clock() >= deadline:
                for name, position in behind.items():
                    missing = end - position.high_watermark
                    self._leave_out(name, f"it is {missing} offsets behind: look again when it has caught up")
                return
            self._sleep(CATCH_UP_PAUSE_S)

    def _positions(self) -> dict[Replica, Position]:
        return self._each(lambda source: source.find_position())

    def _each(self, ask: Callable[[Source], Result]) -> dict[Replica, Result]:
        """Every replica's answer; one that fails is left out from here on. A right is missing on all of them."""
        answers: dict[Replica, Result] = {}
        for source in list(self._sources):
            try:
                answers[source.name] = ask(source)
            except (KeyIndexFull, RightMissing):
                raise
            except HoldfastError as failure:
                self._leave_out(source.name, str(failure))
        return answers

    def _leave_out(self, name: Replica, why: str) -> None:
        self._sources = [source for source in self._sources if source.name != name]
        self._examination.not_examined.append(
            NotExamined(place=self._examination.place, replica=name, why=why)
        )
