"""When replicas are equal: the same table at the last stable offset. Pure.

A replica may lack what it was entitled to drop: records whose key has a newer one, and tombstones that the group had
let go. Nothing else. So of each key only the newest record decides, whoever holds it: everybody has to hold it, and
a tombstone that may be gone is either there, or nothing is left of its key.
"""

from collections.abc import Mapping


def find_unequal(
    newest: int, held: Mapping[int, int | None], *, is_tombstone: bool, tombstones_end: int
) -> tuple[int, ...]:
    """The replicas that show another table than the rest, of one key.

    `newest` is the key's newest offset on any replica, `held` the newest on each, None for one that has no record of
    it. Tombstones below `tombstones_end` may have gone on any replica.
    """
    may_be_gone = is_tombstone and newest < tombstones_end
    return tuple(
        sorted(
            replica
            for replica, offset in held.items()
            if offset != newest and not (may_be_gone and offset is None)
        )
    )
