"""LanedKeyIndex: whatever the lanes and whoever reads a buffer, they mark what one index marks."""

import numpy as np
import pytest

from holdfast.errors import CorruptBatch, KeyIndexFull, KeyTooLarge
from holdfast.records.kernel import Mask, lanes
from holdfast.records.kernel.lanes import KeyRoom, LanedKeyIndex
from tests.records.kernel.logs import Log, log_of, random_log

MIB = 1 << 20


def found(log: Log, *, count: int, parts: int = 1, seed: int = 0) -> list[list[bool]]:
    """What all lanes of all parts mark: two buffers at a time are read, then each lane is looked up in both."""
    masks = log.masks()
    for part in range(parts):
        index = LanedKeyIndex(bytes_max=MIB, part=part, parts=parts, lanes=count, seed=seed)
        rooms = [KeyRoom(), KeyRoom()]
        for end in range(len(masks), 0, -2):
            wave = range(end - 1, max(end - 2, 0) - 1, -1)
            read = [
                index.collect(log.pieces[at], masks[at], room) for at, room in zip(wave, rooms, strict=False)
            ]
            marked: list[list[Mask]] = [[index.shadow(lane, each) for each in read] for lane in range(count)]
            for at, *lane_masks in zip(wave, *marked, strict=True):
                for mask in lane_masks:
                    masks[at] |= mask
    return [dead.tolist() for dead in masks]


@pytest.mark.parametrize("seed", range(20))
def test_the_newest_record_of_each_key_lives(seed: int) -> None:
    """Keys of any length, every codec, pieces cut anywhere."""
    log = random_log(seed)
    assert found(log, count=1 + seed % 4, parts=1 + seed % 3, seed=seed) == log.shadowed()


@pytest.mark.parametrize("seed", range(5))
def test_equal_hashes_do_not_make_keys_equal(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """With a hash that is the same for all keys one lane has them all, and bytes decide."""
    monkeypatch.setattr(lanes, "make_secret", lambda seed: np.frombuffer(bytes(32), np.uint64))
    log = random_log(seed)
    assert found(log, count=3) == log.shadowed()


def test_every_lane_has_its_share() -> None:
    """No key is in two lanes or in none, and lanes are about equal."""
    log = log_of([b"%016d" % number for number in range(6000)])
    index = LanedKeyIndex(bytes_max=MIB, lanes=3, seed=7)
    collected = index.collect(log.pieces[0], log.masks()[0], KeyRoom())
    counts = collected.rows.counts[:3].tolist()
    assert sum(counts) == 6000
    assert min(counts) > 0.8 * 2000


def test_a_lane_that_is_full_says_so() -> None:
    """Its memory is its part of the whole, and a key that never fits is told apart."""
    log = log_of([b"%016d" % number for number in range(1000)])
    index = LanedKeyIndex(bytes_max=4096, lanes=2, seed=1)
    collected = index.collect(log.pieces[0], log.masks()[0], KeyRoom())
    with pytest.raises(KeyIndexFull, match="2048"):
        index.shadow(1, collected)
    large = log_of([b"k" * 3000])
    index = LanedKeyIndex(bytes_max=4096, lanes=2, seed=1)
    collected = index.collect(large.pieces[0], large.masks()[0], KeyRoom())
    owner = int(collected.rows.counts[1])
    with pytest.raises(KeyTooLarge):
        index.shadow(owner, collected)


def test_damage_is_found_while_keys_are_collected() -> None:
    """Before any of them is looked up."""
    log = log_of([b"key"])
    damaged = bytearray(log.pieces[0])
    damaged[-1] ^= 1
    index = LanedKeyIndex(bytes_max=MIB, lanes=2, seed=0)
    with pytest.raises(CorruptBatch, match="CRC"):
        index.collect(bytes(damaged), log.masks()[0], KeyRoom())
