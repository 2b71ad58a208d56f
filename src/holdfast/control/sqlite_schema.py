"""The SQLite control plane's file: how it is opened, brought to the newest schema, and copied."""

import os
import sqlite3
from contextlib import closing, suppress
from importlib import resources
from pathlib import Path

from holdfast.control.sqlite_segments import is_carried, lies_on
from holdfast.errors import DataDirectoryRefused, StoreFailed
from holdfast.store.durable import sync_directory


def connect(path: Path) -> sqlite3.Connection:
    """A connection in WAL mode, with the functions that migrations use."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.create_function("lies_on", 2, lies_on, deterministic=True)
    connection.create_function("is_carried", 1, is_carried, deterministic=True)
    return connection


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the schema to the newest version, one numbered file at a time."""
    folder = resources.files("holdfast.control") / "migrations"
    scripts = sorted((file.name, file.read_text()) for file in folder.iterdir() if file.name.endswith(".sql"))
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > len(scripts):
        raise DataDirectoryRefused(
            f"{path} has schema {version}, newer than {len(scripts)}: use a newer Holdfast"
        )
    for number, (_, script) in enumerate(scripts[version:], start=version + 1):
        connection.executescript(f"BEGIN; {script}; PRAGMA user_version = {number}; COMMIT;")


def write_snapshot(source: Path, path: Path) -> int:
    """Copy the file as it is at one moment; the last frame applied in the copy. Writers go on meanwhile.

    What the copy contains is durable in the original too: see `_sync_log`.
    """
    draft = path.with_suffix(".tmp")
    draft.unlink(missing_ok=True)
    try:
        with closing(sqlite3.connect(source, isolation_level=None, timeout=5)) as reader:
            reader.execute("VACUUM INTO ?", (str(draft),))
        with closing(sqlite3.connect(f"file:{draft}?mode=ro", uri=True)) as copy:
            row = copy.execute("SELECT frame FROM applied").fetchone()
        _sync_log(source)
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        draft.rename(path)
        sync_directory(path.parent)
    except (sqlite3.Error, OSError) as failure:
        draft.unlink(missing_ok=True)
        raise StoreFailed(f"the control plane cannot be copied to {path}: {failure}") from failure
    return row[0] if row else 0


def _sync_log(source: Path) -> None:
    """Sync SQLite's write-ahead log, which its commits do not.

    Journals are deleted because a snapshot covers them. A control plane that a power cut has taken back to before
    the snapshot would look for them.
    """
    with suppress(FileNotFoundError), source.with_name(f"{source.name}-wal").open("rb") as log:
        os.fsync(log.fileno())
