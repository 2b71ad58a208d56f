"""The kept fingerprints of a pipeline, followed: books for every delivery mode, made of what stands in the topics.

A sealed window is judged when everything is counted that was in the topics so long after it was first seen not to
balance that nothing should be on its way any more: a late message has the time that a healthy pipeline takes. How far
the keeper has come is seen from its coverage and from where the topics ended at earlier looks. And of windows from
before coverage began, which is kept with it, nobody can tell.
"""

from collections import deque
from collections.abc import Mapping
from typing import Final
from uuid import UUID

from holdfast.client.cluster import Cluster
from holdfast.client.groups import TopicPartition
from holdfast.client.offsets import LATEST, Isolation, list_offsets
from holdfast.pipelines.config import EndState, Pipeline
from holdfast.pipelines.recon.balance import unbalanced
from holdfast.pipelines.recon.day import LATENESS_MS
from holdfast.pipelines.recon.kept import (
    COVERAGE_KEY,
    Coverage,
    Follower,
    Sums,
    TopicIds,
    decode_coverage,
    decode_key,
    decode_sums,
    topic_of,
)
from holdfast.pipelines.recon.law import Law, Stage
from holdfast.pipelines.recon.reading import INGESTED, number_of, topics_of
from holdfast.pipelines.watch.profile import passing_ms
from holdfast.pipelines.watch.windows import Window, find_mismatches, find_spendings, oldest_ms
from holdfast.pipelines.watch.world import Mismatch, Spending
from holdfast.records.fingerprints import Fingerprints
from holdfast.spark.reconcile import Group

ENDS_MAX: Final = 1_000
"""Looks whose ends are remembered until they are covered."""

Ends = Mapping[TopicPartition, int]


class KeptBooks:
    """Windows of today and yesterday."""

    def __init__(self, cluster: Cluster, pipeline: Pipeline) -> None:
        self._cluster = cluster
        self._topics = list(topics_of(pipeline))
        self._topic = topic_of(pipeline)
        self._law = Law(delivered=frozenset(pipeline.topics))
        self._follower: Follower | None = None
        self._coverage: Coverage | None = None
        self._sums: dict[tuple[str, int], dict[bytes, Sums]] = {}
        self._windows: dict[tuple[str, int], Window] = {}
        self._passing_ms = passing_ms(pipeline)
        self._ends: deque[tuple[int, Ends]] = deque(maxlen=ENDS_MAX)
        self._topic_ids: TopicIds = {}
        self._covered_ms = 0
        self._uneven_ms: dict[tuple[str, int], int] = {}
        """Since when a sealed window does not balance."""

    def look(self, now_ms: int) -> tuple[tuple[Mismatch, ...], tuple[Spending, ...]]:
        """Reads what is new, forgets what is old; nothing as long as nobody keeps fingerprints."""
        if self._follower is None:
            if self._topic not in self._cluster.metadata([self._topic]).topics:
                return (), ()
            self._follower = Follower(self._cluster, self._topic)
        # Ends first: what comes meanwhile is not to be taken for covered.
        self._ends.append((now_ms, self._find_ends()))
        self._read(now_ms)
        self._note_covered()
        return self._find_mismatches(now_ms), find_spendings(self._windows, now_ms)

    def _find_mismatches(self, now_ms: int) -> tuple[Mismatch, ...]:
        """Sealed windows that have not balanced since an earlier look, with all counted that has had its time since."""
        whole_since_ms = self._coverage.whole_since_ms if self._coverage is not None else 0
        found = {
            (each.tenant, each.window_ms): each
            for each in find_mismatches(self._windows, sealed_ms=now_ms - LATENESS_MS)
            if each.window_ms >= whole_since_ms
        }
        self._uneven_ms = {place: self._uneven_ms.get(place, now_ms) for place in found}
        return tuple(
            each
            for place, each in found.items()
            if self._covered_ms - self._uneven_ms[place] >= self._passing_ms
        )

    def _read(self, now_ms: int) -> None:
        assert self._follower is not None
        first_ms, before = oldest_ms(now_ms), self._coverage
        changed: set[tuple[str, int]] = set()
        for key, value in self._follower.read(
            lambda key: key == COVERAGE_KEY or decode_key(key)[0].window >= first_ms
        ):
            if key == COVERAGE_KEY:
                self._coverage = decode_coverage(value) if value is not None else None
                continue
            group, _ = decode_key(key)
            window = self._sums.setdefault((group.tenant, group.window), {})
            changed.add((group.tenant, group.window))
            if value is None:
                window.pop(key, None)
            else:
                window[key] = decode_sums(key, value)
        self._sums = {place: sums for place, sums in self._sums.items() if place[1] >= first_ms}
        self._windows = {place: window for place, window in self._windows.items() if place[1] >= first_ms}
        if self._coverage is not None and (before is None or before.life != self._coverage.life):
            changed |= self._sums.keys()
        for place in changed & self._sums.keys():
            self._windows[place] = self._balance(*place)

    def _balance(self, tenant: str, start_ms: int) -> Window:
        assert self._coverage is not None, "sums are written with their coverage"
        coverage = self._coverage
        made = Fingerprints[Group](seed=coverage.seed, bucket_bits=coverage.bucket_bits)
        for sums in self._sums[tenant, start_ms].values():
            if sums.life == coverage.life:
                made.merge([sums.group], sums.cells[None])
        audited = {
            state: made.count(Group(tenant, number_of(Stage.AUDIT, state), start_ms)) for state in EndState
        }
        return Window(
            end_ms=start_ms + coverage.window_ms,
            ingested=made.count(Group(tenant, INGESTED, start_ms)),
            ended=sum(audited.values()),
            failed=audited[EndState.FAILED],
            is_balanced=not unbalanced(made, tenant, start_ms, self._law),
        )

    def _find_ends(self) -> Ends:
        """Of every partition that is counted."""
        found: dict[TopicPartition, int] = {}
        topic_ids: dict[str, UUID | None] = {}
        for name in self._topics:
            topic = self._cluster.topic(name)
            topic_ids[name] = topic.topic_id
            partitions = dict.fromkeys(topic.partitions, LATEST)
            offsets = list_offsets(self._cluster, name, partitions, isolation=Isolation.READ_COMMITTED)
            found |= {TopicPartition(name, number): offset for number, offset in offsets.items()}
        if topic_ids != self._topic_ids:
            # Where another topic of the same name ended, nothing of this one may ever be covered.
            self._ends.clear()
            self._topic_ids = topic_ids
        return found

    def _note_covered(self) -> None:
        """The last look all of whose ends are covered by now; a partition that is empty needs no coverage."""
        is_known = self._coverage is not None and self._coverage.topic_ids == self._topic_ids
        spans = self._coverage.spans if self._coverage is not None and is_known else {}
        while self._ends and all(
            spans.get(place, (0, 0))[1] >= end for place, end in self._ends[0][1].items()
        ):
            self._covered_ms, _ = self._ends.popleft()
