"""What is known of a tenant's day without an exact look: kept fingerprints, and what they do not cover read now.

Where nothing was kept, or in a way that does not fit the day, all of it is read now. Both ways come to the same cells,
and to the same pieces to look at exactly.
"""

import os
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from pyspark.sql import SparkSession

from holdfast.client.cluster import Cluster
from holdfast.client.groups import TopicPartition
from holdfast.pipelines.config import Pipeline
from holdfast.pipelines.recon.beside import place
from holdfast.pipelines.recon.day import Day, PartitionView
from holdfast.pipelines.recon.kept import Kept, Sums, read_kept
from holdfast.pipelines.recon.law import Law
from holdfast.pipelines.recon.looking import (
    NOWHERE,
    count_offsets,
    narrow,
    pieces_of_day,
    pieces_of_spans,
    sum_up,
)
from holdfast.pipelines.recon.reading import Piece
from holdfast.records.fingerprints import Fingerprints
from holdfast.spark.held import HeldReading
from holdfast.spark.reconcile import Geometry, Group, Scanned

TASKS: Final = 2 * (os.cpu_count() or 1)

NAMED_MAX: Final = 10_000

SETTLE_S_MAX: Final = 10.0

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """What reconciliation works with."""

    session: SparkSession
    cluster: Cluster
    pipeline: Pipeline
    tasks: int = TASKS
    """Among which work is shared."""
    named_max: int = NAMED_MAX
    """So many messages of a day are named, if so many are wrong; all are counted."""
    settle_s_max: float = SETTLE_S_MAX
    """So long are transactions waited for that are open when somebody begins to look."""
    on_progress: Progress = lambda _: None
    held: HeldReading | None = None
    """The stores' own files, where they are read."""

    @property
    def law(self) -> Law:
        """What the pipeline promises."""
        return Law(delivered=frozenset(self.pipeline.topics))


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Fingerprints of a tenant's day, and where their records lie."""

    cells: Fingerprints[Group]
    holding: Callable[[Iterable[Group]], list[Piece]]
    """The pieces that hold all records of some groups, each record once."""


def kept_of(desk: Desk, tenant: str, day: Day) -> Kept | None:
    """What a keeper has noted of the day. Ask before the views are taken: it goes on, and might be beyond them."""
    return read_kept(
        desk.cluster,
        desk.pipeline,
        lambda group: group.tenant == tenant and day.start_ms <= group.window < day.end_ms,
    )


def know_day(desk: Desk, tenant: str, day: Day, views: list[PartitionView], kept: Kept | None) -> Known:
    """The fingerprints of everything that is visible now."""
    if kept is not None and not fits(kept, day, views):
        kept = None
    covered = NOWHERE if kept is None else kept.coverage.spans
    rest = place(
        desk.held,
        pieces_of_day(desk.pipeline, views, day, tenant=tenant, tasks=desk.tasks, covered=covered),
    )
    geometry = Geometry(seed=secrets.randbits(63))
    if kept is not None:
        geometry = Geometry(seed=kept.coverage.seed, bucket_bits=kept.coverage.bucket_bits)
    desk.on_progress(f"fingerprints of {count_offsets(rest):,} offsets{' that are not kept' if kept else ''}")
    scanned = sum_up(desk.session, rest, geometry, tasks=desk.tasks)
    return _together(desk, tenant, day, views, scanned, kept)


def fits(kept: Kept, day: Day, views: list[PartitionView]) -> bool:
    """Whether what is kept of the day is what lies of it in the coverage."""
    coverage = kept.coverage
    if (coverage.window_ms, coverage.lateness_ms) != (day.window_ms, day.lateness_ms):
        return False
    ends = {TopicPartition(view.topic, view.partition): view.read_to for view in views}
    topic_ids = {view.topic: view.topic_id for view in views}
    return (
        coverage.since_ms <= day.start_ms
        # A topic that was deleted and made anew has other records there; without ids nobody can tell.
        and coverage.topic_ids == topic_ids
        and None not in topic_ids.values()
        # And so may one whose end was cut off.
        and all(end <= ends[place] for place, (_, end) in coverage.spans.items())
        # What was counted before a hole is not covered any more, and would be read and counted once more.
        and all(
            start >= coverage.spans[place][0]
            for each in kept.sums
            for place, (start, _) in each.spans.items()
        )
    )


def _together(
    desk: Desk, tenant: str, day: Day, views: list[PartitionView], scanned: Scanned[Piece], kept: Kept | None
) -> Known:
    sums: dict[Group, list[Sums]] = {}
    for each in kept.sums if kept is not None else ():
        scanned.cells.merge([each.group], each.cells[None])
        sums.setdefault(each.group, []).append(each)

    def holding(groups: Iterable[Group]) -> list[Piece]:
        wanted = list(groups)
        spans = [span for group in wanted for each in sums.get(group, ()) for span in each.spans.items()]
        before = pieces_of_spans(desk.pipeline, views, day, spans, tenant=tenant, tasks=desk.tasks)
        return place(desk.held, before) + [narrow(*held) for held in scanned.holding(wanted)]

    return Known(cells=scanned.cells, holding=holding)
