"""Two partitions on two stores, and what each store holds of them."""

from holdfast.control.plane import ControlPlane
from holdfast.store.footer import ExtentAppended, TopicCreated
from holdfast.store.replica_changes import (
    StoreLeft,
)
from tests.control.frames import Apply
from tests.control.manifests import TOPIC


def extent(first: int, *stores: int, partition: int = 0) -> ExtentAppended:
    """Ten offsets."""
    return ExtentAppended(TOPIC, partition, first, first + 9, list(stores), 100, first, 0)


def write_two_partitions(apply: Apply) -> None:
    """On stores 1 and 2: the offsets [0, 30) in the first, [0, 10) in the second."""
    apply(TopicCreated("orders", TOPIC, [[1, 2], [1, 2]], {}), stores=(1, 2))
    apply(extent(0, 1, 2), extent(0, 1, 2, partition=1), stores=(1, 2))
    apply(extent(10, 1, 2), extent(20, 1, 2), stores=(1, 2))


def held(plane: ControlPlane, store: int = 2) -> list[int]:
    """What a store holds of both partitions."""
    return [plane.find_held(TOPIC, partition, store) for partition in (0, 1)]


def raw_held(plane: ControlPlane, store: int = 2) -> list[tuple[int, int | None]]:
    """(held to, joined from) in both manifests."""
    return [
        (each.held_to, each.joined_from)
        for partition in (0, 1)
        for each in plane.find_removal(TOPIC, partition).replicas
        if each.store == store
    ]


def leave(plane: ControlPlane, apply: Apply, store: int = 2) -> None:
    """Say that a lost store has left, as the commit does."""
    apply(StoreLeft(store, tuple(plane.list_behind(store))))
