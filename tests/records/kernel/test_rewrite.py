"""copy_selected: chosen records in new batches, everything else as it was."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import CorruptBatch
from holdfast.records.batch import (
    ATTRIBUTES_AT,
    HEADER_BYTES,
    TRANSACTIONAL_BIT,
    BatchView,
    Codec,
    seal,
    validate,
)
from holdfast.records.build import Record, build_batch, read_records
from holdfast.records.control import ControlType, control_batch
from holdfast.records.kernel import copy_selected
from holdfast.records.walk import walk, walk_valid
from tests.records import oracles
from tests.records.kernel.test_scan import buffers


def mask(*flags: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.array(flags, np.bool_)


def timed(
    *timestamps: int, base_offset: int = 0, codec: Codec = Codec.NONE, transactional: bool = False
) -> bytes:
    """A batch of records with these timestamps, of a producer with a sequence."""
    return build_batch(
        [Record(key=b"k", value=b"v" * 20, timestamp_ms=timestamp) for timestamp in timestamps],
        base_offset=base_offset,
        leader_epoch=3,
        codec=codec,
        producer_id=9,
        producer_epoch=2,
        base_sequence=70,
        transactional=transactional,
    )


@settings(max_examples=120)
@given(buffer=buffers(), seed=st.integers(0, 2**32), share=st.sampled_from([0.0, 0.3, 0.7, 1.0]))
def test_exactly_the_chosen_records_survive(buffer: bytes, seed: int, share: float) -> None:
    """Every kept record reads as before, at the same offset, in a valid batch of the same codec and range."""
    data = [record for view in walk(buffer) if not view.is_control for record in read_records(view)]
    keep = np.random.default_rng(seed).random(len(data)) < share
    rewritten = copy_selected(buffer, keep)
    views = list(walk_valid(rewritten.buffer))
    kept = [record for view in views if not view.is_control for record in read_records(view)]
    assert kept == [record for record, flag in zip(data, keep, strict=True) if flag]
    assert rewritten.records_kept == len(kept)
    before = {view.base_offset: view for view in walk(buffer)}
    for view in views:
        old = before[view.base_offset]
        assert (view.last_offset, view.codec, view.is_control) == (old.last_offset, old.codec, old.is_control)
        assert (view.producer_id, view.producer_epoch, view.base_sequence, view.leader_epoch) == (
            old.producer_id,
            old.producer_epoch,
            old.base_sequence,
            old.leader_epoch,
        )


@pytest.mark.parametrize("codec", Codec)
def test_an_untouched_batch_is_copied_byte_by_byte(codec: Codec) -> None:
    """Even a compressed batch keeps its very bytes when nothing leaves it."""
    first, second = timed(1, 2, codec=codec), timed(3, 4, base_offset=2, codec=codec)
    rewritten = copy_selected(first + second, mask(1, 1, 0, 1))
    assert bytes(rewritten.buffer[: len(first)]) == first
    assert (rewritten.batches_verbatim, rewritten.batches_rebuilt) == (1, 1)
    assert oracles.read(oracles.AiokafkaBatch, bytes(rewritten.buffer[len(first) :]))[0].offset == 3


@pytest.mark.parametrize("codec", Codec)
def test_max_timestamp_is_that_of_the_kept(codec: Codec) -> None:
    """The newest record goes, and the header no longer claims its time; the others keep theirs."""
    view = validate(copy_selected(timed(1000, 9000, 4000, codec=codec), mask(1, 0, 1)).buffer)
    assert view.max_timestamp == 4000
    assert [record.timestamp_ms for record in read_records(view)] == [1000, 4000]


def test_log_append_time_stays() -> None:
    """The broker's time belongs to the batch, not to one of its records."""
    batch = build_batch([Record(timestamp_ms=1), Record(timestamp_ms=2)], log_append_time_ms=500)
    assert validate(copy_selected(batch, mask(0, 1)).buffer).max_timestamp == 500


def test_delete_horizon_stays() -> None:
    """A stamped batch that is rebuilt keeps its horizon and its records' own times."""
    batch = build_batch([Record(timestamp_ms=10), Record(timestamp_ms=20)], delete_horizon_ms=90)
    view = validate(copy_selected(batch, mask(0, 1)).buffer)
    assert (view.delete_horizon_ms, view.max_timestamp) == (90, 20)
    assert [record.timestamp_ms for record in read_records(view)] == [20]


def test_emptied_batches_go_or_stay() -> None:
    """Without records a batch is dropped, or leaves its header as Kafka's cleaner does, each or all."""
    buffer = timed(1, 2, codec=Codec.LZ4) + timed(3, 4, base_offset=2)
    none = mask(0, 0, 0, 0)
    assert copy_selected(buffer, none).buffer.nbytes == 0
    assert copy_selected(buffer, none).batches_dropped == 2
    both = list(walk_valid(copy_selected(buffer, none, keep_empty=True).buffer))
    assert [(view.base_offset, view.next_offset, view.record_count) for view in both] == [
        (0, 2, 0),
        (2, 4, 0),
    ]
    assert {(view.producer_id, view.last_sequence, view.codec) for view in both} == {(9, 71, Codec.NONE)}
    last = copy_selected(buffer, none, keep_empty=mask(0, 1))
    assert (BatchView(last.buffer).base_offset, last.batches_emptied, last.batches_dropped) == (2, 1, 1)


def test_an_emptied_batch_loses_its_horizon() -> None:
    """Kafka clears the bit on an empty batch: there is nothing left to delete."""
    batch = build_batch([Record(timestamp_ms=10)], delete_horizon_ms=90)
    assert validate(copy_selected(batch, mask(0), keep_empty=True).buffer).delete_horizon_ms is None


