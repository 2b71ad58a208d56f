"""A tenant's day reconciled: its fingerprints, an exact look where they differ, a search for the rest.

Fingerprints only say where to look. What they point at is counted id by id, as a DataFrame plan, however much it is.
Before an id is called missing or an orphan it is looked for in everything that is retained: its other records may
bear another day, by a clock that was wrong.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as sql

from holdfast.client.retry import Patience
from holdfast.pipelines.config import WINDOW_MS, EndState
from holdfast.pipelines.recon.balance import unbalanced
from holdfast.pipelines.recon.beside import held_beside, place
from holdfast.pipelines.recon.columns import SEPARATOR, split_identity
from holdfast.pipelines.recon.day import Counts, Day, Evidence, PartitionView, Verdict, judge_day
from holdfast.pipelines.recon.exact import HERE_ROWS_MAX, count_wanted, noted_here, suspects_here, tally_of
from holdfast.pipelines.recon.kept import Kept
from holdfast.pipelines.recon.known import Desk as Desk  # noqa: PLC0414  it is told from here
from holdfast.pipelines.recon.known import Known, kept_of, know_day
from holdfast.pipelines.recon.law import Finding, Kind, Law, Place, Sighting, Stage, judge, kinds_of
from holdfast.pipelines.recon.looking import count_offsets, pieces_of_all, view_partitions
from holdfast.pipelines.recon.positions import Positions, awaited, fetch_positions
from holdfast.pipelines.recon.reading import (
    INGESTED,
    LATE,
    NAMELESS,
    ROW_TYPES,
    STATES,
    UNREADABLE,
    number_of,
    read_piece,
    stage_of,
    topics_of,
)
from holdfast.pipelines.recon.summed import Picker
from holdfast.records.fingerprints import Fingerprints
from holdfast.spark.reconcile import Geometry, Group, among, drill, drill_few, search


def close_day(desk: Desk, tenant: str, day: Day, *, now_ms: int | None = None) -> Verdict:
    """Reads what there is of the day and judges it."""
    # Before the views: what a group passes from now on may be beyond them.
    positions = fetch_positions(desk.cluster, desk.pipeline)
    kept = kept_of(desk, tenant, day)
    views = view_partitions(desk.cluster, desk.pipeline, patience=Patience(desk.settle_s_max))
    # After the views: what is held reaches as far as they do.
    with held_beside(desk.session, desk.cluster, desk.pipeline) as held:
        return _close_day(replace(desk, held=held), tenant, day, views, kept, positions, now_ms)


def _close_day(
    desk: Desk,
    tenant: str,
    day: Day,
    views: list[PartitionView],
    kept: Kept | None,
    positions: Positions,
    now_ms: int | None,
) -> Verdict:
    known = know_day(desk, tenant, day, views, kept)
    wanted = where_to_look(known.cells, tenant, day, desk.law)
    found = _count_noted(known.cells, wanted)
    findings: list[Finding] = []
    if wanted:
        rows = _drill(desk, known, wanted)
        # What leaves a day open comes first.
        if any(group.stage < UNREADABLE for group in wanted):
            broken, named = _look(desk, tenant, day, views, rows)
            found += broken
            findings += named
        if any(group.stage in NOTED for group in wanted):
            findings += _noted(desk, rows)
    evidence = Evidence(
        tenant=tenant,
        day=day,
        now_ms=time.time_ns() // 1_000_000 if now_ms is None else now_ms,
        partitions=tuple(views),
        windows={window: counts_of(known.cells, tenant, window) for window in day.windows},
        found=found,
        findings=tuple(findings),
        positions=positions,
        waiting=_waiting(findings, positions),
    )
    return judge_day(evidence, desk.pipeline.budget)


def where_to_look(made: Fingerprints[Group], tenant: str, day: Day, law: Law) -> dict[Group, tuple[int, ...]]:
    """The buckets in which the law may be broken, for every stage; and all records that cannot be read."""
    wanted: dict[Group, tuple[int, ...]] = {}
    for window in day.windows:
        buckets = unbalanced(made, tenant, window, law)
        if buckets:
            wanted |= {Group(tenant, stage, window): tuple(sorted(buckets)) for stage in range(UNREADABLE)}
        for stage in NOTED:
            group = Group(tenant, stage, window)
            if made.count(group):
                wanted[group] = tuple(range(1 << made.bucket_bits))
    return wanted


def counts_of(made: Fingerprints[Group], tenant: str, window: int) -> Counts:
    """What fingerprints know of a window without any further look."""
    return Counts(
        ingested=made.count(Group(tenant, INGESTED, window)),
        audited={
            state: made.count(Group(tenant, number_of(Stage.AUDIT, state), window)) for state in EndState
        },
        delivered={
            state: made.count(Group(tenant, number_of(Stage.DELIVERED, state), window)) for state in EndState
        },
    )


def suspects(rows: DataFrame, law: Law) -> DataFrame:
    """The identities that break the law as far as these rows tell, with how often each was seen at every stage."""
    counted = rows.where(sql.col("stage") < UNREADABLE).groupBy("identity")
    tallies = counted.agg(
        *(sql.count_if(sql.col("stage") == number).alias(_seen(number)) for number in _LAWFUL)
    )
    return tallies.where(~_conserved(law))


def _drill(desk: Desk, known: Known, wanted: Mapping[Group, tuple[int, ...]]) -> DataFrame | pa.Table:
    pieces = known.holding(wanted)
    windows = len({group.window for group in wanted})
    desk.on_progress(f"an exact look at {windows} windows in {count_offsets(pieces):,} offsets")
    geometry = Geometry(seed=known.cells.seed, bucket_bits=known.cells.bucket_bits)
    few = count_wanted(known.cells, wanted) <= HERE_ROWS_MAX
    return (drill_few if few else drill)(
        desk.session,
        pieces,
        Picker(wanted, geometry),
        geometry,
        wanted=wanted,
        schema=ROW_TYPES,
        tasks=desk.tasks,
    )


def _count_noted(made: Fingerprints[Group], wanted: Iterable[Group]) -> "Counter[Kind]":
    found: Counter[Kind] = Counter()
    for group in wanted:
        if group.stage in NOTED:
            found[NOTED[group.stage][0]] += made.count(group)
    return found


def _noted(desk: Desk, rows: DataFrame | pa.Table) -> list[Finding]:
    topics = topics_of(desk.pipeline)
    if isinstance(rows, pa.Table):
        found = [Row(**row) for row in noted_here(rows, desk.named_max)]
    else:
        found = rows.where(sql.col("stage") >= UNREADABLE).limit(desk.named_max).collect()
    return [_note(row, topics[row.topic][0]) for row in found]


def _look(
    desk: Desk, tenant: str, day: Day, views: list[PartitionView], rows: DataFrame | pa.Table
) -> tuple["Counter[Kind]", list[Finding]]:
    if isinstance(rows, pa.Table):
        found = suspects_here(rows, desk.law)
        findings = _name(desk, tenant, day, views, [identity for identity, _ in found[: desk.named_max]])
        if len(found) > desk.named_max:
            return Counter(kind for _, each in found for kind in kinds_of(each, desk.law)), findings
        return Counter(finding.kind for finding in findings), findings
    amiss = suspects(rows, desk.law).persist()
    try:
        # The missing before all others: they are what can be repaired.
        first = amiss.orderBy(_lacking(desk.law).desc()).limit(desk.named_max + 1)
        named = [bytes(row.identity) for row in first.collect()]
        findings = _name(desk, tenant, day, views, named[: desk.named_max])
        if len(named) > desk.named_max:
            return _count_all(amiss, desk.law), findings
        return Counter(finding.kind for finding in findings), findings
    finally:
        amiss.unpersist()


def life_of(desk: Desk, tenant: str, single: str) -> dict[bytes, list[Sighting]]:
    """Every record that is retained of an id, by identity: different sources may have given it."""
    views = view_partitions(desk.cluster, desk.pipeline)
    pieces = pieces_of_all(desk.pipeline, views, window_ms=WINDOW_MS, tasks=desk.tasks)
    desk.on_progress(f"{count_offsets(pieces):,} offsets searched")
    alone, behind = single.encode(), (SEPARATOR + single).encode()

    def matches(column: pa.Array) -> pa.Array:
        return pc.or_(pc.equal(column, alone), pc.ends_with(column, behind))

    return _lives(
        search(desk.session, pieces, read_piece, matches=matches, schema=ROW_TYPES, tasks=desk.tasks), tenant
    )


def _name(desk: Desk, tenant: str, day: Day, views: list[PartitionView], named: list[bytes]) -> list[Finding]:
    """Every record of these messages, wherever it is, and what is wrong with them now that all is known."""
    if not named:
        return []
    desk.on_progress(f"{len(named):,} suspects looked for in all that is retained")
    pieces = place(desk.held, pieces_of_all(desk.pipeline, views, window_ms=day.window_ms, tasks=desk.tasks))
    found = search(desk.session, pieces, read_piece, matches=among(named), schema=ROW_TYPES, tasks=desk.tasks)
    lives = _lives(found, tenant)
    return [
        finding
        for identity in sorted(lives)
        for finding in judge(split_identity(identity)[1], lives[identity], desk.law)
    ]


def _lives(rows: DataFrame, tenant: str) -> dict[bytes, list[Sighting]]:
    lives: dict[bytes, list[Sighting]] = defaultdict(list)
    for row in rows.where((sql.col("tenant") == tenant) & (sql.col("stage") < UNREADABLE)).collect():
        lives[bytes(row.identity)].append(_sighting(row, *stage_of(row.stage)))
    return lives


def _count_all(amiss: DataFrame, law: Law) -> "Counter[Kind]":
    """By kind, from how often each pattern of sightings occurs: what is wrong depends on nothing else."""
    found: Counter[Kind] = Counter()
    columns = [_seen(number) for number in _LAWFUL]
    for row in amiss.groupBy(*columns).count().collect():
        for kind in kinds_of(tally_of({number: row[_seen(number)] for number in _LAWFUL}), law):
            found[kind] += row["count"]
    return found


def _waiting(findings: list[Finding], positions: Positions) -> tuple[Place, ...]:
    found = (awaited(finding, positions) for finding in findings)
    return tuple(sorted({each.place for each in found if each is not None}))


def _conserved(law: Law) -> Column:
    """`is_conserved` as an expression."""
    ended = sum((sql.col(_seen(number_of(Stage.AUDIT, state))) for state in STATES), sql.lit(0))
    ingested = sql.col(_seen(INGESTED))
    lawful = (ended >= 1) & (ended <= ingested)
    for state in law.delivered:
        audited, delivered = (
            sql.col(_seen(number_of(stage, state))) for stage in (Stage.AUDIT, Stage.DELIVERED)
        )
        lawful &= audited == delivered
    return lawful


def _lacking(law: Law) -> Column:
    """Whether a message that came is absent where it should be; those that `kinds_of` calls missing, at least."""
    ended = sum((sql.col(_seen(number)) for number in _LAWFUL if number != INGESTED), sql.lit(0))
    lacks = ended == 0
    for state in EndState:
        audited, delivered = (
            sql.col(_seen(number_of(stage, state))) for stage in (Stage.AUDIT, Stage.DELIVERED)
        )
        lacks |= (audited == 0) & (delivered > 0)
        if state in law.delivered:
            lacks |= (audited > 0) & (delivered == 0)
    return (sql.col(_seen(INGESTED)) > 0) & lacks


def _note(row: Row, stage: Stage) -> Finding:
    kind, why = NOTED[row.stage]
    return Finding(
        kind=kind,
        id=split_identity(bytes(row.identity))[1],
        why=why,
        sightings=(_sighting(row, stage, None),),
    )


def _sighting(row: Row, stage: Stage, state: EndState | None) -> Sighting:
    return Sighting(
        stage=stage,
        end_state=state,
        place=Place(topic=row.topic, partition=row.partition, offset=row.offset),
        time_ms=row.time_ms,
        arrived_ms=row.arrived_ms,
    )


def _seen(number: int) -> str:
    return f"seen_{number}"


_LAWFUL: Final = range(UNREADABLE)

NOTED: Final = {
    UNREADABLE: (Kind.UNPARSABLE, "it tells no end state that is known"),
    NAMELESS: (Kind.UNPARSABLE, "it has no id that can be read"),
    LATE: (Kind.LATE, "it came after the seal of its day"),
}
"""What is named by record, whatever becomes of the message."""
