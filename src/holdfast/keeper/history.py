"""The history of a log's grants as one store tells it: its journals, and a snapshot for those that are gone."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from holdfast.control.plane import ControlPlane
from holdfast.control.replicas import StorePhase
from holdfast.control.sqlite import SqliteControlPlane
from holdfast.control.sqlite_restore import check_snapshot
from holdfast.errors import StoreFailed, UsageError
from holdfast.keeper.grants import (
    Frame,
    GrantLedger,
    GroupAccount,
    Key,
    ReplicaAccount,
    StoreAccount,
    Violation,
)
from holdfast.keeper.void_frames import find_void
from holdfast.rules.removal import Unreported
from holdfast.store.footer import LogStartMoved, PartitionsAdded, TopicCreated, TopicDeleted, decode_sound
from holdfast.store.footers import find_last_frame, read_footers
from holdfast.store.journals import FIRST_FRAME, list_journals
from holdfast.store.replica_changes import ReplicaChange
from holdfast.store.snapshots import Snapshots

_FOLLOWED = (TopicCreated, TopicDeleted, PartitionsAdded, LogStartMoved, ReplicaChange)
_MENTIONED = tuple(b'["%s"' % kind.kind.encode() for kind in (*_FOLLOWED[:-1], *get_args(ReplicaChange)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What a check has looked at, and what it has found."""

    store: int
    snapshot: int | None
    """The frame of the snapshot that it began with and believed; None if it began with the first frame."""
    first_frame: int
    last_frame: int
    void_frames: int
    """Frames that never counted."""
    partitions: int
    rewrites: int
    violation: Violation | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """The frames that follow each other without a gap up to the last; only what a ledger follows is kept of them."""

    first: int
    last: int
    frames: list[Frame]


def check_grants(
    data: Path, *, store: int | None = None, on_frame: Callable[[int], None] = lambda number: None
) -> Checked:
    """Replay the footers of one store, of the one that knows most by default, up to the first violation.

    Reads only; a Holdfast that is running is not disturbed, and what it writes meanwhile is not looked at.
    StoreFailed if the store cannot be read, or if no snapshot stands for the frames that are gone.
    """
    directories = _find_stores(data)
    if store is None:
        store = max(directories, key=lambda number: _knowledge(directories[number]))
    elif store not in directories:
        raise UsageError(f"--store {store}: {data} has stores {', '.join(map(str, directories))}")
    told = _read(directories[store], on_frame)
    with tempfile.TemporaryDirectory(prefix="holdfast-check-") as drafts:
        snapshot, ledger = _begin(directories, store, told, Path(drafts))
    frames = [frame for frame in told.frames if frame.number > (snapshot or 0)]
    void = find_void(frames)
    violation = None if snapshot is None else ledger.check_start(snapshot)
    for frame in frames:
        if violation is None and frame.number not in void:
            violation = ledger.follow(frame)
    return Checked(
        store=store,
        snapshot=snapshot,
        first_frame=told.first if snapshot is None else snapshot + 1,
        last_frame=told.last,
        void_frames=len(void),
        partitions=ledger.partitions,
        rewrites=ledger.rewrites,
        violation=violation,
    )


def _find_stores(data: Path) -> dict[int, Path]:
    found = {
        int(path.name): path
        for path in sorted((data / "stores").glob("*"))
        if path.name.isdecimal() and list_journals(path)
    }
    if not found:
        raise UsageError(f"{data} has no stores with journals: is it a data directory of Holdfast?")
    return found


def _knowledge(directory: Path) -> tuple[int, int]:
    """How far a store's history reaches, then how early it begins."""
    return find_last_frame(directory), -list_journals(directory)[0]


def _read(directory: Path, on_frame: Callable[[int], None]) -> _Told:
    first = last = 0
    frames: list[Frame] = []
    for number, footer in read_footers(directory):
        if number != last + 1 or not first:
            # What lies before a gap cannot be continued.
            first, frames = number, []
        last = number
        on_frame(number)
        if any(kind in footer for kind in _MENTIONED):
            changes = [change for change in decode_sound(footer) if isinstance(change, _FOLLOWED)]
            frames.append(Frame(number=number, changes=changes))
    return _Told(first=first, last=last, frames=frames)


def _begin(
    directories: dict[int, Path], store: int, told: _Told, drafts: Path
) -> tuple[int | None, GrantLedger]:
    """From nothing, if the first frame is there; else from the oldest snapshot that the frames continue."""
    if told.first <= FIRST_FRAME:
        return None, GrantLedger()
    faults = []
    for frame, owner in sorted(_list_snapshots(directories)):
        if not told.first - 1 <= frame <= told.last:
            continue
        draft = drafts / f"{frame}-{owner}.db"
        try:
            Snapshots(directories[owner]).copy(frame, draft)
            check_snapshot(draft, frame)
        except StoreFailed as failure:
            faults.append(str(failure))
            continue
        with closing(SqliteControlPlane(draft)) as plane:
            return frame, _open_ledger(plane)
    raise StoreFailed(
        f"store {store} begins with frame {told.first}, and"
        f" {'; '.join(faults) or 'no snapshot stands for the frames before it'}"
    )


def _list_snapshots(directories: dict[int, Path]) -> Iterator[tuple[int, int]]:
    """(frame, store): all are of one history."""
    for store, directory in directories.items():
        yield from ((frame, store) for frame in Snapshots(directory).frames())


def _open_ledger(plane: ControlPlane) -> GrantLedger:
    stores = {
        state.store: StoreAccount(
            incarnation=state.incarnation,
            lease=state.lease,
            phase=StorePhase.AWAY if state.phase is StorePhase.LOST else state.phase,
        )
        for state in plane.list_stores()
    }
    groups: dict[Key, GroupAccount] = {}
    for topic in plane.list_topics():
        for number, partition in enumerate(topic.partitions):
            removal = plane.find_removal(topic.topic_id, number)
            replicas = {store: ReplicaAccount() for store in partition.replicas}
            for member in removal.replicas:
                mcco, mxfo = member.cleaned.mcco, member.cleaned.mxfo
                assert not isinstance(mcco, Unreported)
                assert not isinstance(mxfo, Unreported)
                replicas[member.store] = ReplicaAccount(
                    generation=member.generation, settled_to=member.settled_to, mcco=mcco, mxfo=mxfo
                )
            groups[topic.topic_id, number] = GroupAccount(
                topic=topic.name,
                log_start=plane.find_bounds(topic.topic_id, number).start,
                lineage=removal.lineage,
                removable=removal.removable,
                replicas=replicas,
            )
    return GrantLedger(stores, groups)
