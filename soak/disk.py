"""What may have become of the files between a crash and the next start. Nothing acknowledged is touched."""

import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Protocol

from holdfast.control.sqlite import SqliteControlPlane
from holdfast.store import journal
from holdfast.store.file_header import FILE_HEADER_BYTES

CONTROL_FILES = ("control.db", "control.db-wal", "control.db-shm")
GARBAGE_BYTES_MAX = 5_000


class Disk:
    """The data directory of a process that is not running, and copies of its control plane from earlier crashes."""

    def __init__(self, data: Path, copies: Path, *, nodes: int) -> None:
        self._data = data
        self._copies = copies
        self.nodes = nodes
        self._copied = 0

    def copy_control_plane(self) -> None:
        """Keep the control plane as this crash left it, for a later one to find."""
        copy = self._copies / str(self._copied)
        copy.mkdir(parents=True)
        _copy_control_files(self._data, copy)
        self._copied += 1

    def remove_control_plane(self, *, also_wal: bool = True) -> None:
        """As if it had never been, or only its main file."""
        for name in CONTROL_FILES if also_wal else CONTROL_FILES[:1]:
            (self._data / name).unlink(missing_ok=True)

    def put_back_control_plane(self, age: int) -> None:
        """The copy of `age` crashes before the last, or the oldest."""
        self.remove_control_plane()
        _copy_control_files(self._copies / str(max(0, self._copied - 1 - age)), self._data)

    def last_journal(self, store: int) -> Path | None:
        """The file that this store writes to; None before the first frame."""
        journals = sorted((self._data / "stores" / str(store) / "journal").glob("*.journal"))
        return journals[-1] if journals else None

    def recorded_end(self, store: int) -> tuple[int, int]:
        """(journal, position) up to which the control plane of this crash knows the store: all acknowledged."""
        with tempfile.TemporaryDirectory() as scratch:
            _copy_control_files(self._copies / str(self._copied - 1), Path(scratch))
            plane = SqliteControlPlane(Path(scratch) / "control.db")
            try:
                checkpoint = plane.find_checkpoint(store)
            finally:
                plane.close()
        return (checkpoint.end.journal, checkpoint.end.position) if checkpoint else (0, 0)


class Fault(Protocol):
    """Something that befalls the files; its repr is part of what a failure prints."""

    def strike(self, disk: Disk) -> None:
        """Do it."""
        ...


@dataclass(frozen=True, slots=True)
class TornTail:
    """Of what the control plane has not recorded, these stores keep only the beginning."""

    stores: tuple[int, ...]
    kept: float

    def strike(self, disk: Disk) -> None:
        """Cut it off; nothing happens if the crash left no such frame."""
        for store in self.stores:
            file = disk.last_journal(store)
            if file is None:
                continue
            known_journal, position = disk.recorded_end(store)
            begin = position if int(file.stem) == known_journal else FILE_HEADER_BYTES
            size = file.stat().st_size
            if begin < size:
                os.truncate(file, begin + int((size - begin) * self.kept))


@dataclass(frozen=True, slots=True)
class Garbage:
    """Bytes behind the last frame of these stores: noise, zeros, or the beginning of a frame."""

    stores: tuple[int, ...]
    kind: str
    seed: int

    def strike(self, disk: Disk) -> None:
        """Append them."""
        chance = Random(self.seed)
        noise = chance.randbytes(chance.randrange(1, GARBAGE_BYTES_MAX))
        garbage = {
            "noise": noise,
            "zeros": bytes(len(noise)),
            "half frame": journal.frame_head(chance.randrange(1, 1000), len(noise), 100) + noise,
        }[self.kind]
        for store in self.stores:
            file = disk.last_journal(store)
            if file is not None:
                with file.open("ab") as end:
                    end.write(garbage)


@dataclass(frozen=True, slots=True)
class LostPlane:
    """The control plane is gone, perhaps without its write-ahead log."""

    also_wal: bool

    def strike(self, disk: Disk) -> None:
        """Remove it."""
        disk.remove_control_plane(also_wal=self.also_wal)


@dataclass(frozen=True, slots=True)
class StalePlane:
    """The control plane is that of an earlier crash."""

    age: int

    def strike(self, disk: Disk) -> None:
        """Put it back."""
        disk.put_back_control_plane(self.age)


def draw_faults(chance: Random, nodes: int) -> tuple[Fault, ...]:
    """Often none; the journals' comes before the control plane's, which it is measured by."""
    faults: list[Fault] = []
    stores = tuple(sorted(chance.sample(range(1, nodes + 1), chance.randrange(1, nodes + 1))))
    if chance.random() < 0.4:
        faults.append(TornTail(stores, round(chance.choice([0.0, chance.random(), 0.999]), 3)))
    if chance.random() < 0.3:
        kind = chance.choice(["noise", "zeros", "half frame"])
        faults.append(Garbage(stores, kind, chance.getrandbits(32)))
    which = chance.random()
    if which < 0.2:
        faults.append(LostPlane(also_wal=chance.random() < 0.7))
    elif which < 0.4:
        faults.append(StalePlane(chance.randrange(1, 4)))
    return tuple(faults)


def _copy_control_files(source: Path, target: Path) -> None:
    # Without -shm, which SQLite makes anew: it is shared memory, not part of what is stored.
    for name in CONTROL_FILES[:2]:
        if (source / name).exists():
            shutil.copy(source / name, target / name)


def strike_all(faults: Sequence[Fault], disk: Disk) -> None:
    """One after the other."""
    for fault in faults:
        fault.strike(disk)
