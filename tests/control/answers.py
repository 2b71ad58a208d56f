"""All that a control plane has to say about a small world, so that two of them can be compared."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from uuid import UUID

from holdfast.control.memory import MemoryControlPlane
from holdfast.control.plane import ControlPlane, Extent, LogBounds
from holdfast.control.replicas import PartitionRemoval
from holdfast.control.sqlite import SqliteControlPlane
from holdfast.errors import HoldfastError

IDS = tuple(UUID(int=number) for number in (1, 2, 3))
PARTITIONS = range(3)
GROUPS = ("g", "h")
STORES = (1, 2, 3)
TRANSACTIONAL_IDS = ("s", "t")


def answers(plane: ControlPlane) -> list[object]:
    """What every verb that reads says."""
    return [
        *map(plane.find_checkpoint, STORES),
        *map(plane.find_oldest_journal, STORES),
        *map(plane.find_carried, STORES),
        plane.list_stores(),
        *log_answers(plane),
    ]


def frame_answers(plane: ControlPlane) -> list[object]:
    """What follows from the frames alone, whichever stores they were read from: not where anything lies."""
    stores = [replace(state, checkpoint=None) for state in plane.list_stores()]
    return [stores, *map(_without_places, log_answers(plane))]


def log_answers(plane: ControlPlane) -> list[object]:
    """The same without what only the stores of a frame decide, or that is in no frame; places aside."""
    return [
        plane.find_applied(),
        plane.find_in_sync(),
        *map(plane.list_behind, STORES),
        *map(plane.list_files, STORES),
        plane.list_topics(),
        plane.find_next_producer_id(),
        plane.list_groups(),
        *map(plane.find_group, GROUPS),
        *map(plane.find_group_offsets, GROUPS),
        *map(plane.find_staged, GROUPS),
        plane.list_transactional_ids(),
        *map(plane.find_transactional_id, TRANSACTIONAL_IDS),
        plane.find_next_instance(),
        *map(plane.find_instance_partitions, range(plane.find_next_instance() + 1)),
        *(list(_partition_answers(plane, topic_id, number)) for topic_id in IDS for number in PARTITIONS),
    ]


def answer_or_refusal(ask: Callable[[], object]) -> object:
    """The answer, or what kind of refusal with which words."""
    try:
        return ask()
    except HoldfastError as refusal:
        return type(refusal), str(refusal)


def _partition_answers(plane: ControlPlane, topic_id: UUID, partition: int) -> Iterator[object]:
    key = (topic_id, partition)
    yield plane.find_producers(*key)
    yield plane.find_open_instances(*key)
    yield [plane.find_size(*key, store) for store in STORES]
    yield answer_or_refusal(partial(plane.find_partition, *key))
    bounds = answer_or_refusal(partial(plane.find_bounds, *key))
    yield bounds
    removal = answer_or_refusal(partial(plane.find_removal, *key))
    yield removal
    start, offsets, epochs, trimmed_to = 0, {0}, [0], 0
    if isinstance(bounds, LogBounds) and isinstance(removal, PartitionRemoval):
        start, end, trimmed_to = bounds.start, bounds.end, removal.trimmed_to
        offsets, epochs = {start - 1, start, (start + end) // 2, end}, [-1, 0, 1, 3]
        for store in STORES:
            yield plane.find_segments(*key, store, (start + end) // 2)
            yield answer_or_refusal(partial(plane.find_held, *key, store))
            yield answer_or_refusal(partial(plane.find_pieces, *key, store, start, 1 << 30))
    for leader_epoch in epochs:
        yield answer_or_refusal(partial(plane.find_epoch_end, *key, leader_epoch))
    for offset in offsets:
        if not start <= offset < trimmed_to:
            for bytes_max in (40, 1 << 30):
                yield answer_or_refusal(partial(plane.find_extents, *key, offset, bytes_max))
        store = STORES[offset % len(STORES)]
        yield answer_or_refusal(partial(plane.find_pieces, *key, store, offset, 25))
        if offset >= start:
            yield answer_or_refusal(partial(plane.find_extent_of_max_time, *key, store, offset))
            yield answer_or_refusal(partial(plane.find_extent_by_time, *key, store, offset, 3))


def _without_places(answer: object) -> object:
    if isinstance(answer, list | tuple):
        return [_without_places(each) for each in answer]
    return replace(answer, places={}) if isinstance(answer, Extent) else answer


def named_instances(plane: ControlPlane) -> set[int]:
    """The transaction instances that are still known."""
    if isinstance(plane, MemoryControlPlane):
        return set(plane._state.instances)
    assert isinstance(plane, SqliteControlPlane)
    return {instance for (instance,) in plane._reader.execute("SELECT instance FROM instances")}
