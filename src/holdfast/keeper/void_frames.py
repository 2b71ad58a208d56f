"""Frames that lie in the journals and never counted: the control plane refused them. Pure.

A replay through a control plane would come to the same verdict; but whoever checks the control plane cannot ask it.
"""

from collections.abc import Sequence

from holdfast.keeper.grants import Frame, Key
from holdfast.store.footer import Change
from holdfast.store.replica_changes import KeeperLeased, ReplicasAssigned, SegmentsPublished


def find_void(frames: Sequence[Frame]) -> frozenset[int]:
    """Frames that the control plane refused, as far as later ones tell: they give a number that it gave once more.

    Generations and leases go up by one and are never given twice, but when the first time did not count. It did count
    if a segment that it added gave way to another later: then the second time was wrong, and the ledger says so. A
    partition that got other replicas may have counted generations from 1 again.
    """
    given: dict[object, int] = {}
    replaced: set[tuple[int, str]] = set()
    void: set[int] = set()
    for frame in reversed(frames):
        numbers = [number for change in frame.changes for number in _numbers(change)]
        is_given_again = any(number >= given.get(what, number + 1) for what, number in numbers)
        published = [change for change in frame.changes if isinstance(change, SegmentsPublished)]
        added = {(change.store, segment.file) for change in published for segment in change.added}
        if is_given_again and not added & replaced:
            void.add(frame.number)
            continue
        replaced.update((change.store, file) for change in published for file in change.removed)
        for what, number in numbers:
            given[what] = min(number, given.get(what, number))
        for change in frame.changes:
            if isinstance(change, ReplicasAssigned):
                key = (change.topic_id, change.partition)
                given = {what: number for what, number in given.items() if not _concerns(what, key)}
    return frozenset(void)


def _numbers(change: Change) -> list[tuple[object, int]]:
    if isinstance(change, SegmentsPublished):
        key = (change.topic_id, change.partition)
        return [((key, change.store, change.incarnation), change.generation)]
    return [(change.store, change.lease)] if isinstance(change, KeeperLeased) else []


def _concerns(what: object, key: Key) -> bool:
    return isinstance(what, tuple) and what[0] == key
