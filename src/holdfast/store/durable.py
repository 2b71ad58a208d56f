"""Files and directories whose names survive a power cut."""

import os
from pathlib import Path


def make_directory(path: Path) -> None:
    """Make a directory and those above it that are missing; each name is durable on return."""
    if path.is_dir():
        return
    make_directory(path.parent)
    path.mkdir(exist_ok=True)
    sync_directory(path.parent)


def write_file(path: Path, text: str) -> None:
    """Write a file, all of it or nothing."""
    draft = path.with_suffix(".tmp")
    with draft.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
