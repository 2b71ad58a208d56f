"""Copying extents as they are into a carried file of another store, every batch checked on the way."""

from pathlib import Path

from holdfast.errors import StoreFailed
from holdfast.keeper.catch_up import Carry
from holdfast.records.batch import validate
from holdfast.records.walk import walk
from holdfast.store.carried import CarriedWriter


def copy_extents(carry: Carry, directory: str, number: int) -> list[int]:
    """Write the carried file `number` of the store in `directory`; the positions of the extents in it.

    Durable on return. StoreFailed or CorruptBatch if the source is not what it should be: nothing is left then.
    """
    with CarriedWriter(Path(directory), number) as writer:
        positions = [
            writer.append(_read(piece.path, piece.position, piece.length_bytes)) for piece in carry.pieces
        ]
        writer.finish()
    return positions


def _read(path: str, position: int, length_bytes: int) -> bytes:
    try:
        with Path(path).open("rb") as file:
            file.seek(position)
            data = file.read(length_bytes)
    except OSError as failure:
        raise StoreFailed(f"cannot read {path}: {failure.strerror}") from failure
    if len(data) != length_bytes:
        raise StoreFailed(f"{path} ends before byte {position + length_bytes}")
    for batch in walk(data):
        validate(data, batch.position)
    return data
