"""All that a control plane has to say about a small world, so that two of them can be compared."""

from collections.abc import Callable, Iterator
from functools import partial
from uuid import UUID

from holdfast.control.memory import MemoryControlPlane
from holdfast.control.plane import ControlPlane, LogBounds
from holdfast.control.sqlite import SqliteControlPlane
from holdfast.errors import HoldfastError

IDS = tuple(UUID(int=number) for number in (1, 2, 3))
PARTITIONS = range(3)
GROUPS = ("g", "h")
STORES = (1, 2, 3)
TRANSACTIONAL_IDS = ("s", "t")


def answers(plane: ControlPlane) -> list[object]:
    """What every verb that reads says."""
    return [plane.find_in_sync(), *map(plane.find_checkpoint, STORES), *log_answers(plane)]


def log_answers(plane: ControlPlane) -> list[object]:
    """The same without the stores: what follows from the frames alone."""
    return [
        plane.find_applied(),
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
    start, offsets, epochs = 0, {0}, [0]
    if isinstance(bounds, LogBounds):
        start, end = bounds.start, bounds.end
        offsets, epochs = {start - 1, start, (start + end) // 2, end}, [-1, 0, 1, 3]
    for leader_epoch in epochs:
        yield answer_or_refusal(partial(plane.find_epoch_end, *key, leader_epoch))
    for offset in offsets:
        for bytes_max in (40, 1 << 30):
            yield answer_or_refusal(partial(plane.find_extents, *key, offset, bytes_max))
        if offset >= start:
            for store in STORES:
                yield answer_or_refusal(partial(plane.find_extent_of_max_time, *key, store, offset))
                yield answer_or_refusal(partial(plane.find_extent_by_time, *key, store, offset, 3))


def named_instances(plane: ControlPlane) -> set[int]:
    """The transaction instances that are still known."""
    if isinstance(plane, MemoryControlPlane):
        return set(plane._state.instances)
    assert isinstance(plane, SqliteControlPlane)
    return {instance for (instance,) in plane._reader.execute("SELECT instance FROM instances")}
