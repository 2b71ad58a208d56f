"""What keepers publish, with all that fits filled in from the control plane."""

from uuid import UUID

from holdfast.control.plane import ControlPlane
from holdfast.control.replicas import StorePhase
from holdfast.store.footer import ExtentAppended, TopicCreated
from holdfast.store.replica_changes import (
    NOT_LIFTED,
    AddedSegment,
    CarriedExtent,
    ExtentsCarried,
    Granted,
    SegmentsPublished,
)
from holdfast.store.store import CARRIED
from tests.control.frames import Apply

TOPIC = UUID(int=1)


def write_five_extents(apply: Apply) -> None:
    """A partition on stores 1 and 2: [0, 10), [10, 20) … [40, 50), of growing timestamps, 100 bytes each."""
    apply(TopicCreated("orders", TOPIC, [[1, 2]], {}))
    for first in range(0, 50, 10):
        apply(ExtentAppended(TOPIC, 0, first, first + 9, [1, 2], 100, first, 0), stores=(1, 2))


def segment(first: int, end: int, file: str = "", *, length_bytes: int = 50, time: int = 5) -> AddedSegment:
    """A segment of these offsets; half of the records are left."""
    return AddedSegment(first, end, file or f"{first}-{end}", length_bytes, time, (end - first) // 2, -1, 7)


def published(
    plane: ControlPlane,
    store: int,
    *added: AddedSegment,
    removed: tuple[str, ...] = (),
    topic_id: UUID = TOPIC,
    partition: int = 0,
    grant: tuple[int, int, int] = (0, 0, 0),
    mcco: int = NOT_LIFTED,
    mxfo: int = NOT_LIFTED,
    at_ms: int = 1000,
    **other: int,
) -> SegmentsPublished:
    """The next manifest of a replica; `other` replaces what would fit."""
    state = next(each for each in plane.list_stores() if each.store == store)
    removal = plane.find_removal(topic_id, partition)
    generation = next((each.generation for each in removal.replicas if each.store == store), 0) + 1
    fitting = {
        "incarnation": state.incarnation,
        "lease": state.lease,
        "generation": generation,
        "lineage": removal.lineage,
    } | other
    return SegmentsPublished(
        topic_id,
        partition,
        store,
        removed=removed,
        added=added,
        grant=Granted(*grant),
        mcco=mcco,
        mxfo=mxfo,
        at_ms=at_ms,
        **fitting,
    )


def carried(plane: ControlPlane, store: int, *lasts: int, number: int = 0, **other: int) -> ExtentsCarried:
    """Extents of partition 0 in a carried file, one after the other; `other` replaces what would fit."""
    state = next(each for each in plane.list_stores() if each.store == store)
    fitting = {"incarnation": state.incarnation, "lease": state.lease} | other
    extents = tuple(CarriedExtent(TOPIC, 0, last, 100 * place) for place, last in enumerate(lasts))
    return ExtentsCarried(store, file=CARRIED + number, extents=extents, **fitting)


def phases(plane: ControlPlane) -> dict[int, StorePhase]:
    """Where each store stands."""
    return {state.store: state.phase for state in plane.list_stores()}
