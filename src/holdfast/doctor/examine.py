"""One partition under the doctor's eyes: look, wait until nobody can be behind any more, look again.

A difference counts only if it is still there after every replica's high watermark has passed the highest log end of
the first look. Before that it may be replication lag; after it, whatever a replica had to hear of it has heard of.
"""

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

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
from holdfast.doctor.ranges import RANGE_OFFSETS, PrintAll, Prints, narrow, views_of
from holdfast.doctor.source import Position, Source
from holdfast.doctor.tables import KEYS_MAX, KeyTable, Part
from holdfast.doctor.traces import KeyTraces
from holdfast.errors import HoldfastError, KeyIndexFull, RightMissing

SUSPECTS_MAX: Final = 10_000
"""Keys of a partition that are looked at twice; so many are found at most, and more are worth no other cure."""
CATCH_UP_PAUSE_S: Final = 0.1

Result = TypeVar("Result")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many keys of a replica are held in memory, and how much one fingerprint stands for."""

    keys_max: int = KEYS_MAX
    range_offsets: int = RANGE_OFFSETS


LIMITS: Final = Limits()


class Examiner:
    """Examines one partition once."""

    def __init__(
        self,
        place: TopicPartition,
        sources: Sequence[Source],
        *,
        list_coordinated: Callable[[], AbstractSet[int]],
        wait_s_max: float,
        limits: Limits = LIMITS,
        print_all: PrintAll | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._examination = Examination(place=place)
        self._sources = list(sources)
        self._list_coordinated = list_coordinated
        self._wait_s_max = wait_s_max
        self._limits = limits
        self._print_all = print_all
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
        look = self._choose_look(starts, stuck)
        suspects: set[bytes] = set()
        parts = [Part()]
        while parts and len(suspects) < SUSPECTS_MAX:
            part = parts.pop()
            try:
                views = look(part)
            except KeyIndexFull:
                parts += part.halves()
                continue
            found = differing_keys([view for view in views if view.replica not in stuck])
            suspects.update(difference.key for difference in found[: SUSPECTS_MAX - len(suspects)])
        return suspects

    def _choose_look(
        self, starts: dict[Replica, int], stuck: AbstractSet[Replica]
    ) -> Callable[[Part], list[View]]:
        """All records of each replica; but of a partition with so many that keys might not fit, what differs alone."""

        def whole(part: Part) -> list[View]:
            return list(self._each(partial(self._view, starts, part)).values())

        names = [source.name for source in self._sources if source.name not in stuck]
        if len(names) < 2:
            return whole
        ends = [position.high_watermark for name, position in self._positions().items() if name in names]
        start = max(starts[name] for name in names)
        end = min(ends, default=start)
        has_ranges = end // self._limits.range_offsets * self._limits.range_offsets > start
        if not has_ranges or (self._print_all is None and end - start <= self._limits.keys_max):
            return whole
        prints = self._take_prints(names, start, end)
        if len(prints) < 2:
            return whole
        narrowed = narrow(prints.values(), start, size=self._limits.range_offsets)
        return lambda part: views_of(
            self._each, list(prints), narrowed, start, part, keys_max=self._limits.keys_max
        )

    def _take_prints(self, names: Sequence[Replica], start: int, end: int) -> Mapping[Replica, Prints]:
        if self._print_all is None:
            from holdfast.doctor.prints import print_source  # noqa: PLC0415 - it loads Arrow and the kernels

            take = partial(
                print_source,
                start=start,
                end=None,
                size=self._limits.range_offsets,
                seed=secrets.randbits(63),
            )
            return self._each(take, among=names)
        sources = [source for source in self._sources if source.name in names]
        taken = self._print_all(sources, start, end, size=self._limits.range_offsets)
        for name, failure in taken.items():
            if isinstance(failure, str):
                self._leave_out(name, failure)
        return {name: each for name, each in taken.items() if isinstance(each, Prints)}

    def _view(self, starts: dict[Replica, int], part: Part, source: Source) -> View:
        start = starts[source.name]
        table = KeyTable(part, keys_max=self._limits.keys_max)
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

    def _each(
        self, ask: Callable[[Source], Result], among: Sequence[Replica] | None = None
    ) -> dict[Replica, Result]:
        """Every replica's answer; one that fails is left out from here on. A right is missing on all of them."""
        answers: dict[Replica, Result] = {}
        for source in [each for each in self._sources if among is None or each.name in among]:
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
