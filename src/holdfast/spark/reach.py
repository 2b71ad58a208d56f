"""Whether executors and the keeper have the same stores before them: one machine, or one file system for all."""

import socket
from pathlib import Path

from holdfast.errors import StoreFailed
from holdfast.keeper.work import Rewrite, WorkItem
from holdfast.store.identity import read_identity
from holdfast.store.segment import segment_path


def check_store(item: WorkItem) -> None:
    """On the executor, before it reads: StoreFailed if the item's store is not there, or another one is.

    Without it a rewrite that has nothing to read would make the directory, and leave its segment where nobody looks.
    """
    try:
        found = read_identity(Path(item.directory)).store
    except StoreFailed as failure:
        raise StoreFailed(_needs(item, str(failure))) from failure
    if found != item.store:
        raise StoreFailed(_needs(item, f"{item.directory} is store {found} there"))


def check_written(item: WorkItem, rewrite: Rewrite) -> None:
    """At the keeper, before it publishes: StoreFailed if what the executor wrote is not where the log looks for it."""
    for segment in rewrite.added:
        path = segment_path(Path(item.directory), segment.file)
        if not path.is_file() or path.stat().st_size != segment.length_bytes:
            raise StoreFailed(
                _needs(item, f"{path} was written by an executor, and is not on {socket.gethostname()}")
            )


def _needs(item: WorkItem, why: str) -> str:
    return (
        f"{why} (store {item.store}, on {socket.gethostname()}): every Spark executor needs the stores' directories "
        "under the paths that the keeper has for them, on this machine or a shared file system"
    )
