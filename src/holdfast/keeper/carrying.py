"""Copying extents as they are into a carried file of a store, every batch checked on the way."""

from pathlib import Path

from holdfast.errors import StoreFailed
from holdfast.keeper.catch_up import Carry
from holdfast.keeper.gateway import Gateway
from holdfast.keeper.messages import CarriedPublication
from holdfast.records.batch import validate
from holdfast.records.walk import walk
from holdfast.store.carried import CarriedWriter, next_carried_number


def carry_extents(
    gateway: Gateway, carry: Carry, *, store: int, incarnation: int, lease: int, directory: str
) -> str | None:
    """Copy extents to the store in `directory` and have them count there; why they do not, if they do not.

    StoreFailed or CorruptBatch if they cannot be copied.
    """
    number = next_carried_number(Path(directory), lease)
    positions = copy_extents(carry, directory, number)
    return gateway.publish_carried(
        CarriedPublication(
            store=store,
            incarnation=incarnation,
            lease=lease,
            file=number,
            extents=[
                (piece.topic_id, piece.partition, piece.last, position)
                for piece, position in zip(carry.pieces, positions, strict=True)
            ],
        )
    )


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
