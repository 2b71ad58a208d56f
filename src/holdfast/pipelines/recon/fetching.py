"""Single records by their coordinates, as they would be sent."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from holdfast.client.cluster import Cluster
from holdfast.client.offsets import Isolation
from holdfast.client.reader import OffsetRange, read_range
from holdfast.errors import OffsetOutOfRange
from holdfast.pipelines.recon.law import Place
from holdfast.records.build import Record, read_records

GAP_MAX: Final = 1_000
"""Records that lie closer together are fetched together, with what is between them."""


def fetch_records(cluster: Cluster, places: Iterable[Place]) -> Mapping[Place, Record]:
    """The records there, without their offsets: as they would be sent."""
    found: dict[Place, Record] = {}
    wanted = sorted(set(places))
    for near in _runs(wanted):
        first, last = near[0], near[-1]
        span = OffsetRange(
            topic=first.topic, partition=first.partition, start=first.offset, end=last.offset + 1
        )
        sought = {place.offset: place for place in near}
        for chunk in read_range(cluster, span, isolation=Isolation.READ_COMMITTED, fetch_bytes=1 << 20):
            for batch in chunk.batches:
                for record in () if batch.is_control else read_records(batch):
                    if record.offset in sought:
                        found[sought[record.offset]] = Record(
                            key=record.key,
                            value=record.value,
                            headers=record.headers,
                            timestamp_ms=record.timestamp_ms,
                        )
    for place in wanted:
        if place not in found:
            raise OffsetOutOfRange(f"{place} is gone: it was removed since it was seen")
    return found


def fetch_record(cluster: Cluster, place: Place) -> Record:
    """One of them."""
    return fetch_records(cluster, [place])[place]


def _runs(places: Sequence[Place]) -> Iterator[list[Place]]:
    """Neighbours in one partition, of a sorted sequence."""
    run = list(places[:1])
    for before, place in pairwise(places):
        near = (before.topic, before.partition) == (place.topic, place.partition)
        if not near or place.offset - before.offset > GAP_MAX:
            yield run
            run = []
        run.append(place)
    if run:
        yield run
