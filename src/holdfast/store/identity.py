"""Whose a store's directory is, and which life of the store it holds: `store.json`.

A store that was fenced or lost begins a new life, its next incarnation, with an empty directory. What an earlier life
left, or an old copy that somebody puts back, may lack what the others have forgotten since: it must not serve.
"""

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from uuid import UUID

from holdfast.errors import StoreFailed
from holdfast.store.durable import make_directory, sync_directory, write_file

FORMAT = 1
FIRST_INCARNATION = 1
HOLDINGS = ("journal", "carried", "segments", "snapshot")
"""The folders of a store, all that it holds but its identity."""

_FILE = "store.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreIdentity:
    """Which store of which cluster, in which life."""

    cluster_id: UUID
    store: int
    incarnation: int

    def __str__(self) -> str:
        return f"store {self.store} of cluster {self.cluster_id} in its life {self.incarnation}"


def read_identity(directory: Path) -> StoreIdentity:
    """The identity of a store's directory; StoreFailed if it has none, or if it is being wiped."""
    found = _read(directory)
    if found is None:
        raise StoreFailed(f"{directory / _FILE} is missing")
    identity, is_wiping = found
    if is_wiping:
        raise StoreFailed(
            f"{directory} was being emptied for a rebuild: run `holdfast store rebuild {identity.store}` again"
        )
    return identity


def open_identity(directory: Path, *, cluster_id: UUID, store: int, incarnation: int | None) -> StoreIdentity:
    """The identity of the directory, compared with the one that is expected; `None`: whichever life it is.

    A new directory gets its identity, and so does one from before there were any: both are in their first life. Later
    lives begin with `wipe` alone, so an empty directory is never taken for one. StoreFailed if it is another's.
    """
    if _read(directory) is None:
        first = StoreIdentity(cluster_id=cluster_id, store=store, incarnation=FIRST_INCARNATION)
        if incarnation not in (None, FIRST_INCARNATION):
            raise _refusal(directory, store, f"has no {_FILE}, where life {incarnation} is expected")
        _write(directory, first)
    found = read_identity(directory)
    if (found.cluster_id, found.store) != (cluster_id, store):
        raise StoreFailed(f"{directory} belongs to {found}, not to store {store} of cluster {cluster_id}")
    if incarnation not in (None, found.incarnation):
        raise _refusal(
            directory, store, f"is in its life {found.incarnation}, where {incarnation} is expected"
        )
    return found


def wipe(directory: Path, identity: StoreIdentity) -> None:
    """Empty a store's directory and begin a new life in it, durably.

    After a crash in the middle the directory says that it is being wiped, which nobody opens, and it can be wiped
    again. StoreFailed if it is another store's, or in this life, or a later one, already.
    """
    found = _read(directory)
    if found is not None:
        before, is_wiping = found
        if (before.cluster_id, before.store) != (identity.cluster_id, identity.store):
            raise StoreFailed(f"{directory} belongs to {before}: it is not emptied for {identity}")
        is_later = before.incarnation >= identity.incarnation and not (is_wiping and before == identity)
        if is_later and not (before == identity and _is_empty(directory)):
            raise StoreFailed(f"{directory} is {before} already: it is not emptied for {identity}")
    try:
        make_directory(directory)
        _write(directory, identity, is_wiping=True)
        for holding in HOLDINGS:
            if (directory / holding).exists():
                shutil.rmtree(directory / holding)
        sync_directory(directory)
    except OSError as failure:
        raise StoreFailed(f"cannot empty {directory}: {failure.strerror}") from failure
    _write(directory, identity)


def _read(directory: Path) -> tuple[StoreIdentity, bool] | None:
    """(identity, whether it is being wiped), None if there is none."""
    path = directory / _FILE
    try:
        content = json.loads(path.read_text())
        if content["format"] > FORMAT:
            raise StoreFailed(
                f"{path} has format {content['format']}, newer than {FORMAT}: use a newer Holdfast"
            )
        identity = StoreIdentity(
            cluster_id=UUID(content["cluster_id"]),
            store=int(content["store"]),
            incarnation=int(content["incarnation"]),
        )
        return identity, bool(content.get("wiping", False))
    except FileNotFoundError:
        return None
    except OSError as failure:
        raise StoreFailed(f"cannot read {path}: {failure.strerror}") from failure
    except (ValueError, KeyError, TypeError, AttributeError) as failure:
        raise StoreFailed(f"{path} is not readable: {failure!r}") from failure


def _write(directory: Path, identity: StoreIdentity, *, is_wiping: bool = False) -> None:
    content = {"format": FORMAT, **asdict(identity), **({"wiping": True} if is_wiping else {})}
    path = directory / _FILE
    try:
        make_directory(directory)
        write_file(path, json.dumps(content, default=str) + "\n")
    except OSError as failure:
        raise StoreFailed(f"cannot write {path}: {failure.strerror}") from failure


def _is_empty(directory: Path) -> bool:
    return not any(path.is_file() for holding in HOLDINGS for path in (directory / holding).rglob("*"))


def _refusal(directory: Path, store: int, why: str) -> StoreFailed:
    return StoreFailed(
        f"{directory} {why}: it was restored from an old copy or fenced: `holdfast store rebuild {store}`"
    )
