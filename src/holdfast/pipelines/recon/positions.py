"""How far the service and the adapters are: whether what is not where it should be may still be on its way.

A group's position never runs ahead of its reader. Holdfast's source tells it where a micro-batch begins, when all
before it is committed; with `reader: kafka` it is told of batches that have ended, later, or never. So whatever lies
before a position was decided before the position was asked for. Who judges therefore asks in this order, each step
when the one before is answered, and each end of a topic before its last stable offset:

    positions → end of audit → ends of the end states' topics → end of ingest

- Ingested, passed by the service, and ended nowhere; delivered, passed by the adapter, and not in audit: what became
  of it was written before the ends were asked for. There is nothing, and nothing will come.
- The same, but not passed: it may have come to its end since, where nobody looked. It is left to whoever reads it.
- Delivered, not in audit, and no adapter: one transaction, or two sends, may have come between the two ends. Then the
  service had not passed it.
- In audit and not delivered: both are of one transaction, or it was delivered first, and that end was asked for later.
- Ended and not ingested: it was ingested before it ended, and that end was asked for last.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.client.cluster import Cluster
from holdfast.client.groups import TopicPartition, fetch_group_offsets
from holdfast.pipelines.config import Mode, Pipeline
from holdfast.pipelines.recon.law import Finding, Kind, Place, Sighting, Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Positions:
    """Of the groups that take messages further."""

    service: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Empty where the group has none: nobody reads by that name, so nobody is waited for."""
    adapters: Mapping[TopicPartition, int] | None = None
    """None in delivery modes without adapters. One that has no position has everything before it."""

    def is_passed_by_service(self, place: Place) -> bool:
        """Whether it is done with the record."""
        return place.offset < self.service.get(_of(place), 0)

    def awaits_service(self, place: Place) -> bool:
        """Whether it has still to come to the record, if it lives."""
        return bool(self.service) and not self.is_passed_by_service(place)

    def awaits_adapter(self, place: Place) -> bool:
        """The same of the one that forwards it."""
        return self.adapters is not None and place.offset >= self.adapters.get(_of(place), 0)


def fetch_positions(cluster: Cluster, pipeline: Pipeline) -> Positions:
    """As they stand now; to be asked for before any end of a topic."""
    told = fetch_group_offsets(cluster, pipeline.service_group)
    service = {place: offset for place, offset in told.items() if place.topic == pipeline.ingest}
    if pipeline.mode is not Mode.ADAPTER:
        return Positions(service=service)
    adapters: dict[TopicPartition, int] = {}
    for adapter in pipeline.adapters:
        adapters |= fetch_group_offsets(cluster, adapter.group)
    return Positions(service=service, adapters=adapters)


def awaited(finding: Finding, positions: Positions) -> Sighting | None:
    """The record that somebody has still to come to, who may put right what was found; None if nobody has."""
    audited, delivered = (
        sum(each.stage is stage for each in finding.sightings) for stage in (Stage.AUDIT, Stage.DELIVERED)
    )
    # Of an id that was ingested twice, one may be where it belongs and the other on its way.
    is_behind = finding.kind is Kind.DUPLICATE and audited < delivered
    if finding.kind is not Kind.MISSING and not is_behind:
        return None
    for each in finding.sightings:
        if each.stage is Stage.INGEST and positions.awaits_service(each.place):
            return each
        if each.stage is Stage.DELIVERED and audited < delivered and positions.awaits_adapter(each.place):
            return each
    return None


def source_of(finding: Finding) -> Sighting | None:
    """What is forwarded: audit and the end state's topic make up for each other, unless they contradict each other."""
    ended = [each for each in finding.sightings if each.stage is not Stage.INGEST]
    if len({each.end_state for each in ended}) != 1:
        return None
    audited = [each for each in ended if each.stage is Stage.AUDIT]
    return audited[0] if audited else ended[0]


def is_given_up(finding: Finding, positions: Positions) -> bool:
    """Whether it stands in ingest alone, though the service has passed it."""
    return all(
        each.stage is Stage.INGEST and positions.is_passed_by_service(each.place)
        for each in finding.sightings
    )


def can_be_made_up_for(finding: Finding, positions: Positions) -> bool:
    """Whether a repair would do anything about it."""
    if finding.kind is not Kind.MISSING or awaited(finding, positions) is not None:
        return False
    return source_of(finding) is not None or is_given_up(finding, positions)


def _of(place: Place) -> TopicPartition:
    return TopicPartition(place.topic, place.partition)
