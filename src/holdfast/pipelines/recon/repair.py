"""Makes up for exactly the messages that are missing somewhere, once.

What stands elsewhere is forwarded. What stands in ingest alone, though the service has passed it, is ended anew by the
pipeline's own transform. Whoever repairs takes a transactional id of the pipeline first and looks only then: a repair
that was under way before is either committed, and seen, or aborted. All of it becomes visible in one transaction. What
the service or an adapter has still to come to is left to them, and a day of which something may be there that cannot be
seen is left alone: no log takes a duplicate back.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from holdfast.client.producer import partition_of_key
from holdfast.client.transactional_producer import TransactionalProducer
from holdfast.errors import RepairRefused
from holdfast.pipelines.config import Pipeline
from holdfast.pipelines.recon.close import Desk, close_day
from holdfast.pipelines.recon.day import Day, Verdict, unsettled
from holdfast.pipelines.recon.ending import end_anew
from holdfast.pipelines.recon.fetching import fetch_records
from holdfast.pipelines.recon.law import Finding, Kind, Place, Stage
from holdfast.pipelines.recon.positions import Positions, awaited, is_given_up, source_of
from holdfast.records.build import Record

BATCH_RECORDS: Final = 500
REASONS_MAX: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """One record that has to stand in another topic, too."""

    id: str
    source: Place
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What can be done about a day, and what cannot."""

    forwards: tuple[Forward, ...]
    endings: tuple[Finding, ...] = ()
    """Messages that stand in ingest alone, though the service has passed them: to be ended anew."""
    unended: tuple[Finding, ...] = ()
    """Messages that only the service can end: it has still to come to them, or their end states contradict."""
    waiting: int = 0
    """Those that an adapter has still to come to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """What was found, what was planned, and how many messages were made up for."""

    verdict: Verdict
    plan: Plan
    done: int

    @property
    def left(self) -> int:
        """The missing that were only counted: so many more than one look names."""
        found = self.verdict.evidence.findings
        named = sum(finding.kind is Kind.MISSING for finding in found)
        return max(0, self.verdict.evidence.found.get(Kind.MISSING, 0) - named)


def transactional_id(pipeline: Pipeline) -> str:
    """Whose transactions repairs are."""
    return f"{pipeline.name}.repair"


def repair_day(
    desk: Desk, tenant: str, day: Day, *, dry_run: bool = False, now_ms: int | None = None
) -> Repaired:
    """Looks, plans and, unless it is a rehearsal, makes up for what is missing; what was done is not done again.

    RepairRefused if what is missing may be there all the same, or be sent yet.
    """
    producer = TransactionalProducer(desk.cluster, transactional_id(desk.pipeline))
    if not dry_run:
        producer.init()
    verdict = close_day(desk, tenant, day, now_ms=now_ms)
    reasons = [*unsettled(verdict.evidence)]
    if reasons:
        raise RepairRefused(f"nothing was forwarded: {'; '.join(reasons[:REASONS_MAX])}")
    plan = plan_repair(verdict.evidence.findings, desk.pipeline, verdict.evidence.positions)
    done = 0
    if not dry_run and (plan.forwards or plan.endings):
        producer.begin()
        for topic, partition, records in batches_of(desk, plan):
            producer.send(topic, partition, records)
        producer.commit()
        done = len(plan.forwards) + len(plan.endings)
    return Repaired(verdict=verdict, plan=plan, done=done)


def plan_repair(findings: Iterable[Finding], pipeline: Pipeline, positions: Positions) -> Plan:
    """For each missing message that nobody has still to come to the record to forward, if there is one."""
    forwards: list[Forward] = []
    endings: list[Finding] = []
    unended: list[Finding] = []
    spared = 0
    for finding in findings:
        if finding.kind is not Kind.MISSING:
            continue
        source, waiting = source_of(finding), awaited(finding, positions)
        if waiting is not None and waiting.stage is Stage.DELIVERED:
            spared += 1
        elif waiting is not None or source is None:
            (endings if is_given_up(finding, positions) else unended).append(finding)
        else:
            assert source.end_state is not None
            target = pipeline.audit if source.stage is Stage.DELIVERED else pipeline.topics[source.end_state]
            forwards.append(Forward(id=finding.id, source=source.place, target=target))
    return Plan(forwards=tuple(forwards), endings=tuple(endings), unended=tuple(unended), waiting=spared)


def batches_of(desk: Desk, plan: Plan) -> Iterator[tuple[str, int, Sequence[Record]]]:
    """Every record that the plan asks for, by topic and partition, as it is to be sent."""
    cluster = desk.cluster
    ingested = [finding.sightings[0].place for finding in plan.endings]
    records = fetch_records(cluster, [*(each.source for each in plan.forwards), *ingested])
    due = [(each.target, each.source, records[each.source]) for each in plan.forwards]
    due += end_anew(desk, {place: records[place] for place in ingested})
    counts = {topic: len(cluster.topic(topic).partitions) for topic in {topic for topic, _, _ in due}}
    batches: dict[tuple[str, int], list[Record]] = defaultdict(list)
    for topic, source, record in due:
        into = source.partition % counts[topic]
        if record.key is not None:
            into = partition_of_key(record.key, counts[topic])
        batches[topic, into].append(record)
    for (topic, partition), queue in batches.items():
        for start in range(0, len(queue), BATCH_RECORDS):
            yield topic, partition, queue[start : start + BATCH_RECORDS]
