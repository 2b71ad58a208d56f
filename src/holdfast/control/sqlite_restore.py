"""Is a copied snapshot a control plane that can be opened? Asked before it takes the place of a lost one."""

import sqlite3
from contextlib import closing
from pathlib import Path

from holdfast.errors import StoreFailed


def check_snapshot(path: Path, frame: int) -> None:
    """StoreFailed unless the file is a sound database with the control plane as of `frame`. Nothing is written."""
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as reader:
            (verdict,) = reader.execute("PRAGMA integrity_check(1)").fetchone()
            applied = reader.execute("SELECT frame FROM applied").fetchone()
    except sqlite3.Error as failure:
        raise StoreFailed(f"the snapshot as of frame {frame} is not readable: {failure}") from failure
    if verdict != "ok":
        raise StoreFailed(f"the snapshot as of frame {frame} is damaged: {verdict}")
    if applied != (frame,):
        raise StoreFailed(f"the snapshot as of frame {frame} says that it is as of {applied and applied[0]}")
