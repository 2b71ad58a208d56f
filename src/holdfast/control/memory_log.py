"""Reading logs and replicas in the in-memory control plane: functions of one state."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from uuid import UUID

from holdfast.control.memory_state import PartitionRow, State
from holdfast.control.plane import EXTENTS_PER_PLAN_MAX, Extent, LogBounds, Partition
from holdfast.control.replicas import (
    PartitionRemoval,
    ReplicaManifest,
    Segment,
    StorePhase,
    check_extents_left,
)
from holdfast.errors import NotLeaderOrFollower, UnknownTopicOrPartition
from holdfast.store.replica_changes import HeldTo


def get_partition(state: State, topic_id: UUID, partition: int) -> PartitionRow:
    """The row; UnknownTopicOrPartition."""
    row = state.partitions.get((topic_id, partition))
    if row is None:
        raise UnknownTopicOrPartition(f"no partition {partition} of topic {topic_id}")
    return row


def get_served(state: State, topic_id: UUID, partition: int, store: int) -> PartitionRow:
    """The row; NotLeaderOrFollower if the store has no replica of it, or is fenced."""
    row = get_partition(state, topic_id, partition)
    if store not in row.replicas or state.phase(store) is StorePhase.FENCED:
        raise NotLeaderOrFollower(f"store {store} does not serve partition {partition} of {topic_id}")
    return row


def describe(row: PartitionRow) -> Partition:
    """Who holds it, who leads it, and who is joining."""
    joining = (store for store, replica in row.replicas.items() if replica.joined_from is not None)
    return replace(row.partition, joining=tuple(sorted(joining)))


def find_extents(state: State, row: PartitionRow, offset: int, bytes_max: int) -> list[Extent]:
    """From the one that holds `offset` on, until they have so many bytes."""
    found: list[Extent] = []
    if row.start <= offset < row.end:
        for extent in extents_from(row, offset):
            found.append(show(state, row, extent))
            bytes_max -= extent.length_bytes
            if bytes_max <= 0 or len(found) == EXTENTS_PER_PLAN_MAX:
                break
    return found


def find_pieces(
    state: State, row: PartitionRow, store: int, offset: int, bytes_max: int
) -> list[Segment | Extent]:
    """What a reader of one store reads."""
    found: list[Segment | Extent] = []
    if not row.start <= offset < row.end:
        return found
    held = row.replicas[store].held(row.start, row.end)
    for piece in pieces_from(row, store, offset):
        if piece.end > held:
            break
        found.append(piece if isinstance(piece, Segment) else show(state, row, piece))
        if len(found) == EXTENTS_PER_PLAN_MAX:
            break
        if isinstance(piece, Segment) and (piece.first < offset or piece.length_bytes == 0):
            continue
        bytes_max -= piece.length_bytes
        if bytes_max <= 0:
            break
    return found


def find_logs(
    state: State, wanted: Sequence[tuple[UUID, int, int]], extents_max: int
) -> list[tuple[LogBounds, list[Segment | Extent]]]:
    """All of several replicas."""
    found = []
    for topic_id, partition, store in wanted:
        row = get_served(state, topic_id, partition, store)
        held = row.replicas[store].held(row.start, row.end)
        pieces = [piece for piece in pieces_from(row, store, row.start) if piece.end <= held]
        extents_max -= sum(isinstance(piece, Extent) for piece in pieces)
        check_extents_left(extents_max)
        shown = [piece if isinstance(piece, Segment) else show(state, row, piece) for piece in pieces]
        found.append((state.bounds(row), shown))
    return found


def find_removal(state: State, row: PartitionRow) -> PartitionRemoval:
    """All that coordination knows of a partition."""
    return PartitionRemoval(
        lineage=row.group.lineage,
        membership=row.group.membership,
        removable=row.group.removable,
        coverage=row.group.coverage,
        trimmed_to=row.group.trimmed_to,
        replicas=tuple(
            ReplicaManifest(
                store=store,
                incarnation=state.stores[store].kept.incarnation if store in state.stores else 1,
                generation=replica.generation,
                settled_to=replica.settled_to,
                held_to=replica.held(row.start, row.end),
                joined_from=replica.joined_from,
                cleaned=replica.cleaned,
                clean_coverage=replica.clean_coverage,
            )
            for store, replica in sorted(row.replicas.items())
            if state.phase(store) is not StorePhase.FENCED
        ),
    )


def list_behind(state: State, store: int) -> list[HeldTo]:
    """The partitions of which a store lacks something."""
    held = [
        (HeldTo(topic_id, partition, row.replicas[store].held(row.start, row.end)), row.end)
        for (topic_id, partition), row in sorted(state.partitions.items())
        if store in row.replicas
    ]
    return [each for each, end in held if each.held_to < end]


def files_of_extents(state: State, store: int) -> set[int]:
    """The journals and carried files that hold what a store has not settled."""
    return {
        extent.places[store].journal
        for row in state.partitions.values()
        for extent in extents_from(row, row.start)
        if store in extent.places and _counts(state, row, extent, store)
    }


def pieces_from(row: PartitionRow, store: int, offset: int) -> Iterator[Segment | Extent]:
    """The segments on a store from the one that covers `offset` on, then the extents above."""
    yield from segments_from(row, store, offset)
    yield from extents_from(row, max(offset, row.replicas[store].settled_to))


def kept_from(row: PartitionRow, store: int, offset: int) -> Iterator[Segment | Extent]:
    """The same without extents that may be trimmed at any moment."""
    yield from segments_from(row, store, offset)
    yield from extents_from(row, max(offset, row.replicas[store].settled_to, row.group.trimmed_to))


def segments_from(row: PartitionRow, store: int, offset: int) -> list[Segment]:
    """The segments on a store from the one that covers `offset` on."""
    return [segment for segment in row.segments.get(store, ()) if segment.end > offset]


def extents_from(row: PartitionRow, offset: int) -> Iterator[Extent]:
    """The extents from the one that holds `offset` on."""
    return (extent for extent in row.extents if extent.last >= offset)


def show(state: State, row: PartitionRow, extent: Extent) -> Extent:
    """The extent with what became of its instance, and with the places that count."""
    instance = state.instances.get(extent.instance)
    return replace(
        extent,
        places={store: place for store, place in extent.places.items() if _counts(state, row, extent, store)},
        outcome=None if instance is None else instance.outcome,
    )


def _counts(state: State, row: PartitionRow, extent: Extent, store: int) -> bool:
    if store not in row.replicas or state.phase(store) is StorePhase.FENCED:
        return False
    return row.replicas[store].has(extent.first, extent.last)
