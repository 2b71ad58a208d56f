"""KeyIndex: the newest record of each key lives, all others are marked, whatever the keys and their hashes."""

import tracemalloc

import numpy as np
import pytest

from holdfast.errors import CorruptBatch, KeyIndexFull
from holdfast.records.batch import Codec
from holdfast.records.build import Record, build_batch
from holdfast.records.control import filler_batch
from holdfast.records.kernel import KeyIndex, keys
from holdfast.records.kernel.dedupe import BLOCK_ROWS
from tests.records.kernel.logs import Log, log_of, random_log, shadow

MIB = 1 << 20


def found(log: Log, *, parts: int = 1, bytes_max: int = MIB, seed: int = 0) -> list[list[bool]]:
    """What indexes of all parts mark, one after the other."""
    masks = log.masks()
    for part in range(parts):
        shadow(KeyIndex(bytes_max=bytes_max, part=part, parts=parts, seed=seed), log, masks)
    return [dead.tolist() for dead in masks]


@pytest.fixture
def colliding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every key has the same hash: a product with zero."""
    monkeypatch.setattr(keys, "make_secret", lambda seed: np.frombuffer(bytes(32), np.uint64))


@pytest.mark.parametrize("seed", range(60))
def test_the_newest_record_of_each_key_lives(seed: int) -> None:
    """Keys of any length, every codec, pieces cut anywhere, in one part or several."""
    log = random_log(seed)
    assert found(log, parts=1 + seed % 5, seed=seed) == log.shadowed()


@pytest.mark.parametrize("parts", range(1, 6))
def test_every_key_belongs_to_one_part(parts: int) -> None:
    """No key is counted twice or forgotten, parts are about equal, and a seed always divides in the same way."""
    log = log_of([b"%016d" % number for number in range(5000)])
    counts = []
    for part in range(parts):
        index = KeyIndex(bytes_max=MIB, part=part, parts=parts, seed=7)
        shadow(index, log, log.masks())
        again = log.masks()
        shadow(KeyIndex(bytes_max=MIB, part=part, parts=parts, seed=7), log, again)
        index.shadow(log.pieces[0], mask := log.masks()[0])
        assert mask.sum() == index.keys
        assert not again[0].any()
        counts.append(index.keys)
    assert sum(counts) == 5000
    assert min(counts) > 0.8 * 5000 / parts


@pytest.mark.parametrize("seed", range(20))
def test_too_many_keys_are_indexed_in_more_parts(seed: int) -> None:
    """An index that is full says so; until then its marks were right, and enough parts bring the pass to its end."""
    log = random_log(seed, batches=80, keys=400)
    expected = log.shadowed()
    parts, full = 1, 0
    while True:
        masks = log.masks()
        try:
            for part in range(parts):
                index = KeyIndex(bytes_max=12_000, part=part, parts=parts, seed=seed)
                shadow(index, log, masks)
            break
        except KeyIndexFull:
            full += 1
            parts += 1
            for dead, should in zip(masks, expected, strict=True):
                assert not (dead & ~np.array(should, np.bool_)).any()
    assert [dead.tolist() for dead in masks] == expected
    assert full > 0 or log.distinct_bytes < 12_000


@pytest.mark.usefixtures("colliding")
@pytest.mark.parametrize("seed", range(10))
def test_equal_hashes_do_not_make_keys_equal(seed: int) -> None:
    """With a hash that is the same for all keys nothing is lost but time: bytes decide."""
    log = random_log(seed)
    assert found(log) == log.shadowed()
    other = KeyIndex(bytes_max=MIB, part=1, parts=2, seed=0)
    shadow(other, log, log.masks())
    assert other.keys == 0


@pytest.mark.usefixtures("colliding")
@pytest.mark.parametrize("length", [1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 23, 24, 25, 40])
def test_one_byte_makes_another_key(length: int) -> None:
    """Keys of one hash that differ in a single byte, at any place, or in their length alone, all live."""
    base = bytes(range(100, 100 + length))
    near = [base[:at] + bytes([base[at] ^ 1]) + base[at + 1 :] for at in range(length)]
    distinct = [base, base[:-1], base + b"\x00", *near]
    log = log_of(distinct, distinct)
    assert found(log) == [[True] * len(distinct), [False] * len(distinct)]


def test_a_table_that_grows_forgets_no_key() -> None:
    """Through every size from a few slots on, with keys of mixed lengths."""
    distinct = [b"%d" % number + bytes(number % 3) for number in range(60_000)]
    log = log_of(distinct[:30_000], distinct[30_000:], distinct)
    index = KeyIndex(bytes_max=4 * MIB, seed=1)
    masks = log.masks()
    shadow(index, log, masks)
    assert [dead.all() for dead in masks] == [True, True, False]
    assert not masks[2].any()
    assert index.keys == len(distinct)


def test_memory_is_bounded_and_used() -> None:
    """Growth included, an index takes what it may and no more, and it is full only when that holds many keys."""
    log = log_of([b"%016d" % number for number in range(300_000)])
    dead = log.masks()[0]
    index = KeyIndex(bytes_max=4096, seed=1)
    with pytest.raises(KeyIndexFull):
        index.shadow(log.pieces[0], dead)
    tracemalloc.start()
    try:
        for mebibytes, keys_min in ((3, 104_000), (4, 104_000), (5, 157_000), (6, 209_000), (7, 229_000)):
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            index = KeyIndex(bytes_max=mebibytes * MIB, seed=1)
            with pytest.raises(KeyIndexFull):
                index.shadow(log.pieces[0], dead)
            rows_bytes = len(dead) * 32  # of the one large batch
            assert tracemalloc.get_traced_memory()[1] - before < mebibytes * MIB + rows_bytes + 100_000
            assert index.keys > keys_min
            del index
    finally:
        tracemalloc.stop()


def test_a_key_larger_than_the_index() -> None:
    """One key can be too much, and is refused before a byte of it is copied."""
    index = KeyIndex(bytes_max=4096, seed=0)
    with pytest.raises(KeyIndexFull):
        index.shadow(build_batch([Record(key=bytes(5000))]), np.zeros(1, np.bool_))
    assert index.keys == 0


@pytest.mark.parametrize("seed", range(10))
def test_looking_up_learns_nothing(seed: int) -> None:
    """Without insert only keys of newer pieces count, and the index stays as it was."""
    log = random_log(seed)
    dirty = Log(log.pieces[-1:], log.keys[-1:])
    index = KeyIndex(bytes_max=MIB, seed=seed)
    shadow(index, dirty, dirty.masks())
    known = set(dirty.keys[0]) | {None}
    before = index.keys
    for _ in range(2):
        masks = log.masks()[:-1]
        for piece, dead in zip(log.pieces, masks, strict=False):
            index.shadow(piece, dead, insert=False)
        assert [dead.tolist() for dead in masks] == [[key in known for key in keys] for keys in log.keys[:-1]]
    assert index.keys == before


def test_marks_that_were_there_stay() -> None:
    """A record that is dead for another reason shadows older ones all the same."""
    log = log_of([b"a", b"b"], [b"a", b"c"])
    masks = log.masks()
    masks[1][:] = True
    shadow(KeyIndex(bytes_max=MIB, seed=0), log, masks)
    assert [dead.tolist() for dead in masks] == [[True, False], [True, True]]


def test_records_without_a_key_are_dead() -> None:
    """One part decides about them, and an empty key is a key."""
    log = log_of([None, b"", None, b""])
    masks = log.masks()
    shadow(KeyIndex(bytes_max=MIB, part=1, parts=2, seed=3), log, masks)
    assert not masks[0][[0, 2]].any()
    shadow(KeyIndex(bytes_max=MIB, part=0, parts=2, seed=3), log, masks)
    assert masks[0].tolist() == [True, True, True, False]


@pytest.mark.parametrize("rows", [BLOCK_ROWS - 1, BLOCK_ROWS, BLOCK_ROWS + 1, 3 * BLOCK_ROWS + 5])
@pytest.mark.parametrize("batch_rows", [1, 100, BLOCK_ROWS, 2 * BLOCK_ROWS])
def test_blocks_of_every_size(rows: int, batch_rows: int) -> None:
    """Around the edges of blocks, with batches smaller and larger than one, and control batches between them."""
    keys = [b"%d" % (number * 7919 % 1000) for number in range(rows)]
    batches = [
        build_batch([Record(key=key) for key in keys[at : at + batch_rows]])
        for at in range(0, rows, batch_rows)
    ]
    log = Log([filler_batch(base_offset=0).join([b"", *batches, b""])], [list(keys)])
    assert found(log) == log.shadowed()


@pytest.mark.parametrize("codec", Codec)
def test_a_wrong_crc_names_its_batch(codec: Codec) -> None:
    """The second of three batches is damaged: its position is reported, unless CRCs are not wanted."""
    batches = [build_batch([Record(key=bytes(50))], base_offset=n, codec=codec) for n in range(3)]
    damaged = bytearray(b"".join(batches))
    damaged[len(batches[0]) + 30] ^= 1
    dead = np.zeros(3, np.bool_)
    with pytest.raises(CorruptBatch, match="CRC") as caught:
        KeyIndex(bytes_max=MIB, seed=0).shadow(damaged, dead)
    assert caught.value.position == len(batches[0])
    KeyIndex(bytes_max=MIB, seed=0).shadow(damaged, dead, check_crcs=False)
    assert dead.tolist() == [True, True, False]


def test_the_mask_must_fit() -> None:
    """A mask of another length is our own bug and says so."""
    log = log_of([b"a", b"b", b"c"])
    with pytest.raises(ValueError, match="a mask of 2 for 3 records"):
        KeyIndex(bytes_max=MIB, seed=0).shadow(log.pieces[0], np.zeros(2, np.bool_))


@pytest.mark.parametrize(
    "bad", [{"bytes_max": 100}, {"bytes_max": 1 << 50}, {"part": 2, "parts": 2}, {"part": -1}, {"parts": 0}]
)
def test_bounds_are_checked(bad: dict[str, int]) -> None:
    """An index that could hold nothing, or a part that does not exist."""
    with pytest.raises(ValueError, match="of"):
        KeyIndex(**{"bytes_max": MIB, "seed": 0} | bad)


def test_pieces_of_nothing() -> None:
    """An empty buffer and one without data records are no news."""
    index = KeyIndex(bytes_max=MIB, seed=0)
    nothing = np.zeros(0, np.bool_)
    index.shadow(b"", nothing)
    index.shadow(filler_batch(base_offset=9), nothing)
    assert index.keys == 0
