"""Readings (`client/readings.py`) for those who read the stores' files: one plan as of one moment, and its files held.

**Why one moment.** A record below the last stable offset L may be compacted away while it is on its way to a reader,
because its key has a newer one at L or above. Who then reads on from the new segments sees neither: at L that key
was never missing. So all pieces come from one snapshot of the control plane, and the files that it names are held.
"""

import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from holdfast.agent.catalog import Catalog
from holdfast.agent.pins import Pins, StoreFilesHeld
from holdfast.agent.topic_config import is_compacted
from holdfast.client.readings import (
    HELD_SECONDS_MAX,
    NotExamined,
    PartitionReading,
    Reading,
    ReadingNamed,
    ReadingWanted,
    ReplicaPieces,
    SegmentPiece,
    TailPiece,
    pack_tail,
)
from holdfast.control.plane import ControlPlane, Extent, LogBounds, Topic, is_hidden
from holdfast.control.replicas import Segment, StorePhase
from holdfast.errors import ReadingRefused

EXTENTS_MAX = 500_000
"""Of all replicas of one reading; their places are what its answer is mostly made of."""

Pieces = Sequence[Segment | Extent]


class _Replica(NamedTuple):
    topic: Topic
    partition: int
    store: int


class Readings:
    """Takes, renews and releases readings. Not for the event loop's thread."""

    def __init__(
        self,
        plane: ControlPlane,
        catalog: Catalog,
        pins: Pins,
        *,
        directories: Mapping[int, str],
        cluster_id: str,
    ) -> None:
        self._plane = plane
        self._catalog = catalog
        self._pins = pins
        self._directories = directories
        self._cluster_id = cluster_id
        # A plan may take a second and megabytes: one after the other.
        self._planning = threading.Lock()

    def take(self, wanted: ReadingWanted) -> Reading:
        """The log as it is now; ReadingRefused if that cannot be read, UnknownTopicOrPartition."""
        seconds = _check_seconds(wanted.seconds)
        topics = [self._catalog.get(name) for name in wanted.topics]
        with self._planning:
            not_examined: list[NotExamined] = []
            replicas = [
                replica
                for topic in topics
                for partition in range(len(topic.partitions))
                for replica in self._choose(topic, partition, wanted, not_examined)
            ]
            with self._pins.lock:
                logs = self._plane.find_logs(
                    [(topic.topic_id, partition, store) for topic, partition, store in replicas], EXTENTS_MAX
                )
                name = self._pins.add(_files(replicas, logs), seconds)
            try:
                partitions = self._describe(replicas, logs, wanted)
            except BaseException:
                self._pins.release(name)
                raise
        return Reading(
            name=name,
            cluster_id=self._cluster_id,
            seconds=seconds,
            partitions=partitions,
            not_examined=not_examined,
        )

    def renew(self, wanted: ReadingNamed) -> None:
        """Hold its files for longer; ReadingOver."""
        self._pins.renew(wanted.name, _check_seconds(wanted.seconds))

    def release(self, wanted: ReadingNamed) -> None:
        """Its files may go."""
        self._pins.release(wanted.name)

    def _choose(
        self, topic: Topic, partition: int, wanted: ReadingWanted, not_examined: list[NotExamined]
    ) -> list[_Replica]:
        """The replicas to read; those that cannot be read are refused, or noted if all are wanted."""
        about = topic.partitions[partition]
        phases = {state.store: state.phase for state in self._plane.list_stores()}

        def find_fault(store: int) -> str | None:
            if store not in about.replicas:
                return f"store {store} has no replica of {topic.name}:{partition}"
            if store not in self._directories:
                return f"store {store} is not of this machine"
            if store in about.joining or phases.get(store) is not StorePhase.IN_SYNC:
                return f"store {store} is not in sync: it may lack some of {topic.name}:{partition}"
            return None

        if wanted.store is not None:
            fault = find_fault(wanted.store)
            if fault is not None:
                raise ReadingRefused(fault)
            return [_Replica(topic, partition, wanted.store)]
        # The leader first: whoever takes any replica spreads as clients do.
        stores = sorted(about.replicas, key=lambda store: store != about.leader)
        faults = {store: find_fault(store) for store in stores}
        sound = [_Replica(topic, partition, store) for store in stores if faults[store] is None]
        if wanted.all_replicas:
            not_examined += (
                NotExamined(topic=topic.name, partition=partition, store=store, why=fault)
                for store, fault in faults.items()
                if fault is not None
            )
            return sound
        if not sound:
            raise ReadingRefused(f"no replica of {topic.name}:{partition} is in sync")
        return sound[:1]

    def _describe(
        self,
        replicas: Sequence[_Replica],
        logs: Sequence[tuple[LogBounds, Pieces]],
        wanted: ReadingWanted,
    ) -> list[PartitionReading]:
        incarnations = {state.store: state.incarnation for state in self._plane.list_stores()}
        found: dict[tuple[str, int], PartitionReading] = {}
        for (topic, partition, store), (bounds, pieces) in zip(replicas, logs, strict=True):
            end = bounds.last_stable if wanted.committed_only else bounds.end
            reading = found.setdefault(
                (topic.name, partition),
                PartitionReading(
                    topic=topic.name,
                    partition=partition,
                    start=bounds.start,
                    end=end,
                    is_compacted=is_compacted(topic) or self._was_compacted(topic, partition),
                    replicas=[],
                ),
            )
            held_to = pieces[-1].end if pieces else bounds.start
            if held_to < end:
                raise ReadingRefused(
                    f"store {store} holds {topic.name}:{partition} up to {held_to} only, not to {end}"
                )
            reading.replicas.append(
                ReplicaPieces(
                    store=store,
                    incarnation=incarnations[store],
                    directory=self._directories[store],
                    segments=[_segment(piece) for piece in pieces if isinstance(piece, Segment)],
                    packed_tail=pack_tail(
                        _tail_piece(piece, store)
                        for piece in pieces
                        if isinstance(piece, Extent) and _is_shown(piece, end, wanted)
                    ),
                )
            )
        return list(found.values())

    def _was_compacted(self, topic: Topic, partition: int) -> bool:
        """Whether keys were dropped under a policy that the topic had once."""
        replicas = self._plane.find_removal(topic.topic_id, partition).replicas
        return any(isinstance(each.cleaned.mcco, int) and each.cleaned.mcco > 0 for each in replicas)