def test_control_batches_are_never_touched() -> None:
    """Markers take no entry in the mask and come out byte by byte."""
    marker = control_batch(ControlType.ABORT, base_offset=2, producer_id=9, producer_epoch=2)
    rewritten = copy_selected(timed(1, 2) + marker + timed(3, base_offset=3), mask(0, 0, 0))
    assert bytes(rewritten.buffer) == marker


@pytest.mark.parametrize("codec", Codec)
def test_plain_batches_are_not_transactional(codec: Codec) -> None:
    """A whole batch differs in one bit and its CRC, and is not inflated for it; a partial one is rebuilt without it."""
    whole = timed(1, 2, codec=codec, transactional=True)
    part = timed(3, 4, base_offset=2, codec=codec, transactional=True)
    rewritten = copy_selected(whole, mask(1, 1), plain=True, inflated_bytes_max=1)
    expected = bytearray(whole)
    expected[ATTRIBUTES_AT + 1] &= ~TRANSACTIONAL_BIT
    seal(expected)
    assert bytes(rewritten.buffer) == bytes(expected)
    assert (rewritten.batches_patched, rewritten.batches_verbatim) == (1, 0)
    both = copy_selected(whole + part, mask(1, 1, 0, 1), plain=True)
    views = list(walk_valid(both.buffer))
    assert [(view.is_transactional, view.codec, view.record_count) for view in views] == [
        (False, codec, 2),
        (False, codec, 1),
    ]
    assert {(view.producer_id, view.producer_epoch, view.base_sequence) for view in views} == {(9, 2, 70)}
    assert [record.offset for view in views for record in read_records(view)] == [0, 1, 3]
    assert (both.batches_patched, both.batches_rebuilt) == (1, 1)


def test_plain_leaves_other_batches_alone() -> None:
    """What was not transactional is copied byte by byte, a marker keeps its bit, an emptied batch loses it."""
    marker = control_batch(ControlType.COMMIT, base_offset=2, producer_id=9, producer_epoch=2)
    empty = timed(5, base_offset=3, transactional=True)
    rewritten = copy_selected(timed(1, 2) + marker + empty, mask(1, 1, 0), plain=True, keep_empty=True)
    assert bytes(rewritten.buffer[:-HEADER_BYTES]) == timed(1, 2) + marker
    assert not validate(rewritten.buffer, len(rewritten.buffer) - HEADER_BYTES).is_transactional
    assert (rewritten.batches_verbatim, rewritten.batches_patched, rewritten.batches_emptied) == (2, 0, 1)


def test_transactional_batches_stay_so_unless_told() -> None:
    """Without `plain` the bit is data like any other."""
    buffer = timed(1, 2, transactional=True) + timed(3, 4, base_offset=2, transactional=True)
    rewritten = copy_selected(buffer, mask(1, 1, 0, 1))
    assert [view.is_transactional for view in walk_valid(rewritten.buffer)] == [True, True]
    assert rewritten.batches_patched == 0


@pytest.mark.parametrize(
    ("keep", "newest"), [((1, 1, 1, 1), 90), ((1, 1, 1, 0), 40), ((1, 0, 0, 0), 10), ((0,) * 4, -1)]
)
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.SNAPPY])
def test_the_greatest_timestamp_is_reported(codec: Codec, keep: tuple[int, ...], newest: int) -> None:
    """Of records that stay, in whole batches and rebuilt ones; a batch that left its header has none."""
    buffer = timed(10, 40, codec=codec) + timed(20, 90, base_offset=2, codec=codec)
    assert copy_selected(buffer, mask(*keep), keep_empty=True).max_timestamp == newest


def test_the_mask_must_fit() -> None:
    """A mask of another length is our own bug and says so."""
    with pytest.raises(ValueError, match="a mask of 2 for 3 records"):
        copy_selected(timed(1, 2, 3), mask(1, 0))


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("keep", [(1, 1), (0, 1), (0, 0)])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_damage_is_not_copied_under_a_new_crc(keep: tuple[int, int], codec: Codec, plain: bool) -> None:
    """A rotten batch stops the rewrite before it could be made to look sound: whole, rebuilt or emptied."""
    damaged = bytearray(timed(1, 2, codec=codec, transactional=True))
    damaged[-3] ^= 4
    with pytest.raises(CorruptBatch, match="CRC"):
        copy_selected(damaged, mask(*keep), plain=plain)


def test_out_is_reused() -> None:
    """The result lives in the caller's memory if that is large enough."""
    buffer = timed(1, 2, 3)
    out = np.empty(len(buffer), np.uint8)
    rewritten = copy_selected(buffer, mask(1, 0, 1), out=out)
    assert np.shares_memory(np.frombuffer(rewritten.buffer, np.uint8), out)
    assert bytes(rewritten.buffer) == bytes(copy_selected(buffer, mask(1, 0, 1)).buffer)


def test_what_is_dropped_need_not_be_looked_at() -> None:
    """By whoever has checked it before; what is copied, and be it a header, is checked all the same."""
    damaged = bytearray(timed(1, 2))
    damaged[-3] ^= 4
    sound = timed(3, base_offset=2)
    rewritten = copy_selected(damaged + sound, mask(0, 0, 1), check_dropped=False)
    assert (bytes(rewritten.buffer), rewritten.batches_dropped) == (sound, 1)
    for kept, empty in (((1, 1, 1), False), ((0, 1, 1), False), ((0, 0, 1), True)):
        with pytest.raises(CorruptBatch, match="CRC"):
            copy_selected(damaged + sound, mask(*kept), check_dropped=False, keep_empty=empty)
