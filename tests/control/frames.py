"""Frames as stores hold them, for a control plane to apply."""

from itertools import count

from holdfast.control.plane import ControlPlane
from holdfast.store.footer import Change
from holdfast.store.store import Place, StoredFrame


def stored(number: int, *stores: int) -> list[StoredFrame]:
    """A frame on these stores (store 1 if none is named), each in a journal of the store's number."""
    return [
        StoredFrame(
            store=store,
            number=number,
            body=Place(journal=store, position=1000 * number),
            footer=b"",
            end=Place(journal=store, position=1000 * number + 999),
        )
        for store in stores or (1,)
    ]


class Apply:
    """Applies changes as the next frame; its number is the answer."""

    def __init__(self, plane: ControlPlane, *, first: int = 1) -> None:
        self._plane = plane
        self._numbers = count(first)

    def next_number(self) -> int:
        """The number of a frame that is applied by other means."""
        return next(self._numbers)

    def __call__(self, *changes: Change, stores: tuple[int, ...] = (1,), lost: tuple[int, ...] = ()) -> int:
        number = next(self._numbers)
        self._plane.apply(stored(number, *stores), changes, lost=lost)
        return number
