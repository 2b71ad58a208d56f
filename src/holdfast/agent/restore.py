"""Putting a snapshot in the place of a control plane that was lost; the journals after it do the rest."""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from holdfast.agent.data_directory import DataDirectory
from holdfast.control.sqlite_restore import check_snapshot
from holdfast.errors import StoreFailed
from holdfast.store.durable import sync_directory
from holdfast.store.identity import read_identity
from holdfast.store.journals import FIRST_FRAME, list_journals
from holdfast.store.snapshots import Snapshots

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A copy of a snapshot that was found sound, beside the place that it is for."""

    path: Path
    frame: int
    store: int


def restore(directory: DataDirectory) -> None:
    """Make control.db from a snapshot, if it is missing and there is one.

    StoreFailed, and nothing is changed, if there is no way back to what the control plane knew.
    """
    if directory.control_db.exists():
        return
    draft = draft_control_plane(directory, directory.nodes)
    if draft is not None:
        install(draft, directory.control_db)


def draft_control_plane(directory: DataDirectory, stores: Iterable[int]) -> Draft | None:
    """Copy the newest snapshot of these stores that can be read; None if all begins with frame 1.

    All snapshots are of one history, so it does not matter whose it is. One that is damaged is passed over: the
    journals after the one before it are still there (`Snapshots.needed_from`). StoreFailed if neither a snapshot can
    be read nor a store's journals begin with frame 1.
    """
    stores = list(stores)
    path = directory.control_db.with_name("control.db.draft")
    faults = []
    for frame, store in sorted(_find_snapshots(directory, stores), reverse=True):
        try:
            Snapshots(directory.store(store)).copy(frame, path)
            check_snapshot(path, frame)
        except StoreFailed as failure:
            logger.warning("passing over a snapshot of store %d: %s", store, failure)
            faults.append(str(failure))
        else:
            return Draft(path=path, frame=frame, store=store)
    path.unlink(missing_ok=True)
    begins = [journals[0] for store in stores if (journals := list_journals(directory.store(store)))]
    if begins and FIRST_FRAME not in begins:
        raise StoreFailed(
            f"the control plane cannot be made anew: {'; '.join(faults) or 'there is no snapshot of it'}, and frames"
            f" {FIRST_FRAME} to {min(begins) - 1} are in no journal. Put a snapshot back from a copy"
        )
    return None


def install(draft: Draft, control_db: Path) -> None:
    """Give the draft its name, durably. What is left of the one before would be read as a part of it."""
    for suffix in ("-wal", "-shm"):
        control_db.with_name(control_db.name + suffix).unlink(missing_ok=True)
    sync_directory(control_db.parent)
    draft.path.rename(control_db)
    sync_directory(control_db.parent)


def _find_snapshots(directory: DataDirectory, stores: Iterable[int]) -> Iterator[tuple[int, int]]:
    """(frame, store) of all snapshots on stores that are this cluster's."""
    for store in stores:
        frames = Snapshots(directory.store(store)).frames()
        if not frames:
            continue
        try:
            identity = read_identity(directory.store(store))
        except StoreFailed as failure:
            logger.warning("passing over the snapshots of store %d: %s", store, failure)
            continue
        if (identity.cluster_id, identity.store) == (directory.cluster_id, store):
            yield from ((frame, store) for frame in frames)
