"""Making the control plane anew from what the stores hold: what `holdfast recover` does."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from holdfast.agent.data_directory import DataDirectory
from holdfast.agent.recovery import Recovery, add_stores
from holdfast.agent.restore import Draft, draft_control_plane, install
from holdfast.control.sqlite import SqliteControlPlane
from holdfast.errors import UsageError
from holdfast.store.local import LocalStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt:
    """What the new control plane knows."""

    snapshot: int | None
    """The frame of the snapshot that it was begun with; None if it was begun with nothing."""
    frames: int
    """Frames that were replayed."""
    topics: int
    partitions: int
    records_end: int
    """The sum of all partitions' log ends."""
    in_sync: list[int]
    set_aside: Path | None
    """Where the control plane lies that was there before."""


def rebuild(data: Path, *, store: int | None, on_frame: Callable[[int], None]) -> Rebuilt:
    """Begin with the newest snapshot and replay all stores side by side, or one alone: the others are then out of sync.

    The control plane that is there is set aside, not deleted, and put back if this fails.
    """
    if not (data / "holdfast.json").exists():
        raise UsageError(f"{data} is no data directory of Holdfast")
    directory = DataDirectory(data)
    try:
        if store is not None and store not in directory.nodes:
            raise UsageError(f"--store {store}: {data} has stores 1 to {directory.nodes[-1]}")
        draft = draft_control_plane(directory, directory.nodes if store is None else [store])
        set_aside = _set_aside(directory.control_db)
        try:
            if draft is not None:
                install(draft, directory.control_db)
            return _replay(directory, store, on_frame, draft, set_aside)
        except BaseException:
            _put_back(directory.control_db, set_aside)
            raise
    finally:
        directory.close()


def _replay(
    directory: DataDirectory,
    store: int | None,
    on_frame: Callable[[int], None],
    draft: Draft | None,
    set_aside: Path | None,
) -> Rebuilt:
    plane = SqliteControlPlane(directory.control_db)
    stores: dict[int, LocalStore] = {}
    try:
        for number in directory.nodes:
            stores[number] = LocalStore(
                directory.store(number), store=number, cluster_id=directory.cluster_id
            )
        add_stores(plane, stores)
        replayed = {number: stores[number] for number in stores if store in (None, number)}
        frames = Recovery(plane, dict(replayed), on_frame=on_frame).run()
        topics = plane.list_topics()
        return Rebuilt(
            snapshot=None if draft is None else draft.frame,
            frames=frames,
            topics=len(topics),
            partitions=sum(len(topic.partitions) for topic in topics),
            records_end=sum(
                plane.find_bounds(topic.topic_id, number).end
                for topic in topics
                for number in range(len(topic.partitions))
            ),
            in_sync=sorted(plane.find_in_sync()),
            set_aside=set_aside,
        )
    finally:
        plane.close()
        for each in stores.values():
            each.close()


def _set_aside(control_db: Path) -> Path | None:
    """Rename the control plane's files out of the way; nothing is overwritten."""
    if not control_db.exists():
        return None
    number = 1
    while (aside := control_db.with_name(f"control.db.before-recover-{number}")).exists():
        number += 1
    _move(control_db, aside)
    return aside


def _put_back(control_db: Path, set_aside: Path | None) -> None:
    """Take back what was made, and let the one from before have its place again."""
    for file in _files(control_db):
        file.unlink(missing_ok=True)
    if set_aside is not None:
        _move(set_aside, control_db)


def _move(source: Path, target: Path) -> None:
    for file, renamed in zip(_files(source), _files(target), strict=True):
        if file.exists():
            file.rename(renamed)


def _files(control_db: Path) -> list[Path]:
    """The files of a SQLite database, the one that makes it there last."""
    return [control_db.with_name(control_db.name + suffix) for suffix in ("-shm", "-wal", "")]