def _check_seconds(seconds: float) -> float:
    if not 0 < seconds <= HELD_SECONDS_MAX:
        raise ReadingRefused(f"files are held for up to {HELD_SECONDS_MAX:.0f} s, not for {seconds} s")
    return seconds


def _files(
    replicas: Sequence[_Replica], logs: Sequence[tuple[LogBounds, Pieces]]
) -> dict[int, StoreFilesHeld]:
    held: defaultdict[int, StoreFilesHeld] = defaultdict(StoreFilesHeld)
    for replica, (_, pieces) in zip(replicas, logs, strict=True):
        for piece in pieces:
            if isinstance(piece, Segment):
                held[replica.store].segments.add(piece.file)
            elif replica.store in piece.places:
                held[replica.store].journals.add(piece.places[replica.store].journal)
    return dict(held)


def _is_shown(extent: Extent, end: int, wanted: ReadingWanted) -> bool:
    return extent.first < end and not (wanted.committed_only and is_hidden(extent))


def _segment(segment: Segment) -> SegmentPiece:
    return SegmentPiece(
        first=segment.first,
        end=segment.end,
        file=segment.file,
        length_bytes=segment.length_bytes,
        records=segment.records,
        crc=segment.crc,
        tombstones_end=segment.grant.tombstones_end,
    )


def _tail_piece(extent: Extent, store: int) -> TailPiece:
    place = extent.places.get(store)
    if place is None:
        raise ReadingRefused(f"store {store} lacks offsets {extent.first} to {extent.last}")
    return TailPiece(
        first=extent.first,
        end=extent.end,
        journal=place.journal,
        position=place.position,
        length_bytes=extent.length_bytes,
    )
