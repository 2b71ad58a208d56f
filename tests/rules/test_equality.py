"""Which replicas show another table than the rest."""

import pytest

from holdfast.rules.equality import find_unequal


@pytest.mark.parametrize(
    ("held", "is_tombstone", "tombstones_end", "unequal"),
    [
        # Everybody holds the newest, whatever else is left of the key.
        ({1: 9, 2: 9, 3: 9}, False, 0, ()),
        ({1: 9, 2: 9, 3: 9}, True, 100, ()),
        # A newest value is missing: nothing entitles to that.
        ({1: 9, 2: None, 3: 9}, False, 100, (2,)),
        ({1: 9, 2: 4, 3: 9}, False, 100, (2,)),
        # A tombstone that had to stay.
        ({1: 9, 2: None, 3: 9}, True, 9, (2,)),
        ({1: 9, 2: 4, 3: 4}, True, 9, (2, 3)),
        # A tombstone that was let go: all of the key is gone with it, or a deleted value is back.
        ({1: 9, 2: None, 3: None}, True, 10, ()),
        ({1: 9, 2: None, 3: 4}, True, 10, (3,)),
    ],
)
def test_only_the_newest_decides(
    held: dict[int, int | None], is_tombstone: bool, tombstones_end: int, unequal: tuple[int, ...]
) -> None:
    """Of one key, whose newest record anywhere is at 9."""
    found = find_unequal(9, held, is_tombstone=is_tombstone, tombstones_end=tombstones_end)
    assert found == unequal
