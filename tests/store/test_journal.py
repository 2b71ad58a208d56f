"""The journal's bytes: what was written is read back, anything else is refused with its position."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import CorruptFrame, FormatTooNew
from holdfast.records.crc import crc32c
from holdfast.store import journal
from holdfast.store.file_header import FileHeader, FileKind
from tests.store.frames import CLUSTER


def _frame(number: int, body: bytes, footer: bytes) -> bytes:
    return journal.frame_head(number, len(body), len(footer)) + body + journal.frame_tail(footer)


@given(number=st.integers(0, 2**63), body=st.binary(max_size=200), footer=st.binary(max_size=200))
def test_a_frame_is_read_back(number: int, body: bytes, footer: bytes) -> None:
    """Number, place of the body and footer survive, wherever the frame lies."""
    data = b"before" + _frame(number, body, footer) + b"after"
    frame = journal.read_frame(data, 6, number)
    assert (frame.number, frame.footer) == (number, footer)
    assert data[frame.body_position : frame.body_position + frame.body_bytes] == body
    assert data[frame.end :] == b"after"


@given(st.data())
def test_a_changed_byte_outside_of_the_body_is_noticed(data: st.DataObject) -> None:
    """Header, footer and trailer are covered by CRCs and magics; the body is the batches' own business."""
    frame = bytearray(_frame(7, b"", b"[]"))
    position = data.draw(st.integers(0, len(frame) - 1))
    frame[position] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CorruptFrame):
        journal.read_frame(frame, 0)


@given(st.integers(0, 60))
def test_a_cut_frame_is_noticed(length: int) -> None:
    """Every proper prefix is refused."""
    frame = _frame(7, b"0123456789", b"[1,2,3]")
    with pytest.raises(CorruptFrame):
        journal.read_frame(frame[: min(length, len(frame) - 1)], 0)


def test_an_unexpected_number_is_refused() -> None:
    """A frame out of order is not replayed."""
    with pytest.raises(CorruptFrame, match="frame 7 where 8"):
        journal.read_frame(_frame(7, b"", b"[]"), 0, 8)


def test_damage_in_the_middle_differs_from_a_torn_tail() -> None:
    """A whole frame behind the damaged one tells the two apart."""
    first, second = _frame(1, b"body", b"[]"), _frame(2, b"", b"[]")
    assert journal.has_frame_after(first[:-1] + b"?" + second, 0, 1)
    assert not journal.has_frame_after(first[:-1], 0, 1)
    assert not journal.has_frame_after(first[:-1] + second[:-1], 0, 1)


def test_a_value_that_looks_like_a_frame_is_not_one() -> None:
    """Records may hold journal bytes; a torn frame around them is still a torn tail."""
    inner = _frame(9, b"", b"[]")
    outer = _frame(1, inner, b"[]")
    assert not journal.has_frame_after(outer[:-1], 0, 1)
    # Its header torn as well: a frame that could not come next does not count.
    assert not journal.has_frame_after(b"????" + outer[4:-1], 0, 9)
    assert journal.has_frame_after(b"????" + outer[4:-1], 0, 8)


def test_a_newer_frame_is_never_taken_for_damage() -> None:
    """Its header is sound: to cut it off would destroy what a newer Holdfast acknowledged."""
    newer = bytearray(_frame(2, b"", b"[]"))
    newer[4:6] = (journal.VERSION + 1).to_bytes(2, "big")
    newer[28:32] = crc32c(newer[:28]).to_bytes(4, "big")
    with pytest.raises(FormatTooNew, match="use a newer Holdfast"):
        journal.read_frame(newer, 0)
    assert journal.has_frame_after(b"????" + bytes(newer), 0, 1)


def test_the_file_header_is_read_back_and_checked() -> None:
    """Store, number and cluster survive; any flipped bit, a short file and another kind are refused."""
    header = FileHeader(kind=FileKind.JOURNAL, store=3, number=12, cluster_id=CLUSTER)
    data = header.encode()
    assert FileHeader.decode(data, FileKind.JOURNAL) == header
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 1
        with pytest.raises(CorruptFrame):
            FileHeader.decode(damaged, FileKind.JOURNAL)
    with pytest.raises(CorruptFrame, match="shorter"):
        FileHeader.decode(data[:-1], FileKind.JOURNAL)
    with pytest.raises(CorruptFrame, match="not a carried file"):
        FileHeader.decode(data, FileKind.CARRIED)
